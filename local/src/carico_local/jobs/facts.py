"""Facts of one job as an observer saw them; none is computed from a model."""

import dataclasses
from collections.abc import Mapping, Sequence


@dataclasses.dataclass(slots=True, kw_only=True)
class PodFacts:
    """One Pod. Times are Unix seconds on the observer's machine; None: not seen yet."""

    uid: str
    name: str
    workload: str
    created_s: float
    phase: str = "Pending"
    reason: str = ""
    # Every node that the API has shown for this Pod, in order: more than one means that it was bound twice.
    nodes: list[str] = dataclasses.field(default_factory=list)
    running: bool = False
    # From the termination message: start and exit of the process on the node.
    started_s: float | None = None
    finished_s: float | None = None
    terminal_s: float | None = None
    gone: bool = False
    # Its phase when its deletion was requested; empty where it had ended before.
    deleted_while: str = ""
    # Its whole termination message, where it is the JSON line of one of our workloads.
    outcome: dict[str, object] = dataclasses.field(default_factory=dict)

    @property
    def node(self) -> str | None:
        """The node to which it is bound."""
        return self.nodes[-1] if self.nodes else None

    @property
    def time_s(self) -> float | None:
        """Time from the start of the process to its exit."""
        return None if self.started_s is None or self.finished_s is None else self.finished_s - self.started_s

    @property
    def is_terminal(self) -> bool:
        """True where it has ended, or is gone."""
        return self.gone or self.phase in ("Succeeded", "Failed")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A decision that bound a Pod. `free`: capacity minus reservations before it, by the advertisement it used."""

    uid: str
    free: float | None
    threshold: float
    mode: str
    waited_s: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AdvertisedCapacity:
    """One advertisement. `cost`: dimension -> (mean, sd), in physical units."""

    at_s: float
    node: str
    capacity: float
    capacity_sd: float
    pods: int
    mode: str
    usage: Mapping[str, float]
    parts: Mapping[str, float]
    cost: Mapping[str, tuple[float, float]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The cluster, job and machine.

    `ceiling`: dimension -> share; `scale`: real CPUs per emulated core; `most_cores`: the emulated cores that all nodes
    together can use, which without quotas are all of the machine's.
    """

    nodes: Sequence[str]
    cores: int
    scale: float
    most_cores: float
    memory_bytes: int
    estimator: str
    ceiling: Mapping[str, float]
    workload: str
    pods: int
    total_work_s: float
    mean_work_s: float
    machine: Mapping[str, object]
    # Program or package -> version.
    versions: Mapping[str, str]
    notes: Sequence[str]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All facts of one job. `submitted_s`: when its first Pod was sent to the API."""

    setting: Setting
    submitted_s: float
    ended_s: float
    pods: Sequence[PodFacts]
    placed: Sequence[Placed]
    waits: Mapping[str, int]
    capacities: Sequence[AdvertisedCapacity]
    crashes: Sequence[str]
