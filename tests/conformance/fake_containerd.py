"""A containerd of the tests: it tells of Pods in the order of the dissertation author's recorded log, over real gRPC.

The recorded log is read where it lies and copied nowhere; a generated one of the same format stands in for it.
"""

import asyncio
import contextlib
import dataclasses
import pathlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import Any

import grpclib
import grpclib.const
import grpclib.exceptions
import grpclib.server

from carico_agent.pod_events import containerd_client, containerd_wire
from tests.golden import agent_log

LOG = "event-listener/event-listners-comparison.txt"
EVENT = re.compile(r"^\S+ (\d+):(\d+):([\d.]+) \(container\) (ContainerCreate|TaskStart|TaskExit|TaskDelete): ")
TOPICS = {
    "ContainerCreate": containerd_wire.Kind.CREATED,
    "TaskStart": containerd_wire.Kind.STARTED,
    "TaskExit": containerd_wire.Kind.EXITED,
    "TaskDelete": containerd_wire.Kind.TASK_DELETED,
}
RUNNING, STOPPED = 2, 3


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One event of a Pod's life; the log does not name containers: the sandbox comes first and goes last."""

    at_s: float
    kind: containerd_wire.Kind
    is_sandbox: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """A Pod's life by the verbs of the suite."""

    create: tuple[Step, ...]
    start: tuple[Step, ...]
    exit: tuple[Step, ...]
    remove: tuple[Step, ...]

    @property
    def steps(self) -> tuple[Step, ...]:
        return self.create + self.start + self.exit + self.remove


def recorded() -> Life | None:
    """The recorded log's Pod; None where the log is absent."""
    path = agent_log.shared_data() / LOG
    if not path.is_file():
        return None
    with path.open() as lines:
        return parse(lines)


def generated() -> Life:
    """A made-up Pod's."""
    return parse(generate())


def parse(lines: Iterable[str]) -> Life:
    """The life of the one Pod of a log."""
    steps: list[Step] = []
    for line in lines:
        found = EVENT.match(line)
        if found is None:
            continue
        kind = TOPICS[found[4]]
        before = [step for step in steps if step.kind is kind]
        is_sandbox = not before if kind in (TOPICS["ContainerCreate"], TOPICS["TaskStart"]) else bool(before)
        at_s = int(found[1]) * 3600 + int(found[2]) * 60 + float(found[3])
        steps.append(Step(at_s=at_s, kind=kind, is_sandbox=is_sandbox))
    assert [step.is_sandbox for step in steps] == [True, True, False, False, False, False, True, True]
    return Life(create=tuple(steps[:2]), start=tuple(steps[2:4]), exit=tuple(steps[4:6]), remove=tuple(steps[6:]))


def generate() -> Iterator[str]:
    """Lines of a log of the same format."""
    yield "2025/01/01 10:00:00.000001 (container) start watching function\n"
    moments = (1.0, 1.3, 1.35, 1.5, 5.0, 5.1, 7.0, 7.1)
    names = ("ContainerCreate", "TaskStart", "ContainerCreate", "TaskStart") + ("TaskExit", "TaskDelete") * 2
    for moment, name in zip(moments, names, strict=True):
        yield f"2025/01/01 10:00:{moment:09.6f} (container) {name}: detected: 2025-01-01T10:00:{moment:09.6f}Z\n"
        yield f"2025/01/01 10:00:{moment:09.6f} (metrics) cpu utilisation: 0.1 cpu pressure: 0.1 mem utilisation 0.1\n"


