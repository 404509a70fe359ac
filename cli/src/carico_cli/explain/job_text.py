"""Where a job's time went: waiting for a node, starting, running, and where; from its Pods at the API. Pure."""

import collections
import contextlib
import dataclasses
import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from carico_cli.live import addresses
from carico_cli.output import formats, words
from carico_core.domain import amounts
from carico_core.wire.kubernetes import instants
from carico_core.wire.kubernetes import object_fields as fields
from carico_local.jobs import job_labels

# Nodes shown in a text; -o wide and -o json show all.
SHOWN = 20
# Above this ratio of its time to its work alone, a Pod is called slow.
_SLOW = 1.5
_FAILED = "Failed"
# After so long schedulers write an Event (CARICO_SCHEDULER_EVENT_AFTER_S).
_EVENT_AFTER_S = 3.0
# Of reasons for which Pods waited.
_WHYS_SHOWN = 3


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Times:
    """One Pod's times, in Unix seconds; None: not reached, or not known."""

    namespace: str
    name: str
    phase: str
    node: str | None
    created_s: float
    bound_s: float | None
    started_s: float | None
    ended_s: float | None
    # Its work on one idle core, where the Pod states it.
    work_s: float | None
    # What it waits for that has no node; empty where nothing says.
    why: str


def answer(
    name: str, pods: Sequence[Mapping[str, Any]], *, now_s: float, jobs: Iterable[Mapping[str, Any]] = (),
    said: Iterable[Mapping[str, Any]] = (), unread: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Return the job's times as JSON types. Spans of Pods that still wait or run are counted until now.

    jobs: the batch/v1 Jobs that created them. said: the Events that say what they waited for, oldest first; unread:
    what of those is not known.
    """
    found = [_times(pod) for pod in pods]
    # A clock that is behind those of the cluster would count nothing of what lasts.
    now_s = max(now_s, *(at_s or 0.0 for e in found for at_s in (e.created_s, e.bound_s, e.started_s, e.ended_s)))
    failed = next((each for each in found if each.phase == _FAILED), None)
    ends = [each.ended_s for each in found]
    last_s = max((end for end in ends if end is not None), default=now_s) if all(ends) else now_s
    spans, slowness = _spans(found, now_s)
    return {
        "job": name,
        "pods": len(found),
        "phases": dict(collections.Counter(each.phase for each in found)),
        "failed_pod": None if failed is None else {"namespace": failed.namespace, "pod": failed.name},
        "gone": gone(pods, jobs),
        "waits": _waits(found),
        "waited": _waited(said),
        "waited_unread": unread,
        "ended": all(ends),
        "job_s": round(last_s - min(each.created_s for each in found), 1),
        "spans": {what: _spread(values) for what, values in spans.items()},
        "slowness": round(statistics.fmean(slowness), 2) if slowness else None,
        "nodes": [_node(node, found, now_s) for node in sorted({e.node for e in found if e.node}, key=formats.natural)],
    }


def _spans(found: Iterable[_Times], now_s: float) -> tuple[dict[str, list[float]], list[float]]:
    """Return how long each Pod was in each state, and the ratio of its time to its work alone of those that ended."""
    spans: dict[str, list[float]] = {"waiting": [], "starting": [], "running": []}
    slowness = []
    for each in found:
        waited_until = each.bound_s or each.started_s or each.ended_s or now_s
        spans["waiting"].append(max(waited_until - each.created_s, 0.0))
        if each.bound_s is not None:
            spans["starting"].append(max((each.started_s or each.ended_s or now_s) - each.bound_s, 0.0))
        if each.started_s is not None:
            spans["running"].append(max((each.ended_s or now_s) - each.started_s, 0.0))
            if each.work_s and each.ended_s is not None:
                slowness.append(spans["running"][-1] / each.work_s)
    return spans, slowness


def text(found: Mapping[str, Any], *, wide: bool = False, at: addresses.Address = addresses.OF_SHELL) -> str:
    """Return the answer in lines of at most 80 columns. at: the cluster, which advice names."""
    phases = ", ".join(f"{count} {phase.lower()}" for phase, count in sorted(found["phases"].items()))
    took = f"{'in' if found['ended'] else 'so far'} {found['job_s']:.1f} s"
    lines = words.paragraph(f"job {found['job']}: {amounts.plural(found['pods'], 'Pod')} ({phases}), {took}", "")
    lines += _of_failed(found, at)
    lines += _of_gone(found["gone"])
    lines += words.paragraph(_verdict(found, at))
    lines += _of_waited(found["waited"], found["waited_unread"])
    total_s = sum(each["total_s"] for each in found["spans"].values()) or 1.0
    rows = [
        (_SPANS[what], _seconds(each["mean_s"]), _seconds(each["most_s"]), f"{each['total_s'] / total_s:.0%}")
        for what, each in found["spans"].items()
    ]
    lines += ["", *formats.aligned(("A POD WAS", "ON AVERAGE", "AT MOST", "OF ALL"), rows)]
    nodes = found["nodes"] if wide else found["nodes"][:SHOWN]
    if nodes:
        head = ("NODE", "PODS", "STARTING", "RUNNING", "TIMES ITS WORK", "FAILED")
        cells = [
            (
                each["node"], str(each["pods"]), _seconds(each["starting_s"]), _seconds(each["running_s"]),
                formats.number(each["slowness"]), str(each["failed"]),
            )
            for each in nodes
        ]  # fmt: skip
        lines += ["", *formats.aligned(head, cells, width=words.WIDTH)]
    left = len(found["nodes"]) - len(nodes)
    return "\n".join([*lines, *([f"... and {amounts.plural(left, 'node')} more (-o wide shows all)"] if left else [])])


def _waits(found: Sequence[_Times]) -> dict[str, str] | None:
    """Return what most of the Pods without a node wait for, and one of them; None where none says."""
    counted = collections.Counter(each.why for each in found if each.why)
    if not counted:
        return None
    most = counted.most_common(1)[0][0]
    one = next(each for each in found if each.why == most)
    return {"why": most, "namespace": one.namespace, "pod": one.name}


def has_waited(pods: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether a Pod that has a node waited for it for so long that an Event says why."""
    return any(
        each.bound_s is not None and each.bound_s - each.created_s >= _EVENT_AFTER_S for each in map(_times, pods)
    )


def owner(pod: Mapping[str, Any]) -> str:
    """Return the batch/v1 Job that created a Pod; empty where none did."""
    references = pod["metadata"].get("ownerReferences") or ()
    return next((str(each["name"]) for each in references if each.get("kind") == "Job"), "")


def gone(pods: Iterable[Mapping[str, Any]], jobs: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return how many Pods their Jobs have counted that no longer exist, by how they ended.

    A Job counts a Pod that was evicted or deleted as failed, and creates another in its place.
    https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-replacement-policy
    """
    there = collections.Counter((owner(pod), _counted_as(pod)) for pod in pods)
    found = {"failed": 0, "succeeded": 0}
    for job in jobs:
        status = job.get("status") or {}
        for how in found:
            uncounted = (status.get("uncountedTerminatedPods") or {}).get(how) or ()
            ended = int(status.get(how) or 0) + len(uncounted)
            found[how] += max(ended - there[job["metadata"]["name"], how.capitalize()], 0)
    return found


def _counted_as(pod: Mapping[str, Any]) -> str:
    """Return the phase as which a Job counts a Pod: one that is being deleted has failed, unless it has succeeded."""
    phase = str((pod.get("status") or {}).get("phase"))
    return "Failed" if pod["metadata"].get("deletionTimestamp") and phase != "Succeeded" else phase


def counted(ended: Mapping[str, int]) -> str:
    """Return in words how many Pods have ended, by how; empty where none has.

    >>> counted({"failed": 1, "succeeded": 2})
    '1 Pod that failed, or was evicted or deleted, and 2 that succeeded'
    """
    failed, succeeded = ended["failed"], ended["succeeded"]
    found = []
    if failed:
        were = "was" if failed == 1 else "were"
        found.append(f"{amounts.plural(failed, 'Pod')} that failed, or {were} evicted or deleted")
    if succeeded:
        found.append(f"{succeeded if failed else amounts.plural(succeeded, 'Pod')} that succeeded")
    return ", and ".join(found)


def _of_gone(ended: Mapping[str, int]) -> list[str]:
    said = counted(ended)
    return words.paragraph(f"without {said}: the Job has counted them, and they no longer exist") if said else []


def _waited(said: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return how many Pods waited for what, as the last Event about each says."""
    last = {each["involvedObject"].get("uid"): words.reasons(str(each.get("message") or "")) for each in said}
    return dict(collections.Counter(filter(None, last.values())).most_common())


def _of_waited(waited: Mapping[str, int], unread: str | None) -> list[str]:
    not_known = f"of the Events about why Pods waited, {unread}"
    if not waited:
        return [] if unread is None else words.paragraph(not_known)
    shown = "; ".join(f"{why} ({amounts.plural(count, 'Pod')})" for why, count in list(waited.items())[:_WHYS_SHOWN])
    left = len(waited) - _WHYS_SHOWN
    more = f"; and for {amounts.plural(left, 'other reason')}" if left > 0 else ""
    lines = words.paragraph(f"what they waited for, by the Events that are kept: {shown}{more}")
    return lines + ([] if unread is None else words.paragraph(not_known))


_SPANS = {"waiting": "waiting for a node", "starting": "starting", "running": "running"}


def _of_failed(found: Mapping[str, Any], at: addresses.Address) -> list[str]:
    """Return what shows why a Pod failed; empty where none did."""
    one = found["failed_pod"]
    if one is None:
        return []
    count = amounts.plural(found["phases"][_FAILED], "Pod")
    key = words.pod_key(one["namespace"], one["pod"])
    why = f"`{at.kubectl} logs {key}` shows the output of one, `{at.carico(f'explain {key}')}` why it ended"
    return words.paragraph(f"{count} failed: {why}")


def _verdict(found: Mapping[str, Any], at: addresses.Address) -> str:
    """Return in one sentence where most of the time went, and what would change that."""
    most = max(found["spans"], key=lambda what: found["spans"][what]["total_s"])
    slow = found["slowness"]
    ran = "" if slow is None else f"; a Pod took {slow:.1f} times its work alone"
    if most == "waiting":
        waits = found["phases"].get("Pending", 0)
        said = found["waits"]
        if said is not None and words.AT_CAPACITY not in said["why"]:
            explain = at.carico(f"explain {words.pod_key(said['namespace'], said['pod'])}")
            now = f"and now wait: {said['why']}; `{explain}` shows what each node lacks, and what could help"
            return f"its Pods mostly waited for a node, {now}{ran}"
        now = f"; not yet started: {amounts.plural(waits, 'Pod')} (`{at.carico('top')}`, P)" if waits else ""
        waited = next(iter(found["waited"]), words.AT_CAPACITY)
        if words.AT_CAPACITY not in waited:
            return f"its Pods mostly waited for a node{ran}{now}"
        return f"its Pods mostly waited for a node: more nodes or a higher ceiling shorten that{ran}{now}"
    if most == "starting":
        return f"its Pods mostly waited to be started by their nodes: `{at.kubectl} describe pod` shows why{ran}"
    if slow is not None and slow > _SLOW:
        return f"its Pods mostly ran, slowly: fewer on a node (a lower ceiling) make each faster{ran}"
    return f"its Pods mostly ran{ran}"


def _node(node: str, found: Sequence[_Times], now_s: float) -> dict[str, Any]:
    own = [each for each in found if each.node == node]
    starting = [
        max((each.started_s or each.ended_s or now_s) - each.bound_s, 0.0) for each in own if each.bound_s is not None
    ]
    running = [((each.ended_s or now_s) - each.started_s, each) for each in own if each.started_s is not None]
    slowness = [max(took, 0.0) / each.work_s for took, each in running if each.work_s and each.ended_s is not None]
    return {
        "node": node,
        "pods": len(own),
        "failed": sum(each.phase == _FAILED for each in own),
        "starting_s": round(statistics.fmean(starting), 2) if starting else None,
        "running_s": round(statistics.fmean([max(took, 0.0) for took, _ in running]), 2) if running else None,
        "slowness": round(statistics.fmean(slowness), 2) if slowness else None,
    }


def _spread(values: Sequence[float]) -> dict[str, float | None]:
    if not values:
        return {"mean_s": None, "most_s": None, "total_s": 0.0}
    mean_s = statistics.fmean(values)
    return {"mean_s": round(mean_s, 2), "most_s": round(max(values), 2), "total_s": round(sum(values), 2)}


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"


def _times(pod: Mapping[str, Any]) -> _Times:
    metadata, status = pod["metadata"], pod.get("status") or {}
    created_s = instants.find_instant(metadata.get("creationTimestamp")) or 0.0
    scheduled = fields.condition(status, "PodScheduled")
    bound_s = instants.find_instant(scheduled.get("lastTransitionTime")) if scheduled.get("status") == "True" else None
    started_s, ended_s = _process(status)
    node = (pod.get("spec") or {}).get("nodeName")
    work = str((metadata.get("annotations") or {}).get(job_labels.WORK_ANNOTATION) or "").removesuffix("s")
    return _Times(
        namespace=str(metadata.get("namespace") or "default"),
        name=str(metadata["name"]),
        phase=str(status.get("phase") or "Pending"),
        node=node,
        created_s=created_s,
        bound_s=bound_s,
        started_s=started_s,
        ended_s=ended_s,
        work_s=float(work) if work.replace(".", "", 1).isdigit() else None,
        why="" if node is not None else words.waits_for(pod),
    )


def _process(status: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Return when the Pod's process began and ended: our workloads report it exactly, the API in whole seconds."""
    states = [each.get("state") or {} for each in status.get("containerStatuses") or ()]
    begun = [
        instants.find_instant((each.get("running") or each.get("terminated") or {}).get("startedAt")) for each in states
    ]
    ended = [instants.find_instant((each.get("terminated") or {}).get("finishedAt")) for each in states]
    started_s = min((at for at in begun if at is not None), default=None)
    ended_s = None if None in ended else max((at for at in ended if at is not None), default=None)
    for each in states:
        with contextlib.suppress(ValueError, TypeError, KeyError):
            said = json.loads((each.get("terminated") or {}).get("message") or "")
            return said["started_ns"] / 1e9, said["finished_ns"] / 1e9
    return started_s, ended_s
