"""The few messages of containerd's gRPC services that the agent needs, as bytes to records and back.

Written by hand: a protobuf runtime would cost an agent megabytes for a dozen fields. Unknown fields are skipped, as
protobuf requires. https://github.com/containerd/containerd/tree/main/api
"""

import dataclasses
import enum
from collections.abc import Iterator

from carico_core.domain import errors
from carico_core.wire import protobuf

# containerd's namespace for the kubelet's containers, and the labels that its CRI plugin sets. The kind is the label
# `io.cri-containerd.kind`; the other name is that of CRI's annotation, which some tools set as a label.
NAMESPACE = "k8s.io"
POD_UID_LABEL = "io.kubernetes.pod.uid"
KIND_LABELS = ("io.cri-containerd.kind", "io.kubernetes.cri.container-type")
SANDBOX = "sandbox"

# containerd.v1.types.Status: RUNNING, PAUSED, PAUSING. CREATED has no process of its own yet.
_RUNNING_STATES = frozenset({2, 4, 5})


class Malformed(errors.CaricoError):
    """A message that does not match containerd's definitions."""

    def __init__(self, what: str, data: bytes) -> None:
        self.what = what
        super().__init__(f"{what}: got {data[:40]!r}, expected a message of containerd's API v1")


class Kind(enum.StrEnum):
    """What happened to a container; the value is containerd's topic."""

    CREATED = "/containers/create"
    STARTED = "/tasks/start"
    EXITED = "/tasks/exit"
    TASK_DELETED = "/tasks/delete"
    DELETED = "/containers/delete"


_KINDS = {kind.value: kind for kind in Kind}
# The fields of an event that hold the container's id, and (of a task's) which of its processes it is about.
_ID_FIELDS = {
    Kind.CREATED: (1, None),
    Kind.STARTED: (1, None),
    Kind.EXITED: (1, 2),
    Kind.TASK_DELETED: (1, 5),
    Kind.DELETED: (1, None),
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event of a container and its main process."""

    kind: Kind
    container: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container. pod_uid: None if it does not belong to a Pod."""

    id: str
    pod_uid: str | None
    is_sandbox: bool


def encode_subscribe() -> bytes:
    """Return a SubscribeRequest for the events of `Kind`."""
    return b"".join(protobuf.encode_text(1, f'namespace=="{NAMESPACE}",topic=="{kind}"') for kind in Kind)


def encode_list() -> bytes:
    """Return a ListContainersRequest for the containers of Pods."""
    return protobuf.encode_text(1, f'labels."{POD_UID_LABEL}"')


def encode_get(container: str) -> bytes:
    """Return a GetContainerRequest."""
    return protobuf.encode_text(1, container)


def parse_envelope(data: bytes) -> Event | None:
    """Return the event in an Envelope; None for an irrelevant kind, or a process that `exec` started.

    Raises `Malformed`.
    """
    topic, payload = "", b""
    for number, value in fields(data, what="envelope"):
        if number == 3:
            topic = _text(value, what="envelope.topic")
        elif number == 4:
            payload = _bytes(value, what="envelope.event")
    kind = _KINDS.get(topic)
    if kind is None:
        return None
    found = dict(fields(_first_bytes(payload, 2, what="envelope.event"), what=topic))
    id_field, process_field = _ID_FIELDS[kind]
    container = _text(found.get(id_field, b""), what=topic)
    process = "" if process_field is None else _text(found.get(process_field, b""), what=topic)
    if not container:
        raise Malformed(topic, payload)
    return Event(kind=kind, container=container) if process in ("", container) else None


def parse_container(data: bytes) -> Container:
    """Return the container of a GetContainerResponse or a ListContainerMessage. Raises `Malformed`."""
    name, labels = "", {}
    for number, value in fields(_first_bytes(data, 1, what="container"), what="container"):
        if number == 1:
            name = _text(value, what="container.id")
        elif number == 2:
            entry = dict(fields(_bytes(value, what="container.labels"), what="container.labels"))
            key = _text(entry.get(1, b""), what="container.labels")
            labels[key] = _text(entry.get(2, b""), what="container.labels")
    if not name:
        raise Malformed("container.id", data)
    kind = next((labels[label] for label in KIND_LABELS if label in labels), "")
    return Container(id=name, pod_uid=labels.get(POD_UID_LABEL) or None, is_sandbox=kind == SANDBOX)


def parse_running(data: bytes) -> frozenset[str]:
    """Return the ids of the tasks of a ListTasksResponse whose main process runs. Raises `Malformed`."""
    running = set()
    for number, value in fields(data, what="tasks"):
        if number != 1:
            continue
        process = dict(fields(_bytes(value, what="tasks"), what="tasks"))
        name = _text(process.get(2) or process.get(1) or b"", what="tasks.id")
        if process.get(4, 0) in _RUNNING_STATES and name:
            running.add(name)
    return frozenset(running)


def fields(data: bytes, *, what: str) -> Iterator[tuple[int, int | bytes]]:
    """Yield (number, value) of each field of a protobuf message; fixed-size ones as bytes.

    >>> list(fields(bytes([0x08, 0x96, 0x01, 0x12, 0x02]) + b"ab", what="a message"))
    [(1, 150), (2, b'ab')]

    Raises `Malformed`.
    """
    try:
        yield from protobuf.fields(data)
    except ValueError as error:
        raise Malformed(what, data) from error


def _first_bytes(data: bytes, number: int, *, what: str) -> bytes:
    return _bytes(dict(fields(data, what=what)).get(number, b""), what=what)


def _bytes(value: int | bytes, *, what: str) -> bytes:
    if isinstance(value, int):
        raise Malformed(what, str(value).encode())
    return value


def _text(value: int | bytes, *, what: str) -> str:
    try:
        return _bytes(value, what=what).decode()
    except UnicodeDecodeError:
        raise Malformed(what, _bytes(value, what=what)) from None
