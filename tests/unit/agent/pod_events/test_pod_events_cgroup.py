"""The cgroup adapter on folders that look like cgroups: what the kernel's real ones do seldom."""

import asyncio
import contextlib
import errno
import os
import pathlib
import shutil
from collections.abc import AsyncIterator

import pytest

from carico_agent.pod_events import cgroup, inotify
from carico_agent.telemetry.cgroups import hierarchy, pod_throttling
from carico_core.runtime.process import clock as clocks
from tests.tools import waiting

UID = "1c9c1f31-3a0e-4b7c-9f0e-2f6a0d5f4c11"
OTHER = "2c9c1f31-3a0e-4b7c-9f0e-2f6a0d5f4c11"
IDS = ["f" * 64, "0" * 64, "a" * 64]


class Node:
    """A folder as the unified tree, with one node's group in it.

    A plain file system gives an inode of its own liking, kernfs a higher one each time: `age_order` keeps the order.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        self._made: list[pathlib.Path] = []
        self.tree = hierarchy.Tree(layout=hierarchy.Layout.V2, v1={}, unified=folder)
        self.group = folder / "node"
        self.make(self.group)

    def make(self, group: pathlib.Path, *, populated: int = 0) -> pathlib.Path:
        if not group.exists():
            group.mkdir(parents=True)
            self._made.append(group)
        (group / "cgroup.events").write_text(f"populated {populated}\nfrozen 0\n")
        return group

    def age_order(self, group: pathlib.Path) -> int:
        return self._made.index(group)

    def open(self) -> cgroup.CgroupPods:
        return cgroup.CgroupPods("node", clock=clocks.SystemClock(), discover=lambda: self.tree)


@pytest.fixture
def node(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    node = Node(tmp_path)
    monkeypatch.setattr(cgroup, "_age_order", node.age_order)
    return node


@contextlib.asynccontextmanager
async def running(pods: cgroup.CgroupPods) -> AsyncIterator[None]:
    task = asyncio.create_task(pods.run())
    try:
        yield
    finally:
        assert not task.done(), task
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_the_pods_of_a_node_that_starts_after_its_agent_are_seen(tmp_path: pathlib.Path) -> None:
    node = Node(tmp_path)
    shutil.rmtree(node.group)
    pods = node.open()
    async with running(pods):
        await asyncio.sleep(0)
        node.make(node.group)
        node.make(node.group / f"pod{UID}", populated=1)
        await waiting.until(lambda: pods.current().running)
        assert pods.current().running == {UID}


async def test_the_pods_of_a_nodes_group_that_is_made_again_are_seen(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroup, "UNWATCHED_SCAN_S", 0.02)
    pods = node.open()
    node.make(node.group / f"pod{UID}", populated=1)
    async with running(pods):
        await waiting.until(lambda: pods.current().running == {UID})
        shutil.rmtree(node.group)
        await waiting.until(lambda: not pods.current().running)
        node.make(node.group)
        await waiting.until(lambda: pods._unwatched is False)
        node.make(node.group / f"pod{OTHER}", populated=1)
        await waiting.until(lambda: pods.current().running)
        assert pods.current().running == {OTHER}


async def test_the_sandbox_is_the_first_made_whatever_its_id(node: Node) -> None:
    pods = node.open()
    pod = node.group / f"pod{UID}"
    async with running(pods):
        node.make(pod, populated=1)
        node.make(pod / IDS[0], populated=1)
        await waiting.until(lambda: pods._states.known() == {UID})
        node.make(pod / IDS[1], populated=1)
        await waiting.until(lambda: pods.current().running == {UID})
        node.make(pod / IDS[2], populated=1)
        node.make(pod / IDS[1], populated=0)
        await asyncio.sleep(0.01)
        assert pods.current().running == {UID}, "one of two containers still runs"
        node.make(pod / IDS[2], populated=0)
        await waiting.until(lambda: not pods.current().running)
        assert pods.current().ended == {UID}


async def test_folders_that_are_no_pods_are_not_counted(node: Node) -> None:
    pods = node.open()
    for name in ("system.slice", "podman", "pod", "kubepods", "carico-pods"):
        node.make(node.group / name, populated=1)
    node.make(node.group / "kubepods" / "burstable" / f"pod{UID}", populated=1)
    async with running(pods):
        await waiting.until(lambda: pods.current().running)
        assert pods.current().running == {UID}


async def test_lost_events_are_made_up_for(node: Node) -> None:
    pods = node.open()
    async with running(pods):
        await waiting.until(lambda: pods._notify is not None and bool(pods._watches))
        assert pods._notify is not None
        loop = asyncio.get_running_loop()
        loop.remove_reader(pods._notify.fileno())
        node.make(node.group / f"pod{UID}", populated=1)
        # The queue as the kernel leaves it after an overflow: one event that says so.
        list(pods._notify.read())
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pods._notify, "read", lambda: iter([(-1, inotify.IN_Q_OVERFLOW, "")]))
            pods._on_readable()
        assert pods.current().running == {UID}


async def test_without_watches_left_pods_are_still_seen(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: inotify.Inotify, path: pathlib.Path, mask: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(inotify.Inotify, "add", refuse)
    monkeypatch.setattr(cgroup, "UNWATCHED_SCAN_S", 0.02)
    pods = node.open()
    async with running(pods):
        await asyncio.sleep(0)
        pod = node.make(node.group / f"pod{UID}", populated=1)
        await waiting.until(lambda: pods.current().running == {UID})
        node.make(pod, populated=0)
        await waiting.until(lambda: not pods.current().running)
        assert pods.current().ended == {UID}


async def test_the_descriptor_is_closed_with_the_task(node: Node) -> None:
    pods = node.open()
    async with running(pods):
        await waiting.until(lambda: pods._notify is not None)
    assert pods._notify is None


async def test_pods_go_on_while_nothing_can_be_opened(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup, "UNWATCHED_SCAN_S", 0.02)
    pods = node.open()
    pod = node.make(node.group / f"pod{UID}", populated=1)
    async with running(pods):
        await waiting.until(lambda: pods.current().running == {UID})
        looks: list[int] = []

        def refuse(path: object) -> None:
            looks.append(1)
            raise OSError(errno.EMFILE, "Too many open files")

        with monkeypatch.context() as spent:
            spent.setattr(os, "scandir", refuse)
            node.make(node.group / f"pod{OTHER}", populated=1)
            (pod / "cgroup.events").write_text("populated 1\nfrozen 0\n")
            await waiting.until(lambda: len(looks) > 3)
            assert pods.current().running == {UID}
            assert not pods.current().ended
        await waiting.until(lambda: pods.current().running == {UID, OTHER})


def test_limits_are_those_of_before_while_nothing_can_be_opened(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    pod = node.make(node.group / f"pod{UID}", populated=1)
    (pod / "cpu.max").write_text("50000 100000\n")
    (pod / "cpu.stat").write_text("usage_usec 1\nthrottled_usec 0\n")
    throttling = pod_throttling.PodThrottling(node.group)
    throttling.rescan()

    def refuse(path: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "scandir", refuse)
    throttling.rescan()
    assert throttling.any_limit
