"""Pod events from containerd: the author's log on its own clock, restarts, odd containers, and mistakes."""

import asyncio
import contextlib
import functools
import pathlib
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator

import grpclib.const
import grpclib.exceptions
import pytest

from carico_agent import ports, service, settings
from carico_agent.pod_events import containerd, containerd_client
from carico_agent.pod_events import containerd_wire as wire
from carico_core.domain import errors
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import settings as loader
from carico_core.runtime.process import tasks
from tests.conformance import containerd_site, fake_containerd
from tests.tools import waiting

POD = "2f6a0d5f-0000-4000-8000-000000000001"
OTHER = "2f6a0d5f-0000-4000-8000-000000000002"


class World:
    """A running adapter on the fake, without a socket: `after` returns once an event was taken in."""

    def __init__(self) -> None:
        self.fake = fake_containerd.FakeContainerd()
        self.clock = clocks.FakeClock()
        self.connections = 0
        self.refusals: list[errors.CaricoError] = []
        self.told: list[frozenset[str]] = []
        self.pods = containerd.ContainerdPods(connect=self.connect, away=containerd_client.Away, clock=self.clock)
        self.pods.on_change(lambda: self.told.append(frozenset(self.pods.current().running)))

    @contextlib.asynccontextmanager
    async def connect(self) -> AsyncIterator[fake_containerd.InMemory]:
        self.connections += 1
        if self.refusals:
            raise self.refusals.pop(0)
        yield fake_containerd.InMemory(self.fake)

    @property
    def now(self) -> ports.PodSet:
        return self.pods.current()

    async def after(self, kind: wire.Kind, name: str, *, process: str | None = None) -> None:
        self.fake.tell(kind, name, process=process)
        await self.fake.taken()

    async def play(self, steps: tuple[fake_containerd.Step, ...], uid: str = POD) -> None:
        for step in steps:
            self.fake.play(step, uid)
            await self.fake.taken()

    def add(self, name: str, uid: str | None, kind: str = "container") -> None:
        self.fake.containers[name] = {"io.cri-containerd.kind": kind}
        if uid is not None:
            self.fake.containers[name]["io.kubernetes.pod.uid"] = uid


@contextlib.asynccontextmanager
async def running(world: World) -> AsyncIterator[World]:
    task = asyncio.create_task(world.pods.run())
    try:
        await world.fake.taken()
        yield world
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.wait({task})


@pytest.fixture(params=["recorded", "generated"])
def life(request: pytest.FixtureRequest) -> fake_containerd.Life:
    found = fake_containerd.recorded() if request.param == "recorded" else fake_containerd.generated()
    if found is None:
        pytest.skip(containerd_site.ABSENT)
    return found


class TestLog:
    """The dissertation author's log, event by event at its own times."""

    async def test_a_pod_counts_from_its_tasks_start_to_its_tasks_exit(self, life: fake_containerd.Life) -> None:
        counted: list[tuple[float, int]] = []
        async with running(World()) as world:
            for step in life.steps:
                world.clock.advance(step.at_s - world.clock.monotonic_s())
                world.fake.play(step, POD)
                await world.fake.taken()
                counted.append((step.at_s, len(world.now.running)))
        assert [count for _, count in counted] == [0, 0, 0, 1, 0, 0, 0, 0]
        assert world.told == [{POD}, frozenset()], "told once when it starts and once when it ends"
        # Counting it out with its sandbox would be late by this much.
        assert life.steps[-1].at_s - life.exit[0].at_s > 1.5

    async def test_holds_are_the_spec_s(self, life: fake_containerd.Life) -> None:
        steps = life.steps
        held = [
            # From the first create to the workload's start and 100 ms on; each removal from its exit and 300 ms on.
            (steps[0].at_s, steps[3].at_s + 0.1),
            (steps[4].at_s, steps[5].at_s + 0.3),
            (steps[6].at_s, steps[7].at_s + 0.3),
        ]
        async with running(World()) as world:
            world.clock.advance(steps[0].at_s - 1.0 - world.clock.monotonic_s())
            coming = list(steps)
            while world.clock.monotonic_s() < steps[-1].at_s + 1.0:
                now_s = world.clock.monotonic_s()
                while coming and coming[0].at_s <= now_s:
                    world.fake.play(coming.pop(0), POD)
                    await world.fake.taken()
                if all(abs(now_s - edge) > 0.015 for span in held for edge in span):
                    assert world.now.holding == any(begin < now_s < end for begin, end in held), now_s
                world.clock.advance(0.01)


