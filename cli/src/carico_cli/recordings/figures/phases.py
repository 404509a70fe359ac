"""When how many Pods ran: the samples between container events, and bursts of Pods."""

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from carico_cli.recordings import engine, trace
from carico_cli.recordings.figures import figure
from carico_core.domain import messages, recording

# A series has reached a level at this share of it.
_REACHED = 0.9


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Phases:
    """At each sample: the running Pods, and whether containers are created or removed."""

    times_s: messages.Array
    pods: npt.NDArray[np.int64]
    churning: npt.NDArray[np.bool_]

    @property
    def most(self) -> int:
        """The largest number of Pods."""
        return int(self.pods.max())

    def at(self, count: int) -> npt.NDArray[np.bool_]:
        """Return at which samples so many Pods run undisturbed."""
        found: npt.NDArray[np.bool_] = (self.pods == count) & ~self.churning
        return found


def phases(over: trace.Trace) -> Phases:
    """Return the Pods at each sample."""
    pods = engine.Pods(over.recording.events)
    seen = [pods.at(at_s) for at_s in over.recording.samples.times_s.tolist()]
    return Phases(
        times_s=figure.times_s(over),
        pods=np.array([len(now.running) for now in seen]),
        churning=np.array([now.holding for now in seen]),
    )


def by_pods(found: Phases, values: messages.Array) -> list[dict[str, Any]]:
    """Return a row for each number of Pods that ran undisturbed, and one of the time in between (pods: None)."""
    rows = [(count, found.at(count)) for count in np.unique(found.pods[~found.churning]).tolist()]
    return [
        {
            "pods": count,
            "samples": int(chosen.sum()),
            "mean": figure.rounded(values[chosen].mean()),
            "largest": figure.rounded(values[chosen].max()),
        }
        for count, chosen in [*rows, (None, found.churning)]
        if chosen.any()
    ]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """Pods that come together: samples first to last (excluded). job_s: from the first creation to the last end."""

    first: int
    last: int
    pods: int
    job_s: float


def bursts(over: trace.Trace, found: Phases) -> list[Burst]:
    """Return the times in which Pods ran or were created, with none before and after."""
    busy = np.concatenate([[False], (found.pods > 0) | found.churning, [False]])
    edges = np.flatnonzero(np.diff(busy.astype(np.int8)))
    start_s = float(over.recording.samples.times_s[0])
    ends = (recording.EventKind.ENDED, recording.EventKind.REMOVED)
    rows = []
    for first, last in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        # Events come between samples: from the one before to the last of the burst.
        low_s = start_s + (float(found.times_s[first - 1]) if first else 0.0)
        high_s = start_s + float(found.times_s[last - 1])
        events = [event for event in over.recording.events if low_s < event.at_s <= high_s]
        ended_s = [event.at_s for event in events if event.kind in ends]
        pods = int(found.pods[first:last].max())
        if pods and ended_s:
            # The processes' end, not that of their sandboxes.
            done_s = max([event.at_s for event in events if event.kind is ends[0]] or ended_s)
            rows.append(Burst(first=first, last=last, pods=pods, job_s=done_s - min(event.at_s for event in events)))
    return rows


def reached_s(found: Phases, values: messages.Array, level: float) -> float | None:
    """Return the seconds from a job's first event until the values are at the level; None if its Pods end before.

    The job is the one with most Pods.
    """
    running = np.flatnonzero(found.pods == found.most)
    idle = np.flatnonzero(found.at(0)[: running[0]])
    start, end = int(idle[-1]) + 1 if len(idle) else 0, int(running[-1])
    there = np.flatnonzero(values[start : end + 1] >= _REACHED * level)
    return figure.rounded(found.times_s[start + there[0]] - found.times_s[start]) if len(there) else None
