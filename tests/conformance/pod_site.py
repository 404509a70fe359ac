"""Where Pods start and end for the suite of Pod events: each adapter's own world, driven in the same words."""

import asyncio
import contextlib
import dataclasses
import os
import pathlib
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Protocol

import pytest

from carico_agent import ports
from carico_agent.pod_events import cgroup, inotify, kubernetes
from carico_agent.telemetry.cgroups import hierarchy
from carico_core.domain import recording
from carico_core.runtime.kube import api_client
from carico_core.runtime.process import clock as clocks
from carico_local.cgroups import group as groups
from carico_local.cgroups import layout as layouts
from tests.conformance import containerd_site
from tests.contract.kubernetes import control_planes
from tests.tools.memory import memory_kube

NODE = "node-1"


class Stage(Protocol):
    """Pods that come and go in one adapter's world. Every verb returns once the world is so."""

    adapter: str
    # Pods of a burst that is not too much for this world.
    burst: int

    def open(self, clock: clocks.Clock) -> ports.PodEvents:
        """The adapter, not running yet."""
        ...

    async def create(self, uid: str) -> None:
        """The runtime makes the Pod's sandbox; none of its containers runs."""
        ...

    async def start(self, uid: str) -> None:
        """The Pod's container runs."""
        ...

    async def exit(self, uid: str) -> None:
        """The container has ended; the Pod's sandbox and object stay."""
        ...

    async def remove(self, uid: str) -> None:
        """The Pod is gone, its sandbox and object too."""
        ...


class KubernetesStage:
    """Pods of an API, with statuses as kubelets write them."""

    adapter = "kubernetes"
    burst = 50

    def __init__(self, client: api_client.KubeClient | memory_kube.MemoryKube, connect: Callable[[], Any]) -> None:
        self.client = client
        self._connect = connect
        # An API gives its own UIDs.
        self._uids: dict[str, str] = {}

    def uid(self, name: str) -> str:
        return self._uids[name]

    def open(self, clock: clocks.Clock) -> ports.PodEvents:
        return _Renamed(kubernetes.KubernetesPods(NODE, clock=clock, connect=self._connect), self._uids)

    async def create(self, uid: str, **metadata: Any) -> None:
        body = {
            "metadata": {"name": uid} | metadata,
            "spec": {"nodeName": NODE, "containers": [{"name": "main", "image": "example.invalid/image:1"}]},
        }
        made = await self.client.request("POST", "/api/v1/namespaces/default/pods", body=body)
        self._uids[uid] = made["metadata"]["uid"]

    async def start(self, uid: str) -> None:
        if uid not in self._uids:
            await self.create(uid)
        await self._tell(uid, "Running", {"running": {"startedAt": "2026-01-01T00:00:00Z"}})

    async def exit(self, uid: str) -> None:
        await self._tell(uid, "Succeeded", {"terminated": {"exitCode": 0}})

    async def remove(self, uid: str) -> None:
        await self.client.request("DELETE", f"/api/v1/namespaces/default/pods/{uid}", body={"gracePeriodSeconds": 0})

    async def _tell(self, uid: str, phase: str, state: dict[str, Any]) -> None:
        container = {"name": "main", "image": "x", "imageID": "", "ready": False, "restartCount": 0, "state": state}
        await self.client.request(
            "PATCH",
            f"/api/v1/namespaces/default/pods/{uid}/status",
            body={"status": {"phase": phase, "containerStatuses": [container]}},
            content_type="application/merge-patch+json",
        )


@dataclasses.dataclass
class _Renamed:
    """An adapter that reports Pods by the suite's names in place of UIDs."""

    pods: ports.PodEvents
    uids: dict[str, str]

    def current(self) -> ports.PodSet:
        names = {uid: name for name, uid in self.uids.items()}
        now = self.pods.current()
        return _Set(
            running=frozenset(names.get(uid, uid) for uid in now.running),
            ended=frozenset(names.get(uid, uid) for uid in now.ended),
            baseline=frozenset(names.get(uid, uid) for uid in now.baseline),
            holding=now.holding,
        )

    def on_change(self, callback: Callable[[], None]) -> None:
        self.pods.on_change(callback)

    def on_event(self, witness: Callable[[recording.EventKind, str, float], None]) -> None:
        names = {uid: name for name, uid in self.uids.items()}
        self.pods.on_event(lambda kind, uid, at_s: witness(kind, names.get(uid, uid), at_s))

    async def run(self) -> None:
        await self.pods.run()


@dataclasses.dataclass(frozen=True)
class _Set:
    running: frozenset[str]
    ended: frozenset[str]
    baseline: frozenset[str]
    holding: bool


@contextlib.asynccontextmanager
async def memory(_: pytest.FixtureRequest) -> AsyncIterator[KubernetesStage]:
    """The in-memory API."""
    client = memory_kube.MemoryKube(clock=clocks.SystemClock())

    async def connect() -> memory_kube.MemoryKube:
        return client

    yield KubernetesStage(client, connect)


