"""What happened in a cluster under faults, as seen from outside of CARICO: by the API, the bus and the Pods themselves.

All times are Unix seconds of one machine.
"""

import dataclasses
from collections.abc import Mapping

from carico_core.domain import decision, messages


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A Pod of the test, as it was created: `selector` is its `nodeSelector`. `deleted_s`: when we deleted it."""

    uid: str
    name: str
    created_s: float
    selector: Mapping[str, str] = dataclasses.field(default_factory=dict)
    deleted_s: float | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A line that a Pod's own process wrote: it has started, or it has finished its work."""

    uid: str
    node: str
    at_s: float
    is_start: bool = True


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A Pod as the watch showed it. `is_gone`: with this event it was removed from the API."""

    uid: str
    at_s: float
    node: str | None
    phase: str
    reason: str = ""
    is_gone: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Bind:
    """A Binding that a scheduler sent, on the scheduler's own way to the API. `status` 0: no answer came."""

    scheduler: str
    pod: str
    uid: str
    node: str
    sent_s: float
    status: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A write of the Lease that the API accepted: `holder` leads for `duration_s` from now; "" offers the Lease."""

    holder: str
    at_s: float
    duration_s: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Cordon:
    """A node was cordoned, or the cordon was removed, by an answer of the API."""

    node: str
    at_s: float
    is_on: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Advertised:
    """An advertisement, and when the recorder received it."""

    at_s: float
    said: messages.Advertisement


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What a service used at one moment. `instance` is its process, another one after each restart.

    `descriptors`: without its clients' connections.
    """

    service: str
    instance: str
    at_s: float
    rss_bytes: int
    descriptors: int
    threads: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault that was done, from its begin until its end."""

    kind: str
    target: str
    began_s: float
    ended_s: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """A service that ended by itself, as with a token that has expired, and was started again."""

    service: str
    at_s: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a command showed as JSON. `target`: a service that did not work meanwhile; empty: all were to work."""

    command: str
    target: str
    began_s: float
    ended_s: float
    code: int
    out: str
    err: str


@dataclasses.dataclass(slots=True, kw_only=True)
class History:
    """Everything that was recorded, each list in order of time."""

    # The class that agents give the Pods of the test, which are all alike.
    pod_class: str = messages.ANY_CLASS
    # Labels of each node, which do not change.
    nodes: dict[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)
    pods: list[Pod] = dataclasses.field(default_factory=list)
    runs: list[Run] = dataclasses.field(default_factory=list)
    shown: list[Shown] = dataclasses.field(default_factory=list)
    binds: list[Bind] = dataclasses.field(default_factory=list)
    terms: list[Term] = dataclasses.field(default_factory=list)
    cordons: list[Cordon] = dataclasses.field(default_factory=list)
    advertised: list[Advertised] = dataclasses.field(default_factory=list)
    decisions: list[decision.Decision] = dataclasses.field(default_factory=list)
    samples: list[Sample] = dataclasses.field(default_factory=list)
    faults: list[Fault] = dataclasses.field(default_factory=list)
    looks: list[Look] = dataclasses.field(default_factory=list)
    ends: list[End] = dataclasses.field(default_factory=list)
    # How often the kernel has killed a service at the limit of its manifest, and any at one that was made too low.
    out_of_memory: Mapping[str, int] = dataclasses.field(default_factory=dict)
    short_of_memory: int = 0
