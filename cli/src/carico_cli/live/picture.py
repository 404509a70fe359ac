"""The state of a cluster at one moment. Frozen: a picture can be kept, sorted and drawn while signals arrive."""

import bisect
import dataclasses
import enum
import math
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from carico_core.domain import decision, messages, pod_telemetry
from carico_core.wire import freshness

UNREADY, CORDONED = "unready", "cordon"
# Each node advertises within this time (1 Hz), and the services answer.
ADVERTISED_WITHIN_S = 1.5
# Node -> UID -> what a Pod uses.
Loads: TypeAlias = Mapping[str, Mapping[str, pod_telemetry.PodLoad]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node. `age_s`: age of what it advertises. None: not heard, or not reported by the scheduler."""

    name: str
    advertisement: messages.Advertisement | None
    age_s: float | None
    freshness: freshness.Freshness
    # Pods bound or being bound that the advertisement does not cover yet, and what is free besides.
    reserved: int | None
    free: float | None
    # As the scheduler sees the Node in the API; None: not reported.
    ready: bool | None = None
    schedulable: bool | None = None

    @property
    def is_open(self) -> bool:
        """False where the Node is not ready or not schedulable, so that it gets no Pods."""
        return self.ready is not False and self.schedulable is not False

    @property
    def state(self) -> str:
        """One word of at most 7 letters: its freshness, or why it gets no Pods."""
        if self.is_open:
            return self.freshness.value
        return UNREADY if self.ready is False else CORDONED


class PodState(enum.StrEnum):
    """How far a Pod has got, in the order in which Pods are shown."""

    WAITING = "waiting"
    # Its scheduling gates keep it from being placed.
    GATED = "gated"
    # Bound to a node, and not running yet.
    STARTING = "starting"
    RUNNING = "running"
    ENDING = "ending"
    FAILED = "failed"
    SUCCEEDED = "succeeded"


class Pod(NamedTuple):
    """One Pod. Times are Unix seconds, -inf where they are not known; `why`: why it does not run, from its status.

    A NamedTuple, because every event of a Pod creates one.
    """

    uid: str
    namespace: str
    name: str
    scheduler: str
    job: str
    state: PodState
    node: str | None
    created_s: float
    # Since when it is in this state.
    since_s: float
    priority: int
    pod_class: str
    why: str

    @property
    def key(self) -> str:
        """Its name, with the namespace unless that is the default one."""
        return self.name if self.namespace == "default" else f"{self.namespace}/{self.name}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Pods of one job, by phase. `created_s`: when its oldest Pod was created (Unix time), or -inf."""

    name: str
    created_s: float
    pending: int
    starting: int
    running: int
    succeeded: int
    failed: int

    @property
    def pods(self) -> int:
        """All its Pods."""
        return self.pending + self.starting + self.running + self.succeeded + self.failed

    @property
    def ended(self) -> int:
        """Pods that have ended, with success or without."""
        return self.succeeded + self.failed


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One instance of a service, as NATS's services framework reports it. `answered_s`: how long its answer took."""

    name: str
    instance: str
    version: str
    answered_s: float
    requests: int
    errors: int
    last_error: str
    # Mean over its answers; None where there are none.
    processing_s: float | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """The model of the cluster. `age_s`: since it was published."""

    replica: str
    contributors: int
    age_s: float
    # Root of the diagonal of its Gram matrix: what typical work uses per dimension, 0 to 1.
    magnitude: Mapping[str, float]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A source of signals. `trouble`: what is wrong with it, in one line, or None."""

    name: str
    trouble: str | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """The whole cluster. Nodes in the order of their names; jobs and decisions newest first."""

    # By the scheduler's clock, since times of Pods are those of the cluster.
    taken_ns: int
    nodes: tuple[Node, ...]
    jobs: tuple[Job, ...]
    decisions: tuple[decision.Decision, ...]
    # None: they have not had time to answer yet.
    services: tuple[Service, ...] | None
    model: Model | None
    links: tuple[Link, ...]
    # Messages that wait for the aggregators; None: not known.
    backlog: int | None
    heard_per_s: float
    # Messages that could not be used, by reason.
    dropped: Mapping[str, int]
    # Those that wait first, in the order of the scheduler's queue; then by state, the oldest first.
    pods: tuple[Pod, ...] = ()
    # Why Pods were not placed when they were last decided, by UID; and the last such reason by job.
    refusals: Mapping[str, str] = dataclasses.field(default_factory=dict)
    # The last quarter of an hour, oldest first.
    summaries: tuple[messages.ClusterSummary, ...] = ()
    # Schedulers that share the work, by name; empty where one leads.
    members: tuple[messages.Heartbeat, ...] = ()
    # Only of nodes whose reports are listened to.
    loads: Loads = dataclasses.field(default_factory=dict)

    @property
    def waiting(self) -> int:
        """How many Pods wait for a node."""
        # They come first, in order of the enum's members.
        return bisect.bisect_left(self.pods, 1, key=lambda pod: pod.state is not PodState.WAITING)

    @property
    def longest_waiting(self) -> tuple[Pod, float] | None:
        """The Pod that has waited longest for a node, and for how many seconds; None if none waits."""
        waiting = [pod for pod in self.pods[: self.waiting] if math.isfinite(pod.since_s)]
        if not waiting:
            return None
        oldest = min(waiting, key=lambda pod: pod.since_s)
        return oldest, max(self.taken_ns / 1e9 - oldest.since_s, 0.0)

    def why(self, pod: Pod) -> str:
        """Return why a Pod does not run: its status, else its last decision, else the last one of its job."""
        if pod.why or pod.state is not PodState.WAITING:
            return pod.why
        return self.refusals.get(pod.uid) or self.refusals.get(pod.job, "")

    def load(self, pod: Pod) -> pod_telemetry.PodLoad | None:
        """Return what a Pod that runs uses; None if there is no reading of it."""
        # The last report of a node may still have a Pod that has ended since.
        if pod.node is None or pod.state not in (PodState.RUNNING, PodState.ENDING):
            return None
        return self.loads.get(pod.node, {}).get(pod.uid)

    def node(self, name: str) -> Node | None:
        """Return the node of that name, or None."""
        return next((node for node in self.nodes if node.name == name), None)

    @property
    def trouble(self) -> list[str]:
        """A line for each link with trouble."""
        return [f"{link.name}: {link.trouble}" for link in self.links if link.trouble is not None]
