"""A scheduler that leads alone, next to others that share the work: it binds nothing while they may."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from carico_core.domain import decision
from carico_core.runtime.process import settings, tasks
from carico_scheduler import app
from carico_scheduler import settings as setting
from carico_scheduler.sharing import heartbeats
from carico_scheduler.sharing.claims import stream
from tests.tools.memory import memory_bus
from tests.unit.scheduler import objects
from tests.unit.scheduler.sharing import shared_world

READY_S = 4.0


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Binds take 2 s at most here. A bus that is cut is noticed."""
    monkeypatch.setattr(stream, "SETTLE_S", 3.0)
    monkeypatch.setattr(shared_world.Connection, "connected", property(lambda connection: not connection.is_cut))


@asynccontextmanager
async def led(made: shared_world.SharedWorld, *flags: str) -> AsyncIterator[app.Scheduler]:
    """A scheduler with `leader` at work in the same cluster."""
    loaded = settings.load(setting.SchedulerSettings, prefix="scheduler", argv=flags, environ={}, program="test")
    stop, leader = tasks.Stop(), app.Scheduler(loaded, api=made.kube, clock=made.clock)
    running = asyncio.create_task(leader.run(memory_bus.MemoryBus(made.hub), stop))
    # It hears what nodes advertise.
    made.engines.append(leader.engine)
    yield leader
    made.engines.remove(leader.engine)
    stop.set()
    await running


def bound_by(leader: app.Scheduler) -> int:
    return int(leader._counted.decisions.labels(decision.Outcome.BOUND.value)._value.get())


async def world(**options: Any) -> shared_world.SharedWorld:
    made = shared_world.SharedWorld(engines=2, room=100.0, **options)
    await made.start(nodes=2)
    await asyncio.sleep(READY_S)
    return made


def test_without_election_it_binds_nothing_until_the_last_binds_of_members_have_arrived() -> None:
    async def main() -> None:
        made = await world()
        async with led(made, "--no-leader-election") as leader:
            await asyncio.sleep(1.0)
            uids = [made.create_pod(f"pod-{index}") for index in range(20)]
            await asyncio.sleep(2.0)
            assert made.kube.binds == dict.fromkeys(uids, 1)
            assert bound_by(leader) == 0
            assert "shares the work" in leader.health.not_ready()["sharing"]
            assert leader._counted.other_mode._value.get() == 1
            for connection in made.connections:
                connection.is_cut = True
            more = [made.create_pod(f"more-{index}") for index in range(5)]
            await asyncio.sleep(stream.SETTLE_S - 0.5)
            assert bound_by(leader) == 0
            assert "have just stopped" in leader.health.not_ready()["sharing"]
            await asyncio.sleep(heartbeats.ALIVE_S + 1.0)
            assert bound_by(leader) == 5
            assert made.kube.binds == dict.fromkeys([*uids, *more], 1)
            assert "sharing" not in leader.health.not_ready()
            assert leader._counted.other_mode._value.get() == 0
        await made.stop()

    objects.run_fast(main())


def test_with_the_lease_it_binds_nothing_before_members_have_noticed_that() -> None:
    async def main() -> None:
        made = await world()
        async with led(made) as leader:
            await asyncio.sleep(2.0)
            assert leader.leadership.leads(), "the Lease of these members is not that of the API"
            first = [made.create_pod(f"pod-{index}") for index in range(10)]
            await asyncio.sleep(2.0)
            assert bound_by(leader) == 0
            assert made.kube.binds == dict.fromkeys(first, 1)
            assert "sharing" in leader.health.not_ready()
            made.intruder = leader.leadership.identity
            second = [made.create_pod(f"more-{index}") for index in range(10)]
            await asyncio.sleep(stream.SETTLE_S - 0.1)
            assert made.kube.binds == dict.fromkeys(first, 1)
            await asyncio.sleep(1.0)
            assert bound_by(leader) == 10
            assert made.kube.binds == dict.fromkeys([*first, *second], 1)
        await made.stop()

    objects.run_fast(main())


def test_a_member_that_comes_back_as_a_leader_by_the_same_name_waits_until_the_others_stop() -> None:
    async def main() -> None:
        made = await world()
        # The member ends.
        made.connections[1].is_cut = True
        async with led(made, "--leader-identity", "identity-1") as leader:
            made.intruder = "identity-1"
            await asyncio.sleep(heartbeats.IDENTITY_KEPT_S - 5.0)
            first = made.create_pod("first")
            await asyncio.sleep(2.0)
            assert made.kube.binds == {first: 1}
            assert bound_by(leader) == 0
            await asyncio.sleep(5.0 + stream.SETTLE_S)
            second = made.create_pod("second")
            await asyncio.sleep(2.0)
            assert made.kube.binds == {first: 1, second: 1}
            assert bound_by(leader) == 1
        await made.stop()

    objects.run_fast(main())
