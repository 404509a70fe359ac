"""All sources of one node, read together: one reading per sample, or the reason why there is none."""

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np

from carico_agent.telemetry import cpu as cpus
from carico_agent.telemetry import port
from carico_core.domain import messages

# Samples between two looks at the node's limits: 10 s at 10 Hz.
SIZE_EVERY = 100
# CPUs and bytes of memory.
Size = tuple[float, float]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reading:
    """One sample. values: (d,) shares in the order of the panel's dims; parts: the raw shares behind them."""

    values: messages.Array
    parts: Mapping[str, float]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts about the node. scale: physical amount of a share of 1 (tasks, bytes). notes: what is degraded."""

    dims: tuple[str, ...]
    scale: tuple[float, ...]
    cores: float
    source: str
    notes: tuple[str, ...] = ()


class Panel:
    """The gauges of a node. All are read at every sample, so that their intervals are those of the samples."""

    def __init__(
        self, facts: Facts, gauges: Mapping[str, port.Gauge], *, size: Callable[[], Size] | None = None
    ) -> None:
        """`size`: returns the node's limits, from which the facts follow; None: they never change."""
        self.facts = facts
        self._size = size
        self._opened = self._seen = None if size is None else size()
        self._reads = 0
        self._gauges = tuple(gauges[dim] for dim in facts.dims)
        self._cpu = next((gauge for gauge in self._gauges if isinstance(gauge, cpus.Cpu)), None)

    def pods_changed(self) -> None:
        """Make sources that depend on which Pods run check again."""
        if self._cpu is not None:
            self._cpu.pods_changed()

    def read(self) -> Reading | None:
        """Return one sample; None if a gauge has none yet.

        Raises `Broken` after all gauges were read, and `Resized`.
        """
        values: list[float] = []
        broken: port.Broken | None = None
        for gauge in self._gauges:
            try:
                value = gauge.read()
            except port.Broken as error:
                broken = error
                continue
            except port.Absent as error:  # switched off since it was opened
                broken = port.Broken(error.what, error.why)
                continue
            if value is not None:
                values.append(value)
        if broken is not None:
            raise broken
        self._check_size()
        if len(values) < len(self._gauges):
            return None
        return Reading(values=np.array(values), parts={} if self._cpu is None else self._cpu.parts)

    def _check_size(self) -> None:
        self._reads += 1
        if self._size is None or self._opened is None or self._reads % SIZE_EVERY:
            return
        before, self._seen = self._seen, self._size()
        # Twice the same: a limit that could not be read once is not another size.
        if before == self._seen != self._opened:
            raise port.Resized(was=self._opened, now=self._seen)
