"""A site for the scheduler's integration tests: real NATS, the embedded API, the scheduler as a process, fake nodes."""

import asyncio
import collections
import contextlib
import pathlib
import random
import subprocess
from collections.abc import AsyncIterator
from typing import Any

import orjson

from carico_core.domain import decision, errors
from carico_core.runtime.bus import nats_bus
from carico_core.runtime.bus import port as buses
from carico_core.runtime.kube import api_actions, api_client
from carico_core.runtime.process import clock as clocks
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_local.api import access
from carico_local.cluster import free_ports
from tests.tools import advertised, service_process, waiting
from tests.tools.sites import nats_site

NODES = ("node-1", "node-2", "node-3")
PODS_PATH = "/api/v1/namespaces/default/pods"
CLOCK = clocks.SystemClock()
# Of each service's log, where a test fails.
LOG_LINES = 40


class Site:
    """Every process of a small cluster but kubelets and agents, which live in the test."""

    def __init__(self, root: pathlib.Path, *, room: float) -> None:
        self.root = root
        self.room = room
        self.nats = nats_site.NatsServer(root / "nats")
        self.api_port = free_ports.choose_one()
        self.kubeconfig = root / "kubeconfig"
        self._api: subprocess.Popen[bytes] | None = None
        self._scheduler: subprocess.Popen[bytes] | None = None
        self._rng = random.Random(0)
        self._boot = clocks.boot_id(CLOCK)
        self._seq = 0
        self._ends: dict[str, float] = {}
        self._ended: dict[str, tuple[str, float]] = {}
        # As the watch of the API showed it: UID -> nodes it was ever bound to; UID -> Pod that is bound and not ended.
        self.nodes_of: dict[str, set[str]] = collections.defaultdict(set)
        self.pods: dict[str, dict[str, Any]] = {}
        # UIDs of the Pods that hold room, by node; and the most at a time.
        self._holding: dict[str, set[str]] = collections.defaultdict(set)
        self.largest: collections.Counter[str] = collections.Counter()
        self.decisions: list[decision.Decision] = []
        self.changed = asyncio.Event()
        # How far the clock of a node is ahead.
        self.clock_off_ns: collections.Counter[str] = collections.Counter()
        self.client: api_client.KubeClient
        self.bus: nats_bus.NatsBus

    def start_api(self) -> None:
        """Starts the embedded API on its port and data."""
        flags = ["--data", str(self.root / "api"), "--port", str(self.api_port), "--node-grace-s", "3600"]
        self._api = service_process.start(self.root / "api.log", "carico_local.api", *flags)

    @property
    def token(self) -> str:
        """What the API asks of every client."""
        return access.obtain_token(self.root / "api" / "token")

    def write_kubeconfig(self, path: pathlib.Path, server: str) -> None:
        """Writes a kubeconfig that leads to the API, straight or through a proxy."""
        access.write_kubeconfig(path, name="c", url=server, token=self.token)

    def kill_api(self) -> None:
        """kill -9."""
        assert self._api is not None
        service_process.end(self._api)
        self._api = None

    def start_scheduler(self, *flags: str, bus_url: str | None = None, kubeconfig: pathlib.Path | None = None) -> None:
        """Starts a scheduler, which may come to bus and API by another way than the test."""
        options = ["--bus-url", bus_url or self.nats.url, "--kubeconfig", str(kubeconfig or self.kubeconfig)]
        options += ["--http-port", "-1", "--no-leader-election", *flags]
        self._scheduler = service_process.start(self.root / "scheduler.log", "carico_scheduler", *options)

    def kill_scheduler(self) -> None:
        """kill -9."""
        assert self._scheduler is not None
        service_process.end(self._scheduler)
        self._scheduler = None

    def stop_scheduler(self) -> int:
        """The exit code after SIGTERM."""
        assert self._scheduler is not None
        self._scheduler.terminate()
        code = self._scheduler.wait(waiting.WAIT_S)
        self._scheduler = None
        return code

    def check_processes(self) -> None:
        """Fail where a process has ended by itself: nothing would start it again."""
        for name, process in (("api", self._api), ("scheduler", self._scheduler)):
            if process is not None and process.poll() is not None:
                log = (self.root / f"{name}.log").read_text(errors="replace")
                raise AssertionError(f"{name} ended with {process.returncode}: {log[-3000:]}")

    def end_all(self) -> None:
        """Ends every process."""
        service_process.end(*filter(None, (self._scheduler, self._api)))
        self.nats.kill()

    async def create_nodes(self) -> None:
        """Three ready Nodes."""
        for name in NODES:
            status = {
                "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
                "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "test"}],
            }
            body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
            await self.insist("POST", "/api/v1/nodes", body)
            while True:
                with contextlib.suppress(errors.ApiUnavailable):
                    await api_actions.patch_node_status(self.client, node=name, status=status)
                    break
                await asyncio.sleep(0.05)

    async def create_pods(self, count: int, prefix: str = "pi", *, scheduler: str = "carico") -> None:
        """Pods for us to place, or for another scheduler."""
        for index in range(count):
            body = {
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"{prefix}-{index}"},
                "spec": {"schedulerName": scheduler, "containers": [{"name": "main", "image": "pi"}]},
            }  # fmt: skip
            await self.insist("POST", PODS_PATH, body)

    async def insist(self, method: str, path: str, body: Any) -> None:
        """One request, again until the API answers."""
        while True:
            try:
                await self.client.request(method, path, body=body)
            except errors.ApiUnavailable:
                await asyncio.sleep(0.05)
            except errors.Conflict:
                return
            else:
                return

    async def ask(self, verb: str, payload: bytes = b"") -> Any:
        """The scheduler's answer, once it gives one."""
        subject = subjects.query("scheduler", verb)
        async with asyncio.timeout(waiting.WAIT_S):
            while True:
                with contextlib.suppress(errors.BusUnavailable):
                    return orjson.loads(await self.bus.request(subject, payload, timeout_s=2.0))
                await asyncio.sleep(0.1)

    @property
    def succeeded(self) -> int:
        """Pods that have ended."""
        return sum(pod["status"].get("phase") == "Succeeded" for pod in self.pods.values())

    async def until_succeeded(self, count: int, within_s: float = 2 * waiting.WAIT_S) -> None:
        """Returns once so many Pods have ended."""
        try:
            async with asyncio.timeout(within_s):
                while self.succeeded < count:
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError as error:
            raise TimeoutError(f"{self.succeeded} of {count} Pods have ended within {within_s:g} s") from error

    async def follow_pods(self) -> None:
        """Keep `pods` as the watch shows them, until cancelled."""
        async for event in self.client.mirror("/api/v1/pods"):
            if isinstance(event, api_client.Away):
                continue
            objects = event.objects if isinstance(event, api_client.Listed) else [event.object]
            for pod in objects:
                uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName")
                self.pods[uid] = pod
                if node:
                    self.nodes_of[uid].add(node)
                    holds = pod["status"].get("phase") in ("Pending", "Running")
                    (self._holding[node].add if holds else self._holding[node].discard)(uid)
            # After all of a list: some of its Pods may have ended before others came.
            for name, uids in self._holding.items():
                self.largest[name] = max(self.largest[name], len(uids))
            self.changed.set()

    async def live(self) -> None:
        """Do the work of kubelets and agents of three nodes, twenty times a second, until cancelled."""
        while True:
            await asyncio.sleep(0.05)
            self.check_processes()
            now_s = CLOCK.monotonic_s()
            with contextlib.suppress(errors.ApiUnavailable):
                for uid, pod in list(self.pods.items()):
                    await self._move(uid, pod, now_s)
            for name in NODES:
                with contextlib.suppress(errors.BusUnavailable):
                    await self._advertise(name, now_s)

    async def _move(self, uid: str, pod: dict[str, Any], now_s: float) -> None:
        node, phase = pod["spec"].get("nodeName"), pod["status"].get("phase")
        if not node:
            return
        if phase == "Succeeded":
            # Its end was written, and the answer may have been lost: its room must not be lost with it.
            self._ended.setdefault(uid, (node, now_s))
        elif uid not in self._ends:
            self._ends[uid] = now_s + self._rng.uniform(0.1, 0.4)
            await self._set_phase(pod, "Running")
        elif self._ends[uid] <= now_s:
            await self._set_phase(pod, "Succeeded")
            # Only now: an API that is away shows the Pod as running, and its room is not to be given to another.
            self._ended.setdefault(uid, (node, now_s))

    async def _set_phase(self, pod: dict[str, Any], phase: str) -> None:
        meta = pod["metadata"]
        await api_actions.patch_pod_status(
            self.client, namespace="default", name=meta["name"], uid=meta["uid"], status={"phase": phase}
        )

    async def _advertise(self, node: str, now_s: float) -> None:
        running = {uid for uid in self._ends if self.pods[uid]["spec"]["nodeName"] == node and uid not in self._ended}
        ended = {uid for uid, (where, at_s) in self._ended.items() if where == node and at_s > now_s - 60.0}
        self._seq += 1
        room = max(self.room - len(running), 0.0)
        made = advertised.advertisement(
            node, room=room, cores=room, covers=frozenset(running | ended), pods=len(running), boot=self._boot,
            seq=self._seq, at_ns=CLOCK.wall_ns() + self.clock_off_ns[node],
        )  # fmt: skip
        await self.bus.publish(subjects.capacity(node), wire.encode_advertisement(made))

    def on_decision(self, subject: str, payload: bytes) -> None:
        """Keeps a decision."""
        self.decisions.append(wire.decode_decision(payload, subject=subject))

    @property
    def bound(self) -> list[decision.Decision]:
        """Decisions that ended in a bind."""
        return [each for each in self.decisions if each.outcome is decision.Outcome.BOUND]

    def check(self, pods: int) -> None:
        """Assert by API and records: each Pod is on one node, none is lost, no node has more than it advertised."""
        assert len(self.pods) == pods
        assert all(len(self.nodes_of[uid]) == 1 for uid in self.pods)
        assert max(self.largest.values()) <= self.room
        for each in self.bound:
            chosen = each.candidates[0]
            assert chosen.node == each.node
            assert chosen.capacity is not None
            assert chosen.capacity - chosen.reserved >= each.threshold
            assert each.free is not None
            assert each.free >= each.threshold
            assert self.nodes_of[each.uid] == {each.node}
        counts = collections.Counter(each.uid for each in self.bound)
        assert not counts or max(counts.values()) == 1


