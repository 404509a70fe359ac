"""What outlives a process: moves of the hour and rests, whatever else the ConfigMap says."""

import asyncio
import dataclasses
from typing import Any

import pytest

from carico_core.domain import errors
from carico_core.numerics.rescheduling.containers import gains
from carico_core.runtime.process import clock as clocks
from carico_rescheduler import journal, reflection
from carico_rescheduler.context import movable
from carico_rescheduler.moves import record as records
from tests.tools.memory import memory_kube


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

    def write_again(self, data: dict[str, Any]) -> None:
        found = self.api.objects.get("configmaps", ("carico", journal.NAME), "test")
        found["data"] |= data
        self.api.objects.update("configmaps", ("carico", journal.NAME), found, "test")


def failed(owner: str, state: records.State = records.State.KEPT) -> records.Record:
    made = records.Record(
        pod="default/web-1", uid="u", source="a", target="b", mode=movable.Mode.EVICT, why="", gain=0.0, began_s=0.0,
        began_at_ns=0, owner=owner,
    )  # fmt: skip
    made.advance(state, "no image", now_s=1.0)
    return made


async def move(made: journal.Journal, uid: str) -> None:
    """Make a move as a round does."""
    await made.read()
    await made.begin(uid)
    await made.end(uid, failed("", records.State.MOVED))


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
        await first.end("uid-19", failed("default/one"))
        assert await site.journal().moving() == {f"uid-{number}" for number in range(4, 19)}

    asyncio.run(main())


def test_a_replica_that_leads_again_knows_the_move_that_another_has_left() -> None:
    """Else nobody would end it: one Pod too many for ever."""

    async def main() -> None:
        site = Site()
        first, second = site.journal(), site.journal()
        for number in range(20):
            await move(first, f"first-{number}")
        for number in range(20):
            await move(second, f"second-{number}")
        await second.begin("left")
        assert await first.moving() == {"left"}
        await move(first, "next")
        assert await site.journal().moving() == {"left"}

    asyncio.run(main())


def test_a_move_that_could_not_be_noted_hides_none_that_another_has_left() -> None:
    async def main() -> None:
        site = Site()
        first, second = site.journal(), site.journal()
        site.api.go_away()
        with pytest.raises(errors.ApiUnavailable):
            await first.begin("not-noted")
        # The Lease ends meanwhile.
        site.api.come_back()
        await second.begin("left")
        assert await first.moving() == {"left"}

    asyncio.run(main())


def test_a_move_whose_marks_remain_is_known_however_many_others_are_made() -> None:
    async def main() -> None:
        site = Site()
        made = site.journal()
        await made.begin("marked")
        # Another read, of a query, is answered with what was there before.
        site.write_again({"moving": "{}"})
        await made.read()
        refused = failed("default/one")
        refused.is_marked = True
        await made.end("marked", refused)
        for number in range(20):
            await move(made, f"uid-{number}")
        assert await site.journal().moving() == {"marked"}

    asyncio.run(main())


def test_a_move_that_was_made_counts_although_its_replica_does_not_lead_any_more() -> None:
    async def main() -> None:
        site = Site()
        made = site.journal()
        await made.begin("uid")

        def refuse() -> None:
            raise records.NotLeading("not leading")

        made.permit = refuse
        await made.end("uid", failed("", records.State.MOVED))

    asyncio.run(main())


def test_the_next_process_lets_pods_rest() -> None:
    async def main() -> None:
        site = Site()
        await site.journal().end("u", failed("default/one"))
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
        await made.end("u", failed("default/one"))
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
        {"moves": f'{{"{"9" * 400}": 9}}'}, {"moves": f'{{"{"9" * 5000}": 9}}'},
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


@pytest.mark.parametrize(
    ("compared", "share"), [([], 1.0), ([(2.0, 1.0)], 0.5), ([(2.0, 3.0)], 1.0), ([(2.0, -1.0), (2.0, 0.5)], 0.2)]
)
def test_what_plans_reached_of_what_they_predicted_is_known_to_later_leaders(
    compared: list[tuple[float, float]], share: float
) -> None:
    made = reflection.Reflection()
    made.take_over({"compared": compared, "measured_at": 1000.0})
    later = reflection.Reflection()
    later.take_over(made.kept())
    assert later.reached(1000.0 + reflection.REST_S) == share
    assert later.reached(1001.0 + reflection.REST_S) == 1.0, "what was measured earlier was of another load"
    assert later.reached(999.0) == 1.0, "the clock was set back"


def plan(made: reflection.Reflection, now_s: float) -> None:
    """Note that a plan was carried out, which predicted a gain of 2 tasks."""
    waiting = reflection.Made(
        traffic_bytes=1e6, excess_tasks=4.0, weights=gains.Weights(task_bytes=1e7), predicted=2.0, ended_s=now_s
    )
    made.take_over(made.kept() | {"waiting": dataclasses.asdict(waiting)})


def test_the_next_leader_measures_the_last_plan_and_rests_where_plans_do_not_pay() -> None:
    async def main() -> None:
        site = Site()
        now_s = 1000.0
        for number in range(reflection.COMPARED):
            # Each by another leader.
            before, later = reflection.Reflection(), reflection.Reflection()
            kept = site.journal()
            await kept.read()
            before.take_over(kept.effects)
            plan(before, now_s)
            await kept.note_effects(before.kept())
            next_kept = site.journal()
            await next_kept.read()
            later.take_over(next_kept.effects)
            assert later.is_settling()
            assert later.measure(1e6, 4.0, now_s + reflection.SETTLE_S - 1.0) is None
            now_s += reflection.SETTLE_S
            assert later.measure(1e6, 4.0, now_s) == (2.0, 0.0)
            assert bool(later.rests(now_s)) is (number == reflection.COMPARED - 1)
            await next_kept.note_effects(later.kept())
        last = reflection.Reflection()
        await kept.read()
        last.take_over(kept.effects)
        assert last.rests(now_s + 60.0)
        assert not last.rests(now_s + reflection.REST_S + 1.0)
        assert not last.rests(now_s - 60.0), "the clock was set back: no rest is longer than an hour"

    asyncio.run(main())


@pytest.mark.parametrize(
    "text",
    [
        "[]", "{", '{"waiting": 7}', '{"waiting": {"predicted": 1.0}}', '{"compared": [[1]]}', '{"compared": 3}',
        '{"compared": [[1e308, "inf"]]}', '{"rests_until": "nan"}',
        '{"rests_until": "soon"}',
        '{"waiting": {"traffic_bytes": 1, "excess_tasks": 1, "predicted": 1, "ended_s": 1, "weights": {}}}',
    ],
)  # fmt: skip
def test_what_people_write_in_place_of_effects_is_left_out(text: str) -> None:
    async def main() -> None:
        site = Site()
        site.write({"effects": text})
        made, kept = reflection.Reflection(), site.journal()
        await kept.read()
        made.take_over(kept.effects)
        assert made.kept() == reflection.Reflection().kept()

    asyncio.run(main())
