"""How late the scheduler's snapshot is: from a change of telemetry, and from a Pod's exit, by a real agent on NATS.

The scheduler's own intake and state run here in the benchmark's process, on the same subscription a scheduler has; a
Pod is a process in a Pod cgroup of an emulated node's cgroup, and its exit is the instant the kernel reaps it.
"""

import asyncio
import contextlib
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

import numpy as np

from carico_core.domain import cluster
from carico_core.runtime.bus import nats_bus
from carico_core.runtime.bus import port as buses
from carico_core.runtime.process import clock
from carico_core.wire import subjects
from carico_local.cgroups import group as groups
from carico_local.cgroups import layout as layouts
from carico_scheduler.intake import advertisements
from carico_scheduler.rules import policy
from carico_scheduler.state import state
from tests.tools.sites import nats_site

Row = tuple[str, float, str, str]
NODE = "bench"


class Snapshot:
    """A scheduler's intake and state, drained as soon as something arrives."""

    def __init__(self) -> None:
        self._intake = advertisements.Advertisements(lease_s=10.0, on_drop=lambda *_: None)
        self._state = state.State(policy.Policy(), random.Random(0))
        self._state.put_node(
            cluster.Node(
                name=NODE, uid="1", labels={}, taints=(), unschedulable=False, ready=True,
                deleting=False, allocatable_cores=4.0, allocatable_bytes=2.0**33, pod_limit=110,
            )
        )  # fmt: skip
        # (in the snapshot at, newest sample taken at) in wall seconds, and the Pods that still count.
        self.heard: list[tuple[float, float]] = []
        self.covers: frozenset[str] = frozenset()
        self.pods = 0
        self.changed = asyncio.Event()

    def on_message(self, subject: str, payload: bytes) -> None:
        """What the scheduler's callback does, and its next drain."""
        self._intake.store(subject, payload, time.monotonic())
        for found in self._intake.drain():
            self._state.put_advertisement(found, time.monotonic())
            self.heard.append((time.time(), found.advertisement.sampled_at_ns / 1e9))
            self.covers, self.pods = found.advertisement.covers, found.advertisement.pods
            self.changed.set()


def run(quick: bool) -> list[Row]:
    """p50 and p99 of both ways, in ms."""
    found = layouts.read_layout()
    if os.geteuid() != 0 or not found.trees:
        return []
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_measure(pathlib.Path(folder), found, quick=quick))


async def _measure(folder: pathlib.Path, layout: layouts.Layout, *, quick: bool) -> list[Row]:
    node = groups.Group(layout=layout, path=f"carico-bench-latency-{os.getpid()}")
    node.create()
    server = nats_site.NatsServer(folder / "nats").start()
    flags = ["--node", NODE, "--bus-url", server.url, "--scope", "cgroup", "--cgroup", node.path, "--cores", "4"]
    agent = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "carico_agent", *flags, "--scale", "0.125", "--http-port", "-1",
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        bus = await nats_bus.connect(buses.BusSettings(url=server.url), name="bench", clock=clock.SystemClock())
        snapshot = Snapshot()
        await bus.subscribe(subjects.CAPACITY_ALL, snapshot.on_message)
        await snapshot.changed.wait()
        exits_s = [await _one_pod(snapshot, node, number) for number in range(20 if quick else 200)]
        await asyncio.sleep(10 if quick else 60)
        await bus.close()
    finally:
        agent.terminate()
        await agent.wait()
        server.stop()
        node.destroy()
    return [
        ("Pod exit to snapshot, p50", float(np.percentile(exits_s, 50)) * 1e3, "ms", ""),
        ("Pod exit to snapshot, p99", float(np.percentile(exits_s, 99)) * 1e3, "ms", "at most 150"),
        ("telemetry change to snapshot, p50", float(np.percentile(_changes_s(snapshot), 50)) * 1e3, "ms", ""),
        (
            "telemetry change to snapshot, p99",
            float(np.percentile(_changes_s(snapshot), 99)) * 1e3,
            "ms",
            "at most 1200",
        ),
    ]


async def _one_pod(snapshot: Snapshot, node: groups.Group, number: int) -> float:
    """Seconds from a Pod's exit to the snapshot that does not count it any more."""
    uid = f"{number:08x}-0000-4000-8000-000000000000"
    pod = node.child(f"pod{uid}")
    pod.create()
    join = "".join(f"echo $$ > {path}; " for path in pod.procs_files)
    process = await asyncio.create_subprocess_exec("sh", "-c", join + "exec sleep 1000")
    await _until(snapshot, lambda: uid in snapshot.covers and snapshot.pods == 1)
    process.kill()
    await process.wait()
    ended_s = time.time()
    await _until(snapshot, lambda: snapshot.pods == 0)
    took_s = max(0.0, snapshot.heard[-1][0] - ended_s)
    pod.destroy()
    return took_s


async def _until(snapshot: Snapshot, condition: object) -> None:
    assert callable(condition)
    async with asyncio.timeout(30):
        while not condition():
            snapshot.changed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(snapshot.changed.wait(), 0.5)


def _changes_s(snapshot: Snapshot) -> list[float]:
    """Seconds from any instant to the first snapshot with a sample taken after it, over the quiet end of the run."""
    quiet = [entry for entry in snapshot.heard if entry[0] > snapshot.heard[-1][0] - 60.0]
    instants = np.linspace(quiet[0][1], quiet[-2][1], 2000)
    arrivals = np.array([at for at, _ in quiet])
    sampled = np.array([at for _, at in quiet])
    firsts = np.searchsorted(sampled, instants, side="right")
    return [
        float(arrivals[first] - instant) for first, instant in zip(firsts, instants, strict=True) if first < len(quiet)
    ]
