"""The heartbeats of schedulers that share the work, as `carico status` and `carico doctor` read them."""

import asyncio
import dataclasses

import pytest

from carico_cli.live import members
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from tests.fixtures.golden import records
from tests.tools.memory import memory_bus

FULL = records.HEARTBEAT_REPORT


async def test_the_newest_heartbeat_of_each_member_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "LISTEN_S", 0.05)
    hub = memory_bus.Hub()
    listening = asyncio.create_task(members.listen(memory_bus.MemoryBus(hub)))
    await asyncio.sleep(0)
    sender = memory_bus.MemoryBus(hub)
    other = dataclasses.replace(FULL, replica="scheduler-b", is_leaving=True)
    for each in (other, FULL, dataclasses.replace(FULL, seq=9)):
        await sender.publish(subjects.member(each.replica), wire.encode_heartbeat(each))
    await sender.publish(subjects.member("scheduler-c"), b"{}")
    assert [(each.replica, each.seq) for each in await listening] == [(FULL.replica, 9), ("scheduler-b", FULL.seq)]


def test_members_that_take_pods_have_equal_shares() -> None:
    leaving = dataclasses.replace(FULL, replica="b", is_leaving=True)
    old = dataclasses.replace(FULL, replica="c", report=None)
    rows = members.rows([FULL, leaving, old])
    assert [row["share"] for row in rows] == [0.5, 0.0, 0.5]
    assert [row["committed"] for row in rows] == [4800, 4800, None]
    assert (rows[0]["lease"], rows[0]["why_not"], rows[2]["lease"]) == (True, None, None)
