"""What is said of a refusal by NATS: no secret, and the refusal where a timeout comes after it."""

import asyncio

import pytest

from carico_core.domain import errors
from carico_core.runtime.bus import connection_options, nats_bus
from carico_core.runtime.bus import port as buses
from carico_core.runtime.bus.security import refusals
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock

REFUSED = Exception("nats: 'Authorization Violation'")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("nats://agent:hidden@bus:4222", "user agent of its address"),
        ("nats://agent:hid@hidden@bus:4222", "user agent of its address"),
        ("agent:hidden@bus:4222", "user agent of its address"),
        ("nats://hidden@bus:4222", "the token in its address"),
        ("hidden@bus:4222", "the token in its address"),
        ("nats://bus:4222, nats://hidden@other:4222", "the token in its address"),
        ("nats://bus:4222", "who show nothing"),
    ],
)
def test_a_refusal_names_the_user_and_shows_neither_password_nor_token(url: str, words: str) -> None:
    found = refusals.explain(REFUSED, buses.BusSettings(url=url), now_s=0.0)
    assert found.kind is refusals.Kind.IDENTITY
    assert words in found.text
    assert "bus:4222" in found.text
    assert "hid" not in found.text


async def test_a_timeout_does_not_replace_a_refusal_before_it() -> None:
    seen: list[refusals.Trouble] = []
    watch = connection_options.Watch(
        logs.get("test"), buses.BusSettings(), clock=clock.FakeClock(), on_trouble=seen.append
    )  # fmt: skip
    for error in (TimeoutError(), REFUSED, TimeoutError()):
        watch.note(error)
    assert watch.trouble == seen[1]
    assert [each.kind for each in seen] == [refusals.Kind.AWAY, refusals.Kind.IDENTITY, refusals.Kind.AWAY]
    await watch.on_reconnect()
    watch.note(TimeoutError())
    assert watch.trouble == seen[3]


async def test_a_client_that_cannot_connect_in_time_reports_why() -> None:
    closed = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = closed.sockets[0].getsockname()[1]
    closed.close()
    await closed.wait_closed()
    settings = buses.BusSettings(url=f"nats://127.0.0.1:{port}")
    with pytest.raises(errors.BusUnavailable, match=r"within 0\.5 s: .*[Cc]onnect"):
        await nats_bus.connect(settings, name="t", clock=clock.SystemClock(), owns_streams=False, within_s=0.5)
