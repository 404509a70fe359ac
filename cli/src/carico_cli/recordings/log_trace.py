"""Converts the author's log into a trace: shares instead of the builds' units, events of Pods instead of containers."""

import itertools

import numpy as np

from carico_cli.recordings import author_log, trace
from carico_core.domain import messages, recording

# A worker of the published cluster: 4 vCPU with 8 GB (dissertation 5.1).
CORES = 4.0
MEMORY_BYTES = 8e9
SAMPLE_HZ = 10.0
# Pressure in microseconds refers to 100 ms.
PERIOD_US = 1e5
SOURCE = "author's log"
_CREATED, _STARTED, _EXITED, _DELETED = range(4)


def from_log(log: author_log.AuthorLog, *, name: str) -> trace.Trace:
    """Return the trace of a log."""
    parts = _parts(log)
    values = _values(log.layout, parts)
    start_s = float(log.times_s[0])
    # Lines of two goroutines may be out of order by a millisecond; the times of samples must not decrease.
    times_s = np.maximum.accumulate(log.times_s)
    facts = recording.NodeFacts(
        node=name,
        dims=_dims(log.layout),
        scale=_scale(log.layout),
        cores=CORES,
        source=SOURCE,
        parts=log.layout.columns,
        sample_hz=SAMPLE_HZ,
        started_ns=round(start_s * 1e9),
        started_s=start_s,
    )
    events, note = _events(log)
    whole = recording.Recording(
        facts=facts, samples=recording.Samples(times_s=times_s, values=values, parts=parts), events=events
    )
    return trace.Trace(
        name=name, format="log", recording=whole, evaluations=tuple(log.evaluations), notes=(note,) if note else ()
    )


def _parts(log: author_log.AuthorLog) -> messages.Array:
    parts = log.raw.copy()
    if log.layout.pressure_us:
        parts[:, log.layout.columns.index("pressure")] /= PERIOD_US
    shares: messages.Array = np.clip(parts, 0.0, 1.0)
    return shares


def _dims(layout: author_log.Layout) -> tuple[str, ...]:
    return ("cpu", "memory") if "memory" in layout.columns else ("cpu",)


def _scale(layout: author_log.Layout) -> tuple[float, ...]:
    # Utilisation alone saturates at one task per core, with pressure at two (spec 1).
    tasks = (2.0 if "pressure" in layout.columns else 1.0) * CORES
    return (tasks, MEMORY_BYTES) if "memory" in layout.columns else (tasks,)


def _values(layout: author_log.Layout, parts: messages.Array) -> messages.Array:
    by_name = dict(zip(layout.columns, parts.T, strict=True))
    cpu = by_name["utilisation"]
    if "pressure" in by_name:
        # cpu = (utilisation + pressure) / 2
        cpu = (cpu + by_name["pressure"]) / 2
    return np.column_stack([cpu, by_name["memory"]] if "memory" in by_name else [cpu])


def _events(log: author_log.AuthorLog) -> tuple[tuple[recording.PodEvent, ...], str | None]:
    if log.containers:
        return _of_containers(sorted(log.containers, key=lambda event: event.at_s)), None
    if any(count for _, count in log.pod_counts):
        return _of_counts(log.pod_counts), "the log has no container events: Pods start and end as podCount changes"
    return (), None


def _of_containers(events: list[author_log.ContainerEvent]) -> tuple[recording.PodEvent, ...]:
    """Return the Pods' events: a Pod's first container is its sandbox, created and removed with it.

    The agent's `pod_events.containerd` reads the same events in the same way.
    """
    sandboxes: dict[str, str] = {}
    tasks: dict[str, set[str]] = {}
    found: list[recording.PodEvent] = []
    for event in events:
        is_sandbox = sandboxes.setdefault(event.pod, event.container) == event.container
        kind = _kind(event, is_sandbox, tasks.setdefault(event.pod, set()))
        if kind is not None:
            found.append(recording.PodEvent(at_s=event.at_s, kind=kind, uid=event.pod))
    return tuple(found)


def _kind(event: author_log.ContainerEvent, is_sandbox: bool, tasks: set[str]) -> recording.EventKind | None:
    if is_sandbox:
        sandbox = {
            _CREATED: recording.EventKind.CREATED,
            _EXITED: recording.EventKind.REMOVING,
            _DELETED: recording.EventKind.REMOVED,
        }
        return sandbox.get(event.topic)
    if event.topic == _STARTED:
        tasks.add(event.container)
        return recording.EventKind.STARTED
    if event.topic == _EXITED:
        tasks.discard(event.container)
        return None if tasks else recording.EventKind.ENDED
    return recording.EventKind.SETTLED if event.topic == _DELETED and not tasks else None


def _of_counts(counts: list[tuple[float, int]]) -> tuple[recording.PodEvent, ...]:
    found: list[recording.PodEvent] = []
    numbers = itertools.count(1)
    running: list[str] = []
    for at_s, count in counts:
        while len(running) < count:
            running.append(f"pod-{next(numbers)}")
            found.append(recording.PodEvent(at_s=at_s, kind=recording.EventKind.STARTED, uid=running[-1]))
        while len(running) > count:
            found.append(recording.PodEvent(at_s=at_s, kind=recording.EventKind.REMOVED, uid=running.pop(0)))
    return tuple(found)
