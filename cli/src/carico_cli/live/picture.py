"""What is known of a cluster at one moment. Frozen: a picture can be kept, sorted and drawn while signals come in."""

import dataclasses
from collections.abc import Mapping

from carico_core.domain import decision, messages
from carico_core.wire import freshness

UNREADY, CORDONED = "unready", "cordon"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node. `age_s`: since what it advertises was true. None: not heard, or the scheduler has not said."""

    name: str
    advertisement: messages.Advertisement | None
    age_s: float | None
    freshness: freshness.Freshness
    # Pods bound or being bound that the advertisement does not cover yet, and what is free beside them.
    reserved: int | None
    free: float | None
    # As the scheduler sees the Node in the API; None: it has not said.
    ready: bool | None = None
    schedulable: bool | None = None

    @property
    def is_open(self) -> bool:
        """False where the API lets it have no Pods at all."""
        return self.ready is not False and self.schedulable is not False

    @property
    def state(self) -> str:
        """How it stands, in a word of at most 7 letters: its freshness, unless the API lets it have no Pods at all."""
        if self.is_open:
            return self.freshness.value
        return UNREADY if self.ready is False else CORDONED


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Pods of one job, by where they are. `created`: of its oldest Pod, as Kubernetes writes times."""

    name: str
    created: str
    pending: int
    starting: int
    running: int
    succeeded: int
    failed: int

    @property
    def pods(self) -> int:
        """All of them."""
        return self.pending + self.starting + self.running + self.succeeded + self.failed

    @property
    def ended(self) -> int:
        """Those that have ended, well or not."""
        return self.succeeded + self.failed


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One instance of a service, by NATS's services framework. `answered_s`: how long its answer took."""

    name: str
    instance: str
    version: str
    answered_s: float
    requests: int
    errors: int
    last_error: str
    # Of its answers, on average; None where it has given none.
    processing_s: float | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """The model of the cluster. `age_s`: since it was last said."""

    replica: str
    contributors: int
    age_s: float
    dims: tuple[str, ...]
    # Root of the diagonal of its Gram matrix: what typical work uses per dimension, 0 to 1.
    magnitude: Mapping[str, float]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """Something that signals come from. `trouble`: what is wrong with it, in a line; None where nothing is."""

    name: str
    trouble: str | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """The whole cluster. Nodes by name, jobs and decisions newest first."""

    taken_ns: int
    nodes: tuple[Node, ...]
    jobs: tuple[Job, ...]
    decisions: tuple[decision.Decision, ...]
    services: tuple[Service, ...]
    model: Model | None
    links: tuple[Link, ...]
    # Messages that wait for the aggregators; None where it is not known.
    backlog: int | None
    heard_per_s: float
    # Messages that could not be used, by reason.
    dropped: Mapping[str, int]

    def node(self, name: str) -> Node | None:
        """Return the node of that name, where there is one."""
        return next((node for node in self.nodes if node.name == name), None)

    @property
    def trouble(self) -> list[str]:
        """A line for each link with trouble."""
        return [f"{link.name}: {link.trouble}" for link in self.links if link.trouble is not None]
