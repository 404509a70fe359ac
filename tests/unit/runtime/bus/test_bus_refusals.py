"""What is said of a refusal by NATS: no secret, and the refusal where a timeout comes after it."""

import asyncio
import random

import pytest

from carico_core.domain import errors
from carico_core.runtime.bus import connection_options, nats_bus, nats_server
from carico_core.runtime.bus import port as buses
from carico_core.runtime.bus.security import refusals
from carico_core.runtime.bus.streams import jetstream
from carico_core.runtime.observe import client_metrics, logs, metrics
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


async def test_a_server_whose_disk_is_too_small_for_the_streams_says_so_until_it_is_not() -> None:
    """It is connected, and was said not to be: the reason was in a log alone."""
    seen: list[refusals.Trouble] = []
    watch = connection_options.Watch(
        logs.get("test"), buses.BusSettings(), clock=clock.FakeClock(), on_trouble=seen.append
    )  # fmt: skip
    said = ["NoServers", "ServerError: code=500 err_code=10047 description='insufficient storage resources available'"]

    async def prepare() -> None:
        if said:
            raise errors.BusUnavailable(f"streams: nats: {said.pop()}")

    bus_metrics = client_metrics.BusMetrics(metrics.Metrics("test"))
    await nats_server.until_ready(prepare, watch=watch, rng=random.Random(0))
    bus_metrics.trouble(seen[0])
    assert [each.kind for each in seen] == [refusals.Kind.LIMIT, refusals.Kind.OTHER]
    assert watch.trouble == seen[0]
    why = bus_metrics.why_not()
    assert why is not None and "reserve 296 MiB on its disk" in why and "max_file_store" in why


def test_the_disk_that_streams_reserve_is_what_they_define() -> None:
    kept = jetstream.streams(10.0)
    size_bytes = sum(each.max_bytes or 0 for each in kept if each.storage == "file")
    size_bytes += sum(each.max_bytes or 0 for each in jetstream._buckets(1))
    assert size_bytes == refusals.STREAMS_MIB << 20
