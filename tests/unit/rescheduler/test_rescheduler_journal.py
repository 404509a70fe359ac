"""What outlives a process: moves of the hour and rests, whatever else the ConfigMap says."""

import asyncio
import dataclasses
from typing import Any

import pytest

from carico_core.domain import errors
from carico_core.runtime.kube import memory_kube
from carico_core.runtime.process import clock as clocks
from carico_rescheduler import journal
from carico_rescheduler.context import movable
from carico_rescheduler.moves import record as records


class Site:
    """An API, and reschedulers one after another."""

    def __init__(self) -> None:
        self.clock = clocks.FakeClock()
        self.api = memory_kube.MemoryKube(clock=self.clock)

    def journal(self) -> journal.Journal:
        return journal.Journal(api=self.api, namespace="carico", clock=self.clock, permit=lambda: None)

    def write(self, data: dict[str, Any]) -> None:
        self.api.objects.create(
            "configmaps", {"metadata": {"name": journal.NAME, "namespace": "carico"}, "data": data}, "test"
        )  # fmt: skip


def failed(owner: str) -> records.Record:
    made = records.Record(
        pod="default/web-1", uid="u", source="a", target="b", mode=movable.Mode.EVICT, why="", gain=0.0, began_s=0.0,
        owner=owner,
    )  # fmt: skip
    made.advance(records.State.KEPT, "no image", now_s=1.0)
    return made


def test_the_next_process_counts_the_moves_of_the_last_hour() -> None:
    async def main() -> None:
        site = Site()
        first = site.journal()
        for _ in range(3):
            await first.begin("uid")
            site.clock.advance(1000.0)
        later = site.journal()
        await later.read()
        assert later.moves_of_the_hour() == 3
        site.clock.advance(journal.HOUR_S - 2000.0)
        await later.begin("uid")
        assert later.moves_of_the_hour() == 2
        # It still knows what it has noted itself.
        await first.read()
        assert first.moves_of_the_hour() == 2

    asyncio.run(main())


def test_the_next_process_knows_which_moves_have_begun_and_were_not_given_up() -> None:
    async def main() -> None:
        site = Site()
        first = site.journal()
        for number in range(20):
            await first.begin(f"uid-{number}")
        await first.end(dataclasses.replace(failed("default/one"), uid="uid-19"))
        assert await site.journal().moving() == {f"uid-{number}" for number in range(4, 19)}

    asyncio.run(main())


def test_the_next_process_lets_pods_rest() -> None:
    async def main() -> None:
        site = Site()
        await site.journal().end(failed("default/one"))
        later = site.journal()
        await later.read()
        assert later.rests() == {"default/one": "default/web-1: no image"}
        site.clock.advance(journal.FAILED_REST_S + 1.0)
        assert later.rests() == {}

    asyncio.run(main())


def test_a_move_that_cannot_be_noted_does_not_begin_and_a_rest_is_noted_later() -> None:
    async def main() -> None:
        site = Site()
        made = site.journal()
        site.api.go_away()
        with pytest.raises(errors.ApiUnavailable):
            await made.begin("uid")
        await made.end(failed("default/one"))
        assert made.rests()
        site.api.come_back()
        await made.begin("uid")
        later = site.journal()
        await later.read()
        assert later.rests() == made.rests() and later.moves_of_the_hour() == made.moves_of_the_hour() == 2

    asyncio.run(main())


@pytest.mark.parametrize(
    "data",
    [
        {"moves": "{", "rests": "7"}, {"moves": "[]", "rests": '{"a": 1, "b": [1], "c": ["x", "y"]}'},
        {"moves": '{"x": 1, "-3": 4, "28333333": true, "28333334": "2", "1": 9, "99999999999": 9}'},
        {"rests": '{"a": [99999999999, "for ever"], "b": [0, "past"]}'},
    ],
)  # fmt: skip
def test_what_is_not_ours_counts_for_nothing(data: dict[str, Any]) -> None:
    async def main() -> None:
        site = Site()
        site.write(data)
        made = site.journal()
        assert await made.read() == ""
        assert made.moves_of_the_hour() == 0 and made.rests() == {}
        await made.begin("uid")
        assert made.moves_of_the_hour() == 1

    asyncio.run(main())


def test_a_pause_keeps_what_else_is_noted() -> None:
    async def main() -> None:
        site = Site()
        made = site.journal()
        await made.begin("uid")
        await made.pause(paused=True)
        later = site.journal()
        assert (await later.read()).startswith("paused since") and later.moves_of_the_hour() == 1

    asyncio.run(main())
