"""What `carico doctor` reports of NATS' limits."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import orjson

from carico_cli.doctor import findings, limits, places
from carico_cli.live import addresses
from carico_core.domain import errors
from carico_core.wire import streams

PLACE = places.Place.of(dataclasses.replace(addresses.OF_SHELL, name="x", is_local=True), "carico")


class Bus:
    """A bus that answers from a table; the rest is refused, as for a reader."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.answers = answers

    async def request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes:
        if subject not in self.answers:
            raise errors.BusUnavailable(f"{subject}: no answer")
        return orjson.dumps(self.answers[subject])


def server(storage: int = 0, most: int = -1) -> dict[str, Any]:
    limit = {"max_storage": most, "max_memory": -1, "max_streams": -1}
    return {"storage": storage, "memory": 0, "streams": 7, "limits": limit}


def stream(size: int, most: int) -> dict[str, Any]:
    return {"config": {"max_bytes": most}, "state": {"bytes": size}}


async def test_a_bus_with_room_is_well() -> None:
    answers = {"$JS.API.INFO": server(), **{f"$JS.API.STREAM.INFO.{name}": stream(79, 100) for name in streams.ALL}}
    (found,) = await limits.check(Bus(answers), PLACE)
    assert found.level is findings.Level.OK


async def test_what_is_nearly_full_is_named_with_its_share_and_what_to_do() -> None:
    full = {f"$JS.API.STREAM.INFO.{name}": stream(95, 100) for name in streams.ALL}
    (found,) = await limits.check(Bus({"$JS.API.INFO": server(900, 1000), **full}), PLACE)
    assert found.level is findings.Level.WARN
    assert found.detail.startswith("JetStream's disk at 90% of its limit, CARICO_CAPACITY at 95% of its limit")
    # The oldest of these give way as intended.
    assert streams.DECISIONS not in found.detail and streams.HISTORY not in found.detail
    assert "carico logs nats --name x" in found.do


async def test_a_reader_may_not_look_and_strange_answers_are_no_finding() -> None:
    assert await limits.check(Bus({}), PLACE) == []
    assert await limits.check(Bus({"$JS.API.INFO": {"error": {"code": 503}}}), PLACE) == []
    (found,) = await limits.check(Bus({"$JS.API.INFO": {"storage": "much", "limits": None}}), PLACE)
    assert found.level is findings.Level.OK
