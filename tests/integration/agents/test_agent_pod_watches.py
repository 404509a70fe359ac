"""What the cgroup adapter leaves at the kernel after Pods of real cgroups have come and gone."""

import asyncio
import contextlib
import os
import pathlib
import time
from collections.abc import AsyncIterator, Iterator

import pytest

from carico_agent.pod_events import cgroup
from carico_core.runtime.process import clock as clocks
from carico_local.cgroups import group as groups
from carico_local.cgroups import layout as layouts
from tests.tools import waiting

PODS = 50


@pytest.fixture
def node() -> Iterator[groups.Group]:
    layout = layouts.read_layout()
    if layouts.UNIFIED not in layout.trees:
        pytest.skip("no unified cgroup tree here: there is no inotify of cgroups")
    made = groups.Group(layout=layout, path=f"carico-test-watches-{os.getpid()}/n{time.monotonic_ns()}")
    try:
        made.create()
    except OSError as error:
        pytest.skip(f"no right to make cgroups here: {error}")
    yield made
    assert made.destroy()
    groups.Group(layout=layout, path=f"carico-test-watches-{os.getpid()}").try_remove()


@contextlib.asynccontextmanager
async def running(node: groups.Group) -> AsyncIterator[cgroup.CgroupPods]:
    pods = cgroup.CgroupPods(node.path, clock=clocks.SystemClock())
    task = asyncio.create_task(pods.run())
    try:
        await waiting.until(lambda: pods._notify is not None)
        await asyncio.sleep(0)
        yield pods
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def watches(pods: cgroup.CgroupPods) -> int:
    """How many watches the kernel holds: proc_pid_fdinfo(5)."""
    assert pods._notify is not None
    return pathlib.Path(f"/proc/self/fdinfo/{pods._notify.fileno()}").read_text("ascii").count("inotify wd:")


def uid(number: int) -> str:
    return f"1c9c1f31-3a0e-4b7c-9f0e-{number:012x}"


async def until_known(pods: cgroup.CgroupPods, wanted: str) -> None:
    """Returns once the Pod is known."""
    await waiting.until(lambda: wanted in pods._states.known())


async def test_pods_that_are_gone_leave_no_watches(node: groups.Group) -> None:
    async with running(node) as pods:
        before = watches(pods)
        for number in range(PODS):
            pod = node.child(f"kubepods/pod{uid(number)}")
            pod.child("a" * 64).create()
            pod.child("b" * 64).create()
            await until_known(pods, uid(number))
            assert pod.destroy()
        await waiting.until(lambda: not pods._states.known())
        assert watches(pods) == before + 1, "the folder of all Pods alone"


async def test_containers_that_are_restarted_leave_no_watches(node: groups.Group) -> None:
    async with running(node) as pods:
        pod = node.child(f"pod{uid(0)}")
        pod.child("a" * 64).create()
        await waiting.until(lambda: uid(0) in pods._states.known())
        await waiting.until(lambda: watches(pods) == 5)
        for number in range(PODS):
            container = pod.child(f"{number:064x}")
            container.create()
            await waiting.until(lambda: watches(pods) == 6)
            assert container.destroy()
            await waiting.until(lambda: watches(pods) == 5)


async def test_what_a_look_does_not_find_is_watched_no_more(node: groups.Group) -> None:
    async with running(node) as pods:
        assert pods._notify is not None
        before = watches(pods)
        pod = node.child(f"pod{uid(0)}")
        pod.create()
        await waiting.until(lambda: watches(pods) == before + 2)
        asyncio.get_running_loop().remove_reader(pods._notify.fileno())
        assert pod.destroy()
        pods._scan(pods._root)
        assert watches(pods) == before


async def test_a_nodes_group_that_is_made_again_is_noticed_at_once(node: groups.Group) -> None:
    async with running(node) as pods:
        assert node.destroy()
        node.create()
        pod = node.child(f"pod{uid(1)}")
        pod.create()
        await waiting.until(lambda: uid(1) in pods._states.known())