def last_words(root: pathlib.Path) -> str:
    """The end of each service's log, for a test that failed."""
    said: list[str] = []
    for path in sorted(root.rglob("*.log")):
        lines = path.read_text(errors="replace").splitlines()
        said += [f"--- {path.relative_to(root)}: the last {LOG_LINES} of {len(lines)} lines", *lines[-LOG_LINES:]]
    return "\n".join(said)


@contextlib.asynccontextmanager
async def running(root: pathlib.Path, *, room: float = 5.0, lease_s: float = 10.0) -> AsyncIterator[Site]:
    """A site with everything at work but the scheduler. `lease_s` is that of the bus, which all on it share."""
    site = Site(root, room=room)
    site.write_kubeconfig(site.kubeconfig, f"http://127.0.0.1:{site.api_port}")
    try:
        site.nats.start()
        site.start_api()
        site.client = await api_client.connect(
            api_client.KubeSettings(kubeconfig=str(site.kubeconfig)), clock=CLOCK, user_agent="test"
        )
        site.bus = await nats_bus.connect(
            buses.BusSettings(url=site.nats.url, lease_s=lease_s), name="test", clock=CLOCK
        )
        await site.create_nodes()
        await site.bus.subscribe(subjects.DECISION_ALL, site.on_decision)
        try:
            # An error in one of them ends the test at once, which could only wait for what does not come.
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(each) for each in (site.follow_pods(), site.live())]
                yield site
                for task in tasks:
                    task.cancel()
        except BaseException:
            # The folder is gone when somebody reads of the failure.
            print(last_words(root))
            raise
        finally:
            await site.bus.close()
            await site.client.close()
    finally:
        site.end_all()
