"""Decisions of the scheduler as records: what was chosen, what was refused, and why."""

import dataclasses
import enum
from typing import NamedTuple


class Outcome(enum.StrEnum):
    """How one attempt to place a Pod ended."""

    BOUND = "bound"
    UNSCHEDULABLE = "unschedulable"
    BIND_CONFLICT = "bind_conflict"
    BIND_FAILED = "bind_failed"
    DROPPED = "dropped"


class Reason(enum.StrEnum):
    """Why a node was not chosen; the label of the rejection counter."""

    NODE_NAME = "node_name"
    UNSCHEDULABLE = "unschedulable"
    NOT_READY = "not_ready"
    TAINT = "taint"
    NODE_SELECTOR = "node_selector"
    NODE_AFFINITY = "node_affinity"
    REQUESTS = "requests"
    POD_LIMIT = "pod_limit"
    NO_ADVERTISEMENT = "no_advertisement"
    STALE = "stale"
    SUSPECT = "suspect"
    CAPACITY = "capacity"
    POD_AFFINITY = "pod_affinity"
    POD_ANTI_AFFINITY = "pod_anti_affinity"
    TOPOLOGY_SPREAD = "topology_spread"
    HOST_PORTS = "host_ports"
    DISK = "disk"
    VOLUME = "volume"
    VOLUME_LIMIT = "volume_limit"
    UNSUPPORTED = "unsupported"
    GANG = "gang"


# Of the words of a refusal, which state what the Pod asks for: records of thousands of decisions are kept, each with
# eight nodes, and readers of a record accept 64 KiB.
DETAIL_MOST = 1024


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """Why one node was refused, in words that a person can act on; what is longer than `DETAIL_MOST` is cut."""

    reason: Reason
    detail: str

    def __post_init__(self) -> None:
        if len(self.detail) > DETAIL_MOST:
            object.__setattr__(self, "detail", f"{self.detail[: DETAIL_MOST - 3]}...")


class Candidate(NamedTuple):
    """A node as the decision saw it. Capacities are in Pods, ages in seconds; None: not advertised.

    A named tuple, since each decision creates eight: a frozen dataclass takes three times as long.
    """

    node: str
    capacity: float | None
    reserved: float
    age_s: float | None
    seq: int | None
    score: float | None
    rejection: Rejection | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One attempt to place one Pod: subject `carico.v1.decision.<namespace>.<pod>`."""

    id: str
    boot: str
    seq: int
    ts_ns: int
    namespace: str
    pod: str
    uid: str
    outcome: Outcome
    node: str | None
    # Capacity minus reservations on the chosen node, before this Pod was added; and the threshold that it had to reach.
    free: float | None
    threshold: float
    attempt: int
    waited_s: float
    decided_us: float
    # The chosen node first, then the best of the rest; `refused` counts all nodes by reason.
    candidates: tuple[Candidate, ...]
    refused: dict[str, int]
    message: str
    # How often the Pod lost a claim before this attempt, by the scheduler to which it did; "others" beyond eight names.
    lost: dict[str, int] = dataclasses.field(default_factory=dict)
    # The start of the scheduler that made it; empty: of a version that does not say.
    scheduler: str = ""
