"""Measure the time without binds when the leading scheduler is killed or stopped: two schedulers, default settings.

Real processes on NATS and the embedded API; a Pod comes every 50 ms, and two nodes advertise room for all of them.
"""

import asyncio
import collections
import contextlib
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator

from carico_core.domain import errors
from carico_core.runtime.bus import nats_bus
from carico_core.runtime.bus import port as buses
from carico_core.runtime.kube import api_actions, api_client
from carico_core.runtime.process import clock
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_core.wire.kubernetes import lease
from carico_local.api import access
from carico_local.cluster import free_ports
from carico_local.cluster.services import readiness
from tests.tools import advertised
from tests.tools.sites import nats_site

Row = tuple[str, float, str, str]
CLOCK = clock.SystemClock()
NODES = ("node-1", "node-2")
PODS_PATH = "/api/v1/namespaces/default/pods"
POD_EVERY_S = 0.05
RUNNING_MOST = 100
# Not in step with renewals.
SETTLE_S = 3.3
ROOM = 100_000.0


def run(quick: bool) -> list[Row]:
    """Return median and worst over several changes of leader of each kind; ten take six minutes."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_measure(pathlib.Path(folder), changes=1 if quick else 10))


class Scene:
    """Two running schedulers."""

    def __init__(
        self, folder: pathlib.Path, nats_url: str, client: api_client.KubeClient, bus: nats_bus.NatsBus
    ) -> None:
        self._folder = folder
        self._nats_url = nats_url
        self._client = client
        self._bus = bus
        self._schedulers: dict[str, subprocess.Popen[bytes]] = {}
        self._ports: dict[str, int] = {}
        self._started = 0
        # When the watch showed each bind (monotonic).
        self.bound_s: list[float] = []
        self._bound: asyncio.Queue[dict[str, str]] = asyncio.Queue()

    def start_scheduler(self) -> None:
        """Start one more scheduler."""
        self._started += 1
        name = f"scheduler-{self._started}"
        port = self._ports[name] = free_ports.choose_one()
        flags = [
            "--bus-url",
            self._nats_url,
            "--kubeconfig",
            str(self._folder / "kubeconfig"),
            "--http-port",
            str(port),
        ]
        command = [sys.executable, "-m", "carico_scheduler", *flags, "--leader-identity", name]
        with (self._folder / f"{name}.log").open("ab") as log:
            self._schedulers[name] = subprocess.Popen(command, stdout=log, stderr=log)

    async def all_warm(self) -> None:
        """Once each scheduler leads or is a warm standby: a cold one has to see the Lease first, and then wait."""
        for name in self._schedulers:
            await readiness.wait(readiness.Http(port=self._ports[name]))

    def end(self) -> None:
        """End the schedulers."""
        for process in self._schedulers.values():
            process.kill()
            process.wait()

    async def change(self, number: signal.Signals) -> tuple[float, float]:
        """(seconds without a bind, seconds of those after the end of the old Lease) where the leader gets a signal."""
        before = await self._lease()
        old = self._schedulers.pop(before.holder)
        at_s = time.monotonic()
        old.send_signal(number)
        self.start_scheduler()
        while (after := await self._lease()).holder in ("", before.holder):
            before = after if after.holder else before
            await asyncio.sleep(0.02)
        took_over_s = time.monotonic()
        old.wait()
        while not any(each > took_over_s - 0.02 for each in self.bound_s):
            await asyncio.sleep(0.01)
        first_s = next(each for each in self.bound_s if each > took_over_s - 0.02)
        last_s = max((each for each in self.bound_s if each < took_over_s - 0.02), default=at_s)
        ends_s = at_s + before.renewed_at_ns / 1e9 + before.duration_s - (time.time() - (time.monotonic() - at_s))
        return first_s - last_s, first_s - ends_s

    async def _lease(self) -> lease.Lease:
        while True:
            found = await api_actions.get_lease(self._client, namespace="kube-system", name="carico-scheduler")
            if found is not None:
                return found
            await asyncio.sleep(0.05)

    async def follow(self) -> None:
        """Record each bind when the watch shows it, until cancelled."""
        seen: set[str] = set()
        async for event in self._client.mirror("/api/v1/pods"):
            if isinstance(event, api_client.Changed) and event.object["spec"].get("nodeName"):
                uid = event.object["metadata"]["uid"]
                if uid not in seen:
                    seen.add(uid)
                    self.bound_s.append(time.monotonic())
                    self._bound.put_nowait(event.object["metadata"])

    async def run_pods(self) -> None:
        """Play the kubelets until cancelled: Pods start, run and end, so that the cluster keeps its size."""
        running: collections.deque[dict[str, str]] = collections.deque()
        while True:
            pod = await self._bound.get()
            running.append(pod)
            await api_actions.patch_pod_status(
                self._client, namespace="default", name=pod["name"], uid=pod["uid"], status={"phase": "Running"}
            )
            if len(running) > RUNNING_MOST:
                gone = running.popleft()["name"]
                await self._client.request("DELETE", f"{PODS_PATH}/{gone}", body={"gracePeriodSeconds": 0})

    async def create_pods(self) -> None:
        """Create a Pod every 50 ms until cancelled."""
        number = 0
        while True:
            number += 1
            spec = {"schedulerName": "carico", "containers": [{"name": "main", "image": "pi"}]}
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"pod-{number}"}, "spec": spec}
            await self._client.request("POST", PODS_PATH, body=body)
            await asyncio.sleep(POD_EVERY_S)

    async def advertise(self) -> None:
        """Advertise room for all each second until cancelled."""
        boot, seq = clock.boot_id(CLOCK), 0
        while True:
            for node in NODES:
                seq += 1
                made = advertised.advertisement(node, room=ROOM, boot=boot, seq=seq, at_ns=CLOCK.wall_ns())
                with contextlib.suppress(errors.BusUnavailable):
                    await self._bus.publish(subjects.capacity(node), wire.encode_advertisement(made))
            await asyncio.sleep(1.0)


async def _measure(folder: pathlib.Path, *, changes: int) -> list[Row]:
    killed: list[tuple[float, float]] = []
    stopped: list[tuple[float, float]] = []
    async with _scene(folder) as scene:
        scene.start_scheduler()
        scene.start_scheduler()
        while len(scene.bound_s) < 20:
            await asyncio.sleep(0.1)
        for _ in range(changes):
            for number, found in ((signal.SIGKILL, killed), (signal.SIGTERM, stopped)):
                await scene.all_warm()
                await asyncio.sleep(SETTLE_S)
                found.append(await scene.change(number))
    after_kill, after_stop = [each for each, _ in killed], [each for each, _ in stopped]
    return [
        (f"leader killed: without a bind, median of {changes}", statistics.median(after_kill), "s", ""),
        ("leader killed: without a bind, worst", max(after_kill), "s", ""),
        ("leader killed: first bind after the end of the Lease, worst", max(after for _, after in killed), "s",
         "at most 5"),
        (f"leader stopped: without a bind, median of {changes}", statistics.median(after_stop), "s", ""),
        ("leader stopped: without a bind, worst", max(after_stop), "s", "at most 1"),
    ]  # fmt: skip


@contextlib.asynccontextmanager
async def _scene(folder: pathlib.Path) -> AsyncIterator[Scene]:
    server = nats_site.NatsServer(folder / "nats").start()
    port = free_ports.choose_one()
    api = _start_api(folder / "api", port)
    token = access.obtain_token(folder / "api" / "token")
    access.write_kubeconfig(folder / "kubeconfig", name="c", url=f"http://127.0.0.1:{port}", token=token)
    client = await api_client.connect(
        api_client.KubeSettings(kubeconfig=str(folder / "kubeconfig")), clock=CLOCK, user_agent="bench"
    )
    bus = await nats_bus.connect(buses.BusSettings(url=server.url), name="bench", clock=CLOCK)
    scene = Scene(folder, server.url, client, bus)
    tasks: list[asyncio.Task[None]] = []
    try:
        for node in NODES:
            await _create_node(client, node)
        works = (scene.follow(), scene.run_pods(), scene.create_pods(), scene.advertise())
        tasks = [asyncio.create_task(work) for work in works]
        yield scene
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        scene.end()
        await bus.close()
        await client.close()
        api.terminate()
        api.wait()
        server.kill()


def _start_api(data: pathlib.Path, port: int) -> "subprocess.Popen[bytes]":
    flags = ["--data", str(data), "--port", str(port), "--node-grace-s", "3600"]
    command = [sys.executable, "-m", "carico_local.api", *flags]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


async def _create_node(client: api_client.KubeClient, name: str) -> None:
    amounts = {"cpu": "10000", "memory": "10000Gi", "pods": "100000"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "bench"}
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    while True:
        with contextlib.suppress(errors.ApiUnavailable):
            await client.request("POST", "/api/v1/nodes", body=body)
            break
        await asyncio.sleep(0.1)
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
    await api_actions.patch_node_status(client, node=name, status=status)
