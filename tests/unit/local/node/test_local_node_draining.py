"""A node's way out."""

import asyncio

import pytest

from carico_core.domain import errors
from carico_core.runtime.process import tasks
from carico_local.node.reporting import draining
from tests.tools import waiting


class Node:
    def __init__(self, *, error: Exception | None = None) -> None:
        self.done: list[str] = []
        self._error = error

    async def cordon(self) -> None:
        await self._do("cordon")

    async def remove(self) -> None:
        await self._do("remove")

    async def _do(self, what: str) -> None:
        if self._error is not None:
            raise self._error
        self.done.append(what)


class Pods:
    def __init__(self, active: int) -> None:
        self.active = active
        self.done: list[str] = []

    async def shut_down(self, *, grace_s: float) -> None:
        self.done.append(f"shut down within {grace_s:g} s")

    def discard(self) -> None:
        self.done.append("discard")


class Statuses:
    def __init__(self, *, api_is_away: bool = False) -> None:
        self._api_is_away = api_is_away

    async def drain(self) -> None:
        if self._api_is_away:
            await asyncio.Event().wait()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draining, "ARRIVING_S", 0.0)
    monkeypatch.setattr(draining, "LOOK_EVERY_S", 0.0)
    monkeypatch.setattr(draining, "WRITTEN_S", 0.01)


async def test_it_waits_for_its_pods_after_it_is_cordoned() -> None:
    stop, drained, node, pods = tasks.Stop(), tasks.Stop(), Node(), Pods(2)
    async with asyncio.TaskGroup() as group:
        work = group.create_task(draining.run(stop, drained, node=node, pods=pods, within_s=60.0))
        await asyncio.sleep(0.0)
        assert not node.done
        stop.set()
        while not node.done:
            await asyncio.sleep(0.0)
        assert not drained.is_set
        pods.active = 0
        async with asyncio.timeout(waiting.WAIT_S):
            await drained.wait()
        assert not work.done()
        work.cancel()
    assert node.done == ["cordon"]


async def test_pods_that_do_not_finish_are_not_waited_for_longer() -> None:
    stop, drained = tasks.Stop(), tasks.Stop()
    stop.set()
    async with asyncio.TaskGroup() as group:
        work = group.create_task(draining.run(stop, drained, node=Node(), pods=Pods(1), within_s=0.01))
        async with asyncio.timeout(waiting.WAIT_S):
            await drained.wait()
        assert not work.done(), "the node itself stays until it is asked to go"
        work.cancel()


async def test_without_a_time_for_it_the_node_ends_at_once() -> None:
    stop, drained, node = tasks.Stop(), tasks.Stop(), Node()
    stop.set()
    async with asyncio.TaskGroup() as group:
        work = group.create_task(draining.run(stop, drained, node=node, pods=Pods(5), within_s=0.0))
        async with asyncio.timeout(waiting.WAIT_S):
            await drained.wait()
        work.cancel()
    assert not node.done


async def test_an_api_that_is_gone_holds_nothing_up() -> None:
    gone = Node(error=errors.ApiUnavailable("PATCH", "refused"))
    await draining.leave(gone)
    there = Node()
    await draining.leave(there)
    assert there.done == ["remove"]


async def test_records_stay_for_the_next_process_if_the_api_does_not_take_the_last_statuses() -> None:
    pods = Pods(0)
    await draining.end(pods, Statuses(), grace_s=2.0)
    assert pods.done == ["shut down within 2 s", "discard"]
    # It would find Pods that it does not know, and run again those that had finished.
    pods = Pods(0)
    await draining.end(pods, Statuses(api_is_away=True), grace_s=2.0)
    assert pods.done == ["shut down within 2 s"]
