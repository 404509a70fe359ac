"""What services say of themselves on the bus, and how they wait for it."""

import asyncio
import contextlib
import pathlib
import random
import ssl
import tomllib
from typing import Any

import pytest

from carico_core.domain import errors
from carico_core.runtime.bus import connection_options, nats_client, nats_server, services
from carico_core.runtime.bus import port as buses
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from tests.tools import waiting

ROOT = pathlib.Path(__file__).parents[4]


def test_services_say_the_version_that_all_packages_have() -> None:
    found = [ROOT / "libs/carico_core/pyproject.toml", *sorted((ROOT / "services").glob("*/pyproject.toml"))]
    assert len(found) == 8
    for each in found:
        assert tomllib.loads(each.read_text())["project"]["version"] == buses.VERSION, each


async def test_a_cancellation_that_nats_py_loses_while_it_tries_again_ends_the_attempt() -> None:
    class Refused:
        """Tries again for ever within `connect`, as nats-py does, and loses a cancellation as `wait_for` does."""

        is_closed = False

        async def connect(self, **options: Any) -> None:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(60.0)
            while True:
                await options["error_cb"](OSError("refused"))
                await asyncio.sleep(0.01)

        async def close(self) -> None:
            self.is_closed = True

    clock, client, settings = clocks.FakeClock(), Refused(), buses.BusSettings()
    watch = connection_options.Watch(logs.get("bus"), settings, clock=clock)
    options = connection_options.options(settings, name="test", inbox="_INBOX", watch=watch, rng=random.Random(0))
    joining = asyncio.ensure_future(nats_server.join(client, options, watch, random.Random(0)))  # type: ignore[arg-type]
    await asyncio.sleep(0.01)
    joining.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(joining, waiting.WAIT_S)
    assert client.is_closed


async def test_a_cancellation_that_nats_py_loses_while_a_service_stops_is_raised_again() -> None:
    """A scheduler that stopped leading and was asked to end at the same moment answered questions for ever."""

    class Draining:
        """Loses a cancellation as `wait_for` does."""

        async def stop(self) -> None:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(60.0)

    async def answer_forever() -> None:
        await services.Handle(Draining()).close()  # type: ignore[arg-type]
        await asyncio.Event().wait()

    answering = asyncio.ensure_future(answer_forever())
    await asyncio.sleep(0.01)
    answering.cancel()
    done, _ = await asyncio.wait([answering], timeout=waiting.WAIT_S)
    answering.cancel()
    assert done == {answering}
    assert answering.cancelled()


def test_a_server_that_has_just_gone_is_not_taken_for_an_old_one() -> None:
    client = nats_client.Client(ssl.create_default_context, shows_certificate=False)
    with pytest.raises(errors.BusUnavailable, match="not connected"):
        nats_server.check(client)
