"""A cluster without kubelets: the embedded API in this process, and nodes that run Pods by its changes alone.

The API's own store records what happened, so nothing that schedulers report is needed to judge them.
"""

import asyncio
import collections
import contextlib
import pathlib
import random
from collections.abc import AsyncIterator
from typing import NamedTuple

from aiohttp import web

from carico_core.domain import errors
from carico_core.runtime.bus import nats_bus
from carico_core.runtime.process import clock as clocks
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_local.api import access
from carico_local.api import cluster as clusters
from carico_local.api.http import server
from carico_local.api.model import resources
from carico_local.api.storage import store
from tests.tools import advertised

CLOCK = clocks.SystemClock()
NODES = 40
# Pods that a node takes, and that wait at most: schedulers always have work.
ROOM = 5
WAITING_MOST = 80
# As long as Pods are created, so many stay: one more than nodes could hold without any of them being full, however
# slowly the machine binds.
STAY = NODES * (ROOM - 1) + 1
# From a Pod's bind until its agent sees it, and from then until it ends.
STARTS_S, LASTS_S = (0.05, 0.3), (0.1, 0.6)
TURN_S = 0.05
ADVERTISED_EVERY_S, CHANGED_EVERY_S = 1.0, 0.2


class _Pod(NamedTuple):
    """A Pod on a node: when its agent sees it, and when it ends."""

    name: str
    starts_s: float
    ends_s: float


class Model:
    """Nodes, and the Pods that come to them. What breaks a rule is a line in `violations`."""

    def __init__(self, folder: pathlib.Path, *, rng: random.Random) -> None:
        self._store = store.Store(folder / "api")
        self._cluster = clusters.assemble(self._store, CLOCK)
        self._token = access.obtain_token(folder / "token")
        self._rng = rng
        self._boot = clocks.boot_id(CLOCK)
        self._seq = 0
        self._made = 0
        self.port = 0
        self.violations: list[str] = []
        # UIDs of Pods without a node, and the node of each that has had one, with the time of its bind (monotonic).
        self.waiting: set[str] = set()
        self.names: dict[str, str] = {}
        self.bound: dict[str, tuple[str, float]] = {}
        # The Pods of each node by UID, and what it advertised last, with the time.
        self._on: dict[str, dict[str, _Pod]] = {f"node-{index}": {} for index in range(NODES)}
        self._advertised: dict[str, tuple[frozenset[str], float]] = {}
        # The API's answers to binds.
        self.answers: collections.Counter[int] = collections.Counter()
        self.largest = 0
        # False: no more Pods are created.
        self.creates = True

    @property
    def running(self) -> int:
        """Pods that are bound and have not ended."""
        return sum(map(len, self._on.values()))

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator["Model"]:
        """The API, with its nodes, until the block ends."""
        for node in self._on:
            self._create_node(node)
        self._store.listen(self._take)
        app = server.build(self._cluster, token=self._token)
        app.middlewares.insert(0, self._count)
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self.port = runner.addresses[0][1]
            yield self
        finally:
            await runner.cleanup()
            self._store.close()

    def write_kubeconfig(self, path: pathlib.Path, *, port: int) -> None:
        """Write a kubeconfig for the API, or a way to it, at a port of this machine."""
        access.write_kubeconfig(path, name="claims", url=f"http://127.0.0.1:{port}", token=self._token)

    async def live(self, bus: nats_bus.NatsBus) -> None:
        """Create Pods, start and end them, and advertise as agents do, until cancelled."""
        checkpoints = asyncio.create_task(clusters.checkpoint_forever(self._store))
        try:
            while True:
                await asyncio.sleep(TURN_S)
                now_s = CLOCK.monotonic_s()
                if self.creates:
                    self.create_pods()
                for node in self._on:
                    self._end(node, now_s)
                    with contextlib.suppress(errors.BusUnavailable):
                        await self._advertise(bus, node, now_s)
        finally:
            checkpoints.cancel()

    def create_pods(self) -> None:
        """Create Pods until as many wait as may."""
        while len(self.waiting) < WAITING_MOST:
            self._create_pod()

    def _create_node(self, name: str) -> None:
        amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "model"}
        body = {
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
            "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
        }  # fmt: skip
        made = self._cluster.writer.create(resources.NODES, "", body).stored.data
        # As a kubelet and the node controller write it: the API taints a new Node until it is ready.
        self._store.put("nodes", {**made, "spec": {}, "status": body["status"]})

    def _create_pod(self) -> None:
        self._made += 1
        body = {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"pod-{self._made}"},
            "spec": {"schedulerName": "carico", "containers": [{"name": "main", "image": "pi"}]},
        }  # fmt: skip
        self._cluster.writer.create(resources.PODS, "default", body)

    def _take(self, change: store.Change) -> None:
        """Take in a change of the API's store."""
        if change.storage != "pods":
            return
        pod = change.current.data
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        node = pod["spec"].get("nodeName")
        before = None if change.previous is None else change.previous.data["spec"].get("nodeName")
        if before is not None and before != node:
            self.violations.append(f"{uid} was bound to {before} and then to {node}")
        if change.deleted or node is None:
            if change.previous is None:
                self.waiting.add(uid)
                self.names[uid] = name
            return
        if before is None:
            self._bind(uid, node)

    def _bind(self, uid: str, node: str) -> None:
        now_s = CLOCK.monotonic_s()
        self.waiting.discard(uid)
        self.bound[uid] = (node, now_s)
        starts_s = now_s + self._rng.uniform(*STARTS_S)
        self._on[node][uid] = _Pod(
            name=self.names[uid], starts_s=starts_s, ends_s=starts_s + self._rng.uniform(*LASTS_S)
        )
        count = len(self._on[node])
        self.largest = max(self.largest, count)
        if count > ROOM:
            self.violations.append(f"{node} has {count} Pods and room for {ROOM} since {uid} was bound to it")

    def _end(self, node: str, now_s: float) -> None:
        """End the Pods of a node that have run for long enough."""
        for uid, pod in list(self._on[node].items()):
            if self.creates and self.running <= STAY:
                return
            found = self._store.get("pods", ("default", pod.name))
            if pod.ends_s <= now_s and found is not None:
                del self._on[node][uid]
                self._store.remove("pods", found.data)

    async def _advertise(self, bus: nats_bus.NatsBus, node: str, now_s: float) -> None:
        covers = frozenset(uid for uid, pod in self._on[node].items() if pod.starts_s <= now_s)
        before, at_s = self._advertised.get(node, (None, 0.0))
        if now_s - at_s < (ADVERTISED_EVERY_S if covers == before else CHANGED_EVERY_S):
            return
        self._advertised[node] = (covers, now_s)
        self._seq += 1
        free = float(ROOM - len(covers))
        made = advertised.advertisement(
            node, room=free, cores=free, covers=covers, boot=self._boot, seq=self._seq, at_ns=CLOCK.wall_ns()
        )
        await bus.publish(subjects.capacity(node), wire.encode_advertisement(made))

    @web.middleware
    async def _count(self, request: web.Request, handler: access.Handler) -> web.StreamResponse:
        answer = await handler(request)
        if request.path.endswith("/binding"):
            self.answers[answer.status] += 1
        return answer