class TestEvents:
    async def test_an_exec_that_ends_is_no_end(self) -> None:
        life = fake_containerd.generated()
        async with running(World()) as world:
            await world.play(life.create + life.start)
            await world.after(wire.Kind.EXITED, f"{POD}-main", process="exec-1")
            await world.after(wire.Kind.TASK_DELETED, f"{POD}-main", process="exec-1")
            assert world.now.running == {POD}

    async def test_a_pod_of_two_containers_ends_with_the_last(self) -> None:
        life = fake_containerd.generated()
        async with running(World()) as world:
            world.add("side", POD)
            await world.play(life.create)
            await world.after(wire.Kind.STARTED, "side")
            await world.play(life.start)
            await world.play(life.exit)
            assert world.now.running == {POD}
            await world.after(wire.Kind.EXITED, "side")
            assert world.now.running == frozenset() and world.now.ended == {POD}
        assert world.told == [{POD}, frozenset()]

    async def test_a_container_that_starts_again_counts_again(self) -> None:
        life = fake_containerd.generated()
        async with running(World()) as world:
            await world.play(life.create + life.start + life.exit)
            world.add("again", POD)
            await world.after(wire.Kind.CREATED, "again")
            await world.after(wire.Kind.STARTED, "again")
            assert world.now.running == {POD} and world.now.ended == frozenset()

    async def test_between_two_restarts_it_is_accounted_for_and_not_held(self) -> None:
        life = fake_containerd.generated()
        async with running(World()) as world:
            await world.play(life.create + life.start + life.exit)
            world.clock.advance(300.0)
            assert world.now.ended == {POD} and not world.now.holding
            await world.play(life.start)
            assert world.now.running == {POD} and world.now.ended == frozenset()
            await world.play(life.exit + life.remove)
            world.clock.advance(61.0)
            assert world.now.ended == frozenset() and not world.now.holding

    async def test_containers_of_no_pod_and_unknown_ones_are_nothing(self) -> None:
        async with running(World()) as world:
            world.add("tool", None)
            for kind in wire.Kind:
                await world.after(kind, "tool")
                await world.after(kind, "gone-before-it-was-asked-for")
            assert not world.now.running and not world.now.ended and not world.now.holding
            assert world.fake.asked.count("tool") == 1, "what is no Pod's is asked for once"
            assert not world.pods._containers, "and forgotten with its end"

    async def test_a_task_whose_exit_is_not_reported_has_ended(self) -> None:
        life = fake_containerd.generated()
        async with running(World()) as world:
            await world.play(life.create + life.start)
            await world.after(wire.Kind.TASK_DELETED, f"{POD}-main")
            assert world.now.running == frozenset() and world.now.ended == {POD}

    async def test_nothing_is_kept_of_pods_that_are_gone(self) -> None:
        life = fake_containerd.generated()
        deleted = tuple(fake_containerd.Step(at_s=0, kind=wire.Kind.DELETED, is_sandbox=side) for side in (False, True))
        async with running(World()) as world:
            for number in range(20):
                await world.play(life.steps + deleted, f"pod-{number}")
            world.clock.advance(61.0)
            assert not world.now.ended and not world.now.holding
            assert not world.pods._containers and not world.pods._tasks and not world.pods._states.known()

    async def test_other_labels_of_a_sandbox(self) -> None:
        async with running(World()) as world:
            world.fake.containers["s"] = {
                "io.kubernetes.pod.uid": POD,
                "io.kubernetes.cri.container-type": "sandbox",
            }
            await world.after(wire.Kind.CREATED, "s")
            await world.after(wire.Kind.STARTED, "s")
            assert world.now.holding and not world.now.running

    async def test_an_event_that_cannot_be_read_makes_it_look(self) -> None:
        async with running(World()) as world:
            world.add("main", POD)
            world.fake.tasks["main"] = fake_containerd.RUNNING
            world.fake.send(b"\xff\xff\xff")
            await waiting.until(lambda: world.now.running == {POD})
            assert world.connections == 1, "the connection stays"


