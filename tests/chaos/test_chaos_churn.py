"""Thousands of Pods pass through a leader and a standby: nothing of them is left but what is bounded."""

import asyncio
import collections
import gc

import pytest

from carico_scheduler.pods import record
from carico_scheduler.report import decisions
from carico_scheduler.state.state import State
from tests.chaos import churn
from tests.unit.scheduler import objects

PODS = 10_000
# Few, so that every cache is full at the first count.
KEPT = 250


def left_in(state: State) -> dict[str, int]:
    """How many entries the structures of a scheduler have that hold Pods."""
    return {
        "records": len(state.records),
        "not shown": len(state.records.unshown()),
        "queue": len(state.queue),
        "claims": len(state.reservations),
        "reserved": state.reservations.reserved_count,
        "by node": sum(state.fleet.row(slot).placed for slot in range(churn.NODES)),
    }


@pytest.mark.timeout(600)
def test_after_ten_thousand_pods_a_leader_and_a_standby_keep_what_they_kept_after_half_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(record, "GONE_KEPT", KEPT)
    monkeypatch.setattr(decisions, "REMEMBERED_MAX", KEPT)

    async def main() -> None:
        made = churn.Churn()
        without = (made.api, made.bus, asyncio.get_running_loop())

        async def kept_after(pods: int) -> list[collections.Counter[str]]:
            await made.pass_pods(pods)
            gc.collect()
            return [churn.referenced(scheduler, without=without) for scheduler in made.schedulers]

        async with made.running():
            half = await kept_after(PODS // 2)
            whole = await kept_after(PODS // 2)
            assert [scheduler.leadership.leads() for scheduler in made.schedulers].count(True) == 1
            assert made.passed == PODS
            for scheduler in made.schedulers:
                assert set(left_in(scheduler.engine.state).values()) == {0}, left_in(scheduler.engine.state)
            for before, after in zip(half, whole, strict=True):
                # Tasks, timers and messages of the moment vary; one object kept of each Pod would be 5,000.
                assert after.total() <= before.total() + 250, after - before

    objects.run_fast(main())
