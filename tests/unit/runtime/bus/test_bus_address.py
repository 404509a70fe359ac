"""The address of NATS, as services take it."""

import pytest

from carico_core.domain import errors
from carico_core.runtime.bus import port as buses
from carico_core.runtime.process import settings


def load(*argv: str, **environ: str) -> buses.BusSettings:
    return settings.load(buses.BusSettings, prefix="bus", argv=argv, environ=environ, program="x")


@pytest.mark.parametrize("url", ["nats:4222", "tls://me:p@ss@nats:4222, nats://b", "ws://x/path", "wss://[::1]:443"])
def test_an_address_is_as_a_nats_client_takes_it(url: str) -> None:
    assert load("--url", url).url == url


@pytest.mark.parametrize(
    ("url", "shown"),
    [("http://x", "http://x"), ("", ""), ("x:99999", "x:99999"), ("nats://ok:4222,http://me:secret@b", "http://b")],
)
def test_what_is_no_address_is_refused_without_its_password(url: str, shown: str) -> None:
    said = "--bus-url (CARICO_BUS_URL, NATS_URL): got '{}', expected an address such as nats://127.0.0.1:4222"
    with pytest.raises(errors.SettingsError) as caught:
        load("--url", url)
    assert str(caught.value) == said.format(shown)
    if url:
        with pytest.raises(errors.SettingsError, match="CARICO_BUS_URL, NATS_URL"):
            load(NATS_URL=url)