@contextlib.asynccontextmanager
async def embedded(request: pytest.FixtureRequest) -> AsyncIterator[KubernetesStage]:
    """The embedded API, as a process."""
    api: control_planes.KubeApi = request.getfixturevalue("embedded_api")

    async def connect() -> api_client.KubeClient:
        settings = api_client.KubeSettings(kubeconfig=str(api.kubeconfig))
        return await api_client.connect(settings, clock=clocks.SystemClock(), user_agent="conformance")

    client = await connect()
    yield KubernetesStage(client, connect)
    for pod in (await client.request("GET", "/api/v1/pods"))["items"]:
        path = f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}"
        await client.request("DELETE", path, body={"gracePeriodSeconds": 0})
    await client.close()


class CgroupStage:
    """Real cgroups with real processes in them, laid out as one runtime does."""

    adapter = "cgroup"
    burst = 50

    def __init__(self, root: groups.Group, *, path: str, container: str, has_sandbox: bool, v1_only: bool) -> None:
        self._root = root
        self._path = path
        self._container = container
        self._has_sandbox = has_sandbox
        self._tree = _v1_tree() if v1_only else hierarchy.discover()
        self._processes: dict[str, list[subprocess.Popen[bytes]]] = {}

    def open(self, clock: clocks.Clock) -> ports.PodEvents:
        return cgroup.CgroupPods(self._root.path, clock=clock, discover=lambda: self._tree)

    async def create(self, uid: str) -> None:
        self._group(uid).create()
        if self._has_sandbox:
            self._run(uid, self._group(uid).child(self._container.format(_hex(uid, "0"))))

    async def start(self, uid: str) -> None:
        if not self._group(uid).exists():
            await self.create(uid)
        self._run(uid, self._group(uid).child(self._container.format(_hex(uid, "1"))))

    async def exit(self, uid: str) -> None:
        self._end(self._processes[uid].pop())

    async def remove(self, uid: str) -> None:
        while self._processes.get(uid):
            self._end(self._processes[uid].pop())
        assert self._group(uid).destroy()

    def clear(self) -> None:
        """Ends whatever still runs."""
        for processes in self._processes.values():
            for process in processes:
                self._end(process)

    def _group(self, uid: str) -> groups.Group:
        return self._root.child(self._path.format(uid=uid, uid_=uid.replace("-", "_")))

    def _run(self, uid: str, group: groups.Group) -> None:
        group.create()
        # The runtime moves the process in before it runs the command.
        process = subprocess.Popen(["sleep", "600"])
        self._processes.setdefault(uid, []).append(process)
        for procs in group.procs_files:
            pathlib.Path(procs).write_text(str(process.pid))

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()


def _hex(uid: str, last: str) -> str:
    """A container id: 64 hex digits. The sandbox's sorts after or before others by chance, as real ones do."""
    turned = uid.replace("-", "")[::-1]
    return f"{turned}{turned}"[:63].ljust(63, "f") + last


def _v1_tree() -> hierarchy.Tree:
    found = hierarchy.discover()
    if not found.v1:
        pytest.skip("this machine has no v1 controllers")
    return hierarchy.Tree(layout=hierarchy.Layout.V1, v1=found.v1, unified=None)


@contextlib.contextmanager
def _root() -> Iterator[groups.Group]:
    layout = layouts.read_layout()
    root = groups.Group(layout=layout, path=f"carico-test-pods-{os.getpid()}")
    try:
        root.create()
        process = subprocess.Popen(["sleep", "60"])
        try:
            for procs in root.child("probe").procs_files:
                pathlib.Path(procs).parent.mkdir()
                pathlib.Path(procs).write_text(str(process.pid))
        finally:
            process.kill()
            process.wait()
            root.child("probe").destroy()
    except OSError as error:
        root.destroy()
        pytest.skip(f"no right to make cgroups here: {error}")
    if layout.version is layouts.Version.NONE:
        pytest.skip("no cgroups are mounted here")
    try:
        yield root
    finally:
        assert root.destroy()


EMULATED = ("pod{uid}", "main")
CGROUPFS = ("kubepods/besteffort/pod{uid}", "{0}")
SYSTEMD = (
    "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid_}.slice",
    "cri-containerd-{0}.scope",
)


def _cgroups(shape: tuple[str, str], *, v1_only: bool = False, polls: bool = False) -> Any:
    @contextlib.asynccontextmanager
    async def stage(request: pytest.FixtureRequest) -> AsyncIterator[CgroupStage]:
        if polls:
            request.getfixturevalue("monkeypatch").setattr(inotify, "Inotify", _refuse)
        path, container = shape
        with _root() as root:
            made = CgroupStage(root, path=path, container=container, has_sandbox="{0}" in container, v1_only=v1_only)
            try:
                yield made
            finally:
                made.clear()
                await asyncio.sleep(0)

    return stage


def _refuse() -> None:
    raise OSError(24, "Too many open files")


STAGES: dict[str, Any] = {
    "kubernetes: in memory": memory,
    "kubernetes: embedded": embedded,
    "cgroup: emulated node": _cgroups(EMULATED),
    "cgroup: emulated node, polled": _cgroups(EMULATED, polls=True),
    "cgroup: emulated node, v1 only": _cgroups(EMULATED, v1_only=True),
    "cgroup: kubelet, cgroupfs": _cgroups(CGROUPFS),
    "cgroup: kubelet, systemd": _cgroups(SYSTEMD),
    "cgroup: kubelet, polled": _cgroups(CGROUPFS, polls=True),
    **containerd_site.STAGES,
}
