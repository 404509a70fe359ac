"""Converts the author's log into a trace: shares instead of the builds' units, events of Pods instead of containers."""

import itertools

import numpy as np

from carico_cli.recordings import author_log, sample_words, trace
from carico_core.domain import messages, recording

# A worker of the published cluster: 4 vCPU with 8 GB (dissertation 5.1).
CORES = 4.0
MEMORY_BYTES = 8e9
SAMPLE_HZ = 10.0
SOURCE = "author's log"
_CREATED, _STARTED, _EXITED, _DELETED = range(4)


def from_log(log: author_log.AuthorLog, *, name: str) -> trace.Trace:
    """Return the trace of a log."""
    cpu = sample_words.cpu(log.columns) or ()
    has_memory = sample_words.MEMORY in log.columns
    start_s = float(log.times_s[0])
    # Lines of two goroutines may be out of order by a millisecond; the times of samples must not decrease.
    times_s = np.maximum.accumulate(log.times_s)
    parts = sample_words.shares(log.columns, times_s, log.raw)
    facts = recording.NodeFacts(
        node=name,
        dims=("cpu", "memory") if has_memory else ("cpu",),
        scale=(_full_tasks(cpu), MEMORY_BYTES) if has_memory else (_full_tasks(cpu),),
        cores=CORES,
        source=SOURCE,
        parts=log.columns,
        sample_hz=SAMPLE_HZ,
        started_ns=round(start_s * 1e9),
        started_s=start_s,
    )
    events, note = _events(log)
    samples = recording.Samples(times_s=times_s, values=_values(log.columns, cpu, parts), parts=parts)
    return trace.Trace(
        name=name,
        format="log",
        recording=recording.Recording(facts=facts, samples=samples, events=events),
        # They are of both dimensions.
        evaluations=tuple(log.evaluations) if has_memory else (),
        api=tuple(log.api),
        notes=tuple(said for said in (note, _UNSEEN if sample_words.UTILISATION not in cpu else None) if said),
    )


_UNSEEN = "the log has pressure and no utilisation: Pods that do not compete for a CPU cost nothing"


def _full_tasks(cpu: tuple[str, ...]) -> float:
    # Utilisation alone saturates at one task per core, with pressure or pressure alone at two.
    return (1.0 if cpu == (sample_words.UTILISATION,) else 2.0) * CORES


def _values(columns: tuple[str, ...], cpu: tuple[str, ...], parts: messages.Array) -> messages.Array:
    by_name = dict(zip(columns, parts.T, strict=True))
    # cpu = (utilisation + pressure) / 2, or the one that the log has
    usage = sum(by_name[name] for name in cpu) / len(cpu)
    return np.column_stack([usage, by_name["memory"]] if "memory" in by_name else [usage])


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
