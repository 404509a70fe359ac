"""Recorded telemetry of a node: raw samples, Pod events, and facts about the node."""

import dataclasses
import enum
import math

import numpy as np

from carico_core.domain import messages


class EventKind(enum.StrEnum):
    """What happened to a Pod on its node, in the usual order; SETTLED comes after ENDED.

    Files store the position of a kind in this list, so new kinds are added at the end.
    """

    CREATED = "created"
    STARTED = "started"
    ENDED = "ended"
    REMOVING = "removing"
    REMOVED = "removed"
    SETTLED = "settled"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PodEvent:
    """One event. `at_s` is on the clock of the samples; `workload` is the Pod's class if it is known."""

    at_s: float
    kind: EventKind
    uid: str
    workload: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """The node as its agent found it, and the columns of the samples.

    scale: the physical amount of a share of 1, per dimension (runnable tasks, bytes). parts: names of the raw shares
    that are recorded with the dimensions (cpu utilisation, cpu pressure). started_ns: wall clock at `started_s`, which
    is on the samples' monotonic clock.
    """

    node: str
    dims: tuple[str, ...]
    scale: tuple[float, ...]
    cores: float
    source: str
    parts: tuple[str, ...]
    sample_hz: float
    started_ns: int
    started_s: float
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.dims or len(set(self.dims)) != len(self.dims):
            raise ValueError(f"dims: got {self.dims}, expected distinct names, at least one")
        if len(self.scale) != len(self.dims):
            raise ValueError(f"scale: got {len(self.scale)} numbers, expected one for each of {self.dims}")
        for name, number in (("cores", self.cores), ("sample_hz", self.sample_hz), *(("scale", s) for s in self.scale)):
            if not 0.0 < number < math.inf:
                raise ValueError(f"{name}: got {number}, expected a positive finite number")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Samples:
    """times_s: (n,), never decreasing. values: (n, d) shares by dimension. parts: (n, p), NaN if one was missing."""

    times_s: messages.Array
    values: messages.Array
    parts: messages.Array

    def __post_init__(self) -> None:
        for name in ("times_s", "values", "parts"):
            array = np.array(getattr(self, name), dtype=np.float64)
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        rows = len(self.times_s)
        if self.times_s.ndim != 1 or self.values.ndim != 2 or self.parts.ndim != 2:
            raise ValueError(
                f"samples: got ranks {self.times_s.ndim}, {self.values.ndim}, {self.parts.ndim}, not 1, 2, 2"
            )
        if len(self.values) != rows or len(self.parts) != rows:
            raise ValueError(f"samples: got {rows} times, {len(self.values)} values and {len(self.parts)} parts")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recording:
    """A whole recording. `ended`: whether its writer closed it (False: the writer was killed)."""

    facts: NodeFacts
    samples: Samples
    events: tuple[PodEvent, ...]
    ended: bool = True
