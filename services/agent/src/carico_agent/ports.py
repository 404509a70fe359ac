"""The interfaces between the parts of the agent."""

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from typing import NamedTuple, Protocol

from carico_core.domain import pod_telemetry, recording, usage


class PodSet(Protocol):
    """The Pods of a node at one moment."""

    @property
    def running(self) -> Set[str]:
        """UIDs of the workload Pods that count now."""
        ...

    @property
    def baseline(self) -> Set[str]:
        """UIDs of the running Pods that belong to the node: covered by advertisements, but not counted."""
        ...

    @property
    def ended(self) -> Collection[str]:
        """UIDs of Pods that ended within the last 60 s, a bounded number, oldest first if there is an order."""
        ...

    @property
    def holding(self) -> bool:
        """Whether a container is being created or removed, so that telemetry includes the runtime's own work."""
        ...


class PodEvents(Protocol):
    """A source of starts and ends of Pods."""

    def current(self) -> PodSet:
        """Return the current Pods."""
        ...

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call `callback` in the loop's thread after each change of `current`."""
        ...

    def on_event(self, witness: Callable[[recording.EventKind, str, float], None]) -> None:
        """Call `witness` with the kind, the Pod's UID and the time (monotonic) of each event of a Pod."""
        ...

    async def run(self) -> None:
        """Keep `current` up to date until cancelled."""
        ...


class PodClasses(Protocol):
    """The class of each Pod, and which Pods are no workload."""

    def of(self, uid: str) -> str:
        """Return the class of a Pod; the general class if it is unknown."""
        ...

    def is_baseline(self, uid: str) -> bool:
        """Return True for a Pod that belongs to the node, such as a DaemonSet's; False if it is unknown."""
        ...

    def template(self, uid: str) -> usage.Template | None:
        """Return what a Pod is made of; None if it is unknown."""
        ...

    def container(self, uid: str, folder: str) -> str | None:
        """Return the name of a Pod's container by the folder of its cgroup; None if it is unknown."""
        ...

    def take_failed(self) -> list[str]:
        """Return the UIDs of the workload's Pods that have failed since the last call."""
        ...

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call `callback` in the loop's thread whenever a class becomes known."""
        ...

    async def run(self) -> None:
        """Keep the classes up to date until cancelled."""
        ...


class ContainerAmounts(NamedTuple):
    """CPU time of a container since its cgroup was created, in seconds of a real CPU, and its working set now."""

    cpu_s: float
    memory_bytes: float


class PodAmounts(NamedTuple):
    """CPU time of a Pod since its cgroup was created, in seconds of a real CPU, and its working set now.

    `waiting_s`: how long a task of the Pod waited for a CPU, without the time for which the Pod's own limits held it
    back. The latter is counted late, so this may decrease. None where the kernel does not measure it.
    """

    cpu_s: float
    memory_bytes: float
    waiting_s: float | None = None
    # By the folder of the container's cgroup, if they were asked for.
    containers: Mapping[str, ContainerAmounts] = {}


class PodLedger(Protocol):
    """What single Pods have used."""

    def read(self, uid: str, *, has_several: bool) -> PodAmounts | None:
        """Return what a Pod has used; None if it cannot be read. `has_several`: also of each of its containers."""
        ...

    def forget(self, uid: str) -> None:
        """Take in that a Pod has ended."""
        ...


class TrafficSource(Protocol):
    """A source of the traffic of Pods."""

    async def run(self, found: Callable[[Sequence[pod_telemetry.PodFlow]], None]) -> None:
        """Pass on bytes that have been transferred, each once, until cancelled."""
        ...


class PodTraces(Protocol):
    """Traces Pods from their container's creation to the advertisement that covers them."""

    def happened(self, kind: recording.EventKind, uid: str, at_s: float) -> None:
        """Take in an event of a Pod at `at_s` (monotonic)."""
        ...

    def advertised(self, covers: Set[str], *, seq: int, capacity: float) -> None:
        """Take in that an advertisement covering these UIDs is being sent."""
        ...


class Publisher(Protocol):
    """Sends an agent's messages."""

    async def publish(self, subject: str, payload: bytes) -> None:
        """Publish a message. Raises `BusUnavailable`."""
        ...