class FakeContainerd:
    """Containers, their tasks, and who listens. As the agent's client sees it, or served over a socket."""

    def __init__(self) -> None:
        self.containers: dict[str, dict[str, str]] = {}
        self.tasks: dict[str, int] = {}
        self.asked: list[str] = []
        self._listeners: list[asyncio.Queue[bytes | None]] = []
        self._waiting: asyncio.Event = asyncio.Event()

    def play(self, step: Step, uid: str) -> None:
        """One event of a Pod, and the state that it tells of."""
        name = f"{uid}-{'sandbox' if step.is_sandbox else 'main'}"
        kind = containerd_wire.Kind
        match step.kind:
            case kind.CREATED:
                self.containers[name] = {
                    "io.kubernetes.pod.uid": uid,
                    "io.kubernetes.pod.namespace": "default",
                    "io.cri-containerd.kind": "sandbox" if step.is_sandbox else "container",
                }
            case kind.STARTED:
                self.tasks[name] = RUNNING
            case kind.EXITED:
                self.tasks[name] = STOPPED
            case kind.TASK_DELETED:
                self.tasks.pop(name, None)
            case kind.DELETED:
                self.containers.pop(name, None)
        self.tell(step.kind, name)

    def tell(self, topic: str, name: str, *, process: str | None = None) -> None:
        """An event to everybody who listens; `process`: of one that `exec` started in the container."""
        self.send(envelope(topic, name, process=process))

    def send(self, message: bytes | None) -> None:
        """These bytes as an event; None ends the stream."""
        self._waiting.clear()
        for listener in self._listeners:
            listener.put_nowait(message)

    async def taken(self) -> None:
        """Once every event so far was taken in (of the in-memory form)."""
        await self._waiting.wait()

    # --- what the adapter needs of a connection, without a socket ---

    @contextlib.asynccontextmanager
    async def connect(self) -> AsyncIterator["FakeContainerd"]:
        yield self

    @contextlib.asynccontextmanager
    async def subscribe(self) -> AsyncIterator[Callable[[], Awaitable[containerd_wire.Event | None]]]:
        with self._listening() as listener:

            async def next_event() -> containerd_wire.Event | None:
                if listener.empty():
                    self._waiting.set()
                message = await listener.get()
                if message is None:
                    raise containerd_client.Away("the fake ended its stream")
                return containerd_wire.parse_envelope(message)

            yield next_event

    async def container(self, name: str) -> containerd_wire.Container | None:
        self.asked.append(name)
        labels = self.containers.get(name)
        return None if labels is None else containerd_wire.parse_container(field(1, container(name, labels)))

    async def containers_of_pods(self) -> list[containerd_wire.Container]:
        return [
            containerd_wire.parse_container(field(1, container(name, labels)))
            for name, labels in self.containers.items()
        ]

    async def running(self) -> frozenset[str]:
        return containerd_wire.parse_running(tasks(self.tasks))

    # --- the same over gRPC ---

    def __mapping__(self) -> dict[str, grpclib.const.Handler]:
        unary, streaming = grpclib.const.Cardinality.UNARY_UNARY, grpclib.const.Cardinality.UNARY_STREAM
        return {
            containerd_client.EVENTS: grpclib.const.Handler(self._serve_events, streaming, bytes, bytes),
            containerd_client.CONTAINER: grpclib.const.Handler(self._serve_container, unary, bytes, bytes),
            containerd_client.CONTAINERS: grpclib.const.Handler(self._serve_containers, streaming, bytes, bytes),
            containerd_client.TASKS: grpclib.const.Handler(self._serve_tasks, unary, bytes, bytes),
        }

    async def _serve_events(self, stream: Any) -> None:
        request = await stream.recv_message()
        assert b'namespace=="k8s.io",topic=="/tasks/exit"' in request
        with self._listening() as listener:
            while (message := await listener.get()) is not None:
                await stream.send_message(message)

    async def _serve_container(self, stream: Any) -> None:
        _check_namespace(stream)
        name = dict(containerd_wire.fields(await stream.recv_message(), what="request"))[1]
        assert isinstance(name, bytes)
        labels = self.containers.get(name.decode())
        if labels is None:
            raise grpclib.exceptions.GRPCError(grpclib.const.Status.NOT_FOUND, "no such container")
        await stream.send_message(field(1, container(name.decode(), labels)))

    async def _serve_containers(self, stream: Any) -> None:
        _check_namespace(stream)
        await stream.recv_message()
        for name, labels in list(self.containers.items()):
            await stream.send_message(field(1, container(name, labels)))

    async def _serve_tasks(self, stream: Any) -> None:
        _check_namespace(stream)
        await stream.recv_message()
        await stream.send_message(tasks(self.tasks))

    @contextlib.contextmanager
    def _listening(self) -> Iterator[asyncio.Queue[bytes | None]]:
        listener: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._listeners.append(listener)
        try:
            yield listener
        finally:
            self._listeners.remove(listener)


class InMemory:
    """A fake as one connection of the adapter, without a socket."""

    def __init__(self, fake: FakeContainerd) -> None:
        self.subscribe = fake.subscribe
        self.container = fake.container
        self.containers = fake.containers_of_pods
        self.running = fake.running


@contextlib.asynccontextmanager
async def serve(fake: Any, socket: pathlib.Path) -> AsyncIterator[None]:
    """The fake listens on a socket."""
    server = grpclib.server.Server([fake], codec=containerd_client.Raw())
    await server.start(path=str(socket))
    try:
        yield
    finally:
        server.close()
        await server.wait_closed()


# --- containerd's messages, written by their definitions and not by the project's code ---


def varint(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value % 128 + 128]) + varint(value // 128)


def field(number: int, value: bytes | str | int) -> bytes:
    if isinstance(value, int):
        return varint(number * 8) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number * 8 + 2) + varint(len(data)) + data


def envelope(topic: str, name: str, *, process: str | None = None) -> bytes:
    """timestamp 1, namespace 2, topic 3, event 4 (an Any: type 1, value 2)."""
    event = field(1, name)
    if topic == "/tasks/exit":
        event += field(2, process or name) + field(3, 4242) + field(4, 137) + field(5, field(1, 1_700_000_000))
    elif topic == "/tasks/delete":
        event += field(2, 4242) + field(4, field(1, 1_700_000_000)) + (field(5, process) if process else b"")
    elif topic == "/tasks/start":
        event += field(2, 4242)
    elif topic == "/containers/create":
        event += field(2, "example.invalid/image:1") + field(3, field(1, "io.containerd.runc.v2"))
    whole = field(1, "containerd.events.Whatever") + field(2, event)
    return field(1, field(1, 1_700_000_000)) + field(2, "k8s.io") + field(3, topic) + field(4, whole)


def container(name: str, labels: dict[str, str]) -> bytes:
    """id 1, labels 2, image 3, runtime 4, spec 5."""
    told = b"".join(field(2, field(1, key) + field(2, value)) for key, value in labels.items())
    return field(1, name) + told + field(3, "example.invalid/image:1") + field(5, field(2, b"{}" * 2000))


def tasks(states: dict[str, int]) -> bytes:
    """Of each task: id 2, pid 3, status 4."""
    return b"".join(field(1, field(2, name) + field(3, 4242) + field(4, state)) for name, state in states.items())


def _check_namespace(stream: Any) -> None:
    assert stream.metadata["containerd-namespace"] == "k8s.io"