class TestAway:
    async def test_what_happened_while_it_was_away_is_made_up_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(containerd, "RETRY_FIRST_S", 0.01)
        life = fake_containerd.generated()
        world = World()
        async with running(world):
            await world.play(life.create + life.start, POD)
            await world.play(life.create + life.start, OTHER)
            world.refusals = [containerd_client.Away("refused")] * 3
            world.fake.send(None)
            await waiting.until(lambda: world.connections == 2)
            assert world.now.running == {POD, OTHER}, "those of before"
            for step in life.exit:
                world.fake.play(step, POD)
            world.fake.containers = {name: found for name, found in world.fake.containers.items() if POD in name}
            world.fake.tasks = {f"{POD}-sandbox": fake_containerd.RUNNING}
            world.add("new", "third")
            world.fake.tasks["new"] = fake_containerd.RUNNING
            await waiting.until(lambda: world.now.running == {"third"})
            assert world.now.ended == {POD, OTHER}
            assert world.connections == 5

    async def test_waits_grow_and_start_again_from_the_first_once_it_is_back(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        waits: list[float] = []
        world = World()
        world.refusals = [containerd_client.Away("refused")] * 8

        async def sleep(delay_s: float) -> None:
            waits.append(delay_s)
            if len(waits) > 9:
                await asyncio.Event().wait()

        monkeypatch.setattr("carico_agent.pod_events.containerd.asyncio.sleep", sleep)
        task = asyncio.create_task(world.pods.run())
        async with asyncio.timeout(waiting.WAIT_S):
            await world.fake.taken()
            assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
            world.fake.send(None)
            world.fake._waiting.clear()
            await world.fake.taken()
        assert waits[8:] == [0.1]
        task.cancel()
        await asyncio.wait({task})

    async def test_a_pod_that_starts_while_the_stream_is_opened_is_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(containerd, "SETTLE_S", 0.02)
        async with running(World()) as world:
            # No event reports it: the subscription was not active yet.
            world.add("main", POD)
            world.fake.tasks["main"] = fake_containerd.RUNNING
            await waiting.until(lambda: world.now.running)
            assert world.now.running == {POD}

    async def test_a_mistake_of_our_own_is_not_taken_for_an_outage(self) -> None:
        world = World()
        world.pods.on_change(_fail)
        world.add("main", POD)
        world.fake.tasks["main"] = fake_containerd.RUNNING
        with pytest.raises(OSError, match="our own"):
            await world.pods.run()


class TestSocket:
    """The client on a real socket."""

    async def test_a_containerd_that_restarts(self) -> None:
        life, world = fake_containerd.generated(), fake_containerd.FakeContainerd()
        with tempfile.TemporaryDirectory(prefix="carico-") as folder:
            path = pathlib.Path(folder) / "c.sock"
            pods, task = None, None
            for uid in (POD, OTHER):
                async with fake_containerd.serve(world, path):
                    if pods is None:
                        pods = containerd_site.open_pods(path, clocks.FakeClock())
                        task = asyncio.create_task(pods.run())
                    for step in life.create + life.start:
                        world.play(step, uid)
                    await waiting.until(functools.partial(_runs, pods, uid))
            assert pods is not None and task is not None and pods.current().running == {POD, OTHER}
            task.cancel()
            await asyncio.wait({task})

    async def test_a_server_that_is_not_containerd_needs_a_person(self) -> None:
        class Nothing(fake_containerd.FakeContainerd):
            async def _serve_containers(self, stream: object) -> None:
                # As grpc-go answers for a service that it does not have.
                raise grpclib.exceptions.GRPCError(grpclib.const.Status.UNIMPLEMENTED, "unknown service")

        with tempfile.TemporaryDirectory(prefix="carico-") as folder:
            path = pathlib.Path(folder) / "c.sock"
            async with fake_containerd.serve(Nothing(), path):
                pods = containerd_site.open_pods(path, clocks.FakeClock())
                with pytest.raises(errors.EnvironmentUnfit, match="CARICO_AGENT_CONTAINERD_SOCKET"):
                    await asyncio.wait_for(pods.run(), waiting.WAIT_S)

    async def test_a_socket_without_a_listener_is_away(self) -> None:
        with tempfile.TemporaryDirectory(prefix="carico-") as folder:
            path = pathlib.Path(folder) / "c.sock"
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(str(path))
                async with containerd_client.connect(str(path)) as client:
                    with pytest.raises(containerd_client.Away):
                        await client.running()

    async def test_garbage_on_the_socket_is_away(self) -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            writer.close()

        with tempfile.TemporaryDirectory(prefix="carico-") as folder:
            path = str(pathlib.Path(folder) / "c.sock")
            async with await asyncio.start_unix_server(answer, path), containerd_client.connect(path) as client:
                with pytest.raises(containerd_client.Away):
                    await asyncio.wait_for(client.running(), waiting.WAIT_S)

    @pytest.mark.parametrize("failing", ["package", "socket", "right"])
    def test_what_is_missing_is_one_line_and_exit_code_2(
        self, failing: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "c.sock"
        if failing != "socket":
            path.touch()
        if failing == "package":
            monkeypatch.setitem(sys.modules, "grpclib", None)
            monkeypatch.delitem(sys.modules, "carico_agent.pod_events.containerd_client")
            monkeypatch.delattr("carico_agent.pod_events.containerd_client")
        if failing == "right":
            monkeypatch.setattr("carico_agent.pod_events.containerd.os.access", lambda *_: False)
        chosen = loader.load(
            settings.AgentSettings,
            prefix=settings.PREFIX,
            argv=["--node", "n", "--pod-events", "containerd", "--containerd-socket", str(path)],
            environ={},
            program="test",
        )
        with pytest.raises(errors.EnvironmentUnfit) as failed:
            service.open_pods(chosen, clock=clocks.FakeClock())
        expected = {"package": "pip install grpclib", "socket": "no such file", "right": "permission denied"}[failing]
        assert expected in str(failed.value) and "--pod-events cgroup" in str(failed.value)
        assert tasks.report(failed.value, program="carico-agent") == tasks.EXIT_USER_ERROR
        assert capsys.readouterr().err.count("\n") == 1

    def test_other_agents_do_not_load_grpc(self) -> None:
        found = subprocess.run(
            [sys.executable, "-c", "import sys, carico_agent.service; print('grpclib' in sys.modules)"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert found.stdout.strip() == "False"


def _runs(pods: ports.PodEvents, uid: str) -> bool:
    return uid in pods.current().running


def _fail() -> None:
    raise OSError("our own")
