"""Pods of a containerd for the suite of Pod events: the fake that replays a recorded log, and a real one."""

import contextlib
import pathlib
import tempfile
from collections.abc import AsyncIterator
from typing import Any

import pytest

from carico_agent import ports, settings
from carico_agent.pod_events import containerd, containerd_wire
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import settings as loader
from tests.conformance import containerd_cri, containerd_real, fake_containerd

ABSENT = "the dissertation's recorded log is absent (CARICO_SHARED_DATA); the generated log stands in"
DELETED = containerd_wire.Kind.DELETED


def open_pods(socket: pathlib.Path, clock: clocks.Clock) -> ports.PodEvents:
    """The adapter as a service opens it."""
    argv = ["--node", "node-1", "--pod-events", "containerd", "--containerd-socket", str(socket)]
    chosen = loader.load(settings.AgentSettings, prefix=settings.PREFIX, argv=argv, environ={}, program="test")
    return containerd.open_pods(chosen, clock=clock)


class FakeStage:
    """A fake over its socket: each verb replays the log's events up to the end of what it names."""

    adapter = "containerd"
    burst = 50

    def __init__(self, fake: fake_containerd.FakeContainerd, life: fake_containerd.Life, socket: pathlib.Path) -> None:
        self.fake = fake
        self.socket = socket
        self._life = life

    def open(self, clock: clocks.Clock) -> ports.PodEvents:
        return open_pods(self.socket, clock)

    async def create(self, uid: str) -> None:
        self._play(self._life.create, uid)

    async def start(self, uid: str) -> None:
        if f"{uid}-sandbox" not in self.fake.containers:
            await self.create(uid)
        self._play(self._life.start, uid)

    async def exit(self, uid: str) -> None:
        self._play(self._life.exit, uid)

    async def remove(self, uid: str) -> None:
        if self.fake.tasks.get(f"{uid}-main") == fake_containerd.RUNNING:
            await self.exit(uid)
        self._play(self._life.remove, uid)
        # Long after a Pod is gone; the log's agent did not listen to it.
        for is_sandbox in (False, True):
            self._play((fake_containerd.Step(at_s=0.0, kind=DELETED, is_sandbox=is_sandbox),), uid)

    def _play(self, steps: tuple[fake_containerd.Step, ...], uid: str) -> None:
        for step in steps:
            self.fake.play(step, uid)


class RealStage:
    """Containers with a Pod's labels in a real containerd."""

    adapter = "containerd"
    # Each start is a runc, and two cores are slow at that.
    burst = 15

    def __init__(self, real: containerd_real.Containerd) -> None:
        self.real = real
        self._alive: dict[str, set[str]] = {}

    def open(self, clock: clocks.Clock) -> ports.PodEvents:
        return open_pods(self.real.socket, clock)

    async def create(self, uid: str) -> None:
        await self._run(uid, "sandbox")

    async def start(self, uid: str) -> None:
        if uid not in self._alive:
            await self.create(uid)
        await self._run(uid, "container")

    async def exit(self, uid: str) -> None:
        # As the CRI plugin does: the task of a container that has ended is deleted at once.
        await self.real.ctr("task", "delete", "--force", f"{uid}-container")
        self._alive[uid].discard("container")

    async def remove(self, uid: str) -> None:
        if "container" in self._alive[uid]:
            await self.exit(uid)
        await self.real.ctr("task", "delete", "--force", f"{uid}-sandbox")
        del self._alive[uid]
        for name in (await self.real.ctr("container", "list", "--quiet")).split():
            if name.startswith(uid):
                await self.real.ctr("container", "delete", name)

    async def _run(self, uid: str, kind: str) -> None:
        await self.real.run(f"{uid}-{kind}", uid=uid, kind=kind)
        self._alive.setdefault(uid, set()).add(kind)


class CriStage:
    """Pods in a real containerd, made as a kubelet makes them."""

    adapter = "containerd"
    burst = 15

    def __init__(self, real: containerd_real.Containerd, cri: containerd_cri.Cri) -> None:
        self._real = real
        self._cri = cri

    def open(self, clock: clocks.Clock) -> ports.PodEvents:
        return open_pods(self._real.socket, clock)

    async def create(self, uid: str) -> None:
        await self._cri.run_sandbox(uid)

    async def start(self, uid: str) -> None:
        if uid not in self._cri.sandboxes:
            await self.create(uid)
        await self._cri.run_container(uid)

    async def exit(self, uid: str) -> None:
        await self._cri.stop_container(uid)

    async def remove(self, uid: str) -> None:
        await self._cri.remove(uid)


def fake_stage(life: fake_containerd.Life | None) -> Any:
    @contextlib.asynccontextmanager
    async def stage(_: pytest.FixtureRequest) -> AsyncIterator[FakeStage]:
        if life is None:
            pytest.skip(ABSENT)
        fake = fake_containerd.FakeContainerd()
        with tempfile.TemporaryDirectory(prefix="carico-") as folder:
            socket = pathlib.Path(folder) / "c.sock"
            async with fake_containerd.serve(fake, socket):
                yield FakeStage(fake, life, socket)

    return stage


@contextlib.asynccontextmanager
async def real_stage(request: pytest.FixtureRequest) -> AsyncIterator[RealStage]:
    """A containerd that the module's tests share."""
    real: containerd_real.Containerd = request.getfixturevalue("real_containerd")
    yield RealStage(real)
    await real.clear()


@contextlib.asynccontextmanager
async def cri_stage(request: pytest.FixtureRequest) -> AsyncIterator[CriStage]:
    """The same containerd by its CRI."""
    real: containerd_real.Containerd = request.getfixturevalue("real_containerd")
    await real.import_image()
    async with containerd_cri.connect(real) as cri:
        yield CriStage(real, cri)


STAGES: dict[str, Any] = {
    "containerd: recorded log": fake_stage(fake_containerd.recorded()),
    "containerd: generated log": fake_stage(fake_containerd.generated()),
    "containerd: real": real_stage,
    "containerd: real, as a kubelet drives it": cri_stage,
}
