"""Checks the Pods: those that wait for a node, are passed over, fail again and again, or do not start or end."""

import contextlib
import math
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from carico_cli.doctor import findings, places, rights, waiting
from carico_cli.output import formats
from carico_core.domain import amounts, cluster, errors, names
from carico_core.runtime.kube import paged_lists
from carico_core.wire.kubernetes import api_objects, instants
from carico_core.wire.kubernetes import object_fields as fields
from carico_core.wire.kubernetes.pods import containers, ownership

# Why a container waits that is about to start: its image is pulled, its volumes are mounted. A missing volume has the
# same reason, so that after as long as the alerts wait (deploy/observe/rules) the container is reported.
_STARTING = frozenset({"", "ContainerCreating", "PodInitializing"})
STARTS_WITHIN_S = 600.0
# A kubelet reports that it knows of a Pod within seconds of its bind.
TAKEN_UP_WITHIN_S = 60.0
# A scheduler looks at a new Pod within seconds, and writes the condition PodScheduled if it cannot place it.
NOTICED_WITHIN_S = 30.0
# A kubelet ends a Pod within its grace period; this long after it, the Pod is reported.
ENDS_WITHIN_S = 60.0
# A class is passed over if so many Pods that were created later, of other classes, were placed before its oldest Pod.
PASSED_OVER = 5
_ENDED = ("Succeeded", "Failed")
# So much of a message is quoted in a list of Pods.
_QUOTED = 120
_PATH = "/api/v1/pods"
# Of version 0.1.0: such a Pod belonged to its node.
_REMOVED_LABEL = "carico.dev/baseline"


async def check(
    api: rights.Api, now_s: float, scheduler_names: Set[str], place: places.Place,
    nodes: Sequence[cluster.Node] = (),
) -> list[findings.Finding]:  # fmt: skip
    """Return the findings about Pods. `nodes`: all Nodes; empty where they are not known."""
    try:
        listed, running = await _listed(api, "Pending"), await _listed(api, "Running")
    except errors.Forbidden as error:
        return [findings.skip("waiting Pods", str(error))]
    pending = list(_parsed(listed))
    own = [(pod, item) for pod, item in pending if pod.scheduler_name in scheduler_names]
    waits = [(pod, item) for pod, item in own if _waits(pod)]
    long = [pod for pod, _ in waits if now_s - pod.created_at_s > waiting.LONG_S]
    # Whichever scheduler has placed it: it holds room that CARICO's Pods wait for.
    stuck = [
        f"{pod.key} on {pod.node_name} ({why})"
        for pod, item in pending
        if pod.node_name is not None
        for why in _why_not_started(item, now_s)
    ]
    placed_s = ((pod, _placed_s(item.get("status") or {})) for pod, item in pending if pod.node_name)
    held = [pod.key for pod, at_s in placed_s if now_s - at_s > waiting.LONG_S]
    runs = list(_parsed(running))
    # Short Pods that pass it over have mostly ended.
    placed = [*(pod for pod, _ in runs), *(await _ended(api))] if long else []
    return [
        *waiting.report(waits, nodes, now_s, place, held),
        *_passed_over(long, placed, now_s, place),
        *_not_started(stuck, place),
        *_crashing(((pod, item) for pod, item in runs if pod.scheduler_name in scheduler_names), place),
        *_not_ended([*listed, *running], now_s, place),
        *_unnoticed(pending, scheduler_names, now_s, place),
        *_with_removed_label([*pending, *runs]),
    ]


async def _listed(api: rights.Api, phase: str) -> list[dict[str, Any]]:
    # In pages: an answer with 10,000 Pods takes a busy API longer than a request may.
    found = await paged_lists.list_all(api, _PATH, params={"fieldSelector": f"status.phase={phase}"})
    return [item for item in found.objects if (item.get("status") or {}).get("phase", "Pending") == phase]


async def _ended(api: rights.Api) -> list[cluster.Pod]:
    """Return the Pods that have ended on a node, each parsed as it is read: there may be as many as the API keeps."""

    def read(item: dict[str, Any]) -> cluster.Pod | None:
        return next((pod for pod, _ in _parsed([item]) if pod.node_name and pod.phase in _ENDED), None)

    found = await paged_lists.list_all(
        api, _PATH, params={"fieldSelector": "status.phase!=Pending,status.phase!=Running"}, read=read
    )
    return [pod for pod in found.objects if pod is not None]


def _parsed(items: Iterable[dict[str, Any]]) -> Iterable[tuple[cluster.Pod, dict[str, Any]]]:
    for item in items:
        with contextlib.suppress(ValueError):
            yield api_objects.parse_pod(item), item


def _waits(pod: cluster.Pod) -> bool:
    return pod.node_name is None and not pod.scheduling_gates and not pod.deleting


def _passed_over(
    waiting: Sequence[cluster.Pod], placed: Sequence[cluster.Pod], now_s: float, place: places.Place
) -> list[findings.Finding]:  # fmt: skip
    """Return a finding for each class whose oldest Pod waits while many later Pods of other classes were placed."""
    oldest: dict[str, cluster.Pod] = {}
    for pod in sorted(waiting, key=lambda each: each.created_at_s):
        oldest.setdefault(names.class_of(pod), pod)
    found = []
    for named, pod in oldest.items():
        later = sum(
            each.created_at_s > pod.created_at_s and each.priority <= pod.priority and names.class_of(each) != named
            for each in placed
        )
        if later >= PASSED_OVER:
            waited = formats.duration(now_s - pod.created_at_s)
            detail = f"class {named}: {pod.key} has waited {waited}; {later} later Pods of other classes were placed"
            explain = f"`{place.carico(f'explain {pod.key}')}`"
            do = f"{explain} says what it lacks; a higher priority makes room go to it first"
            found.append(findings.warn("fairness", detail, do))
    return found


def _not_ended(
    items: Iterable[Mapping[str, Any]], now_s: float, place: places.Place
) -> list[findings.Finding]:  # fmt: skip
    """Return a finding about Pods whose deletion was due, and that their nodes have not ended."""
    late = []
    for item in items:
        metadata = item["metadata"]
        # The API server adds the grace period to the time of the request.
        due_s = instants.find_instant(metadata.get("deletionTimestamp"))
        if due_s is not None and now_s - due_s > ENDS_WITHIN_S:
            node = (item.get("spec") or {}).get("nodeName") or "no node"
            late.append(f"{metadata.get('namespace', 'default')}/{metadata['name']} on {node}")
    if not late:
        return []
    kubectl = place.kubectl
    do = (
        f"is the node Ready (`{kubectl} get nodes`), and does a finalizer hold the Pod (`{kubectl} get pod POD -o "
        f"yaml`)? `{kubectl} delete pod POD --force` gives it up, also if its processes still run"
    )
    return [findings.warn("Pods not ended", f"their deletion is overdue: {findings.names(late)}", do)]


def _unnoticed(
    pending: Iterable[tuple[cluster.Pod, Mapping[str, Any]]],
    scheduler_names: Set[str],
    now_s: float,
    place: places.Place,
) -> list[findings.Finding]:
    """Return a finding for each schedulerName of Pods that no scheduler has looked at."""
    by_name: dict[str, list[str]] = {}
    for pod, item in pending:
        is_noticed = bool(fields.condition(item.get("status") or {}, "PodScheduled"))
        if pod.scheduler_name in scheduler_names or is_noticed or not _waits(pod):
            continue
        if now_s - pod.created_at_s > NOTICED_WITHIN_S:
            by_name.setdefault(pod.scheduler_name, []).append(pod.key)
    found = []
    for name, pods in by_name.items():
        near = names.nearest(name, scheduler_names, most=1)
        meant = f" (did you mean {near[0]}?)" if near else ""
        detail = f"no scheduler {name!r}{meant} has looked at {findings.names(pods)}"
        do = f"create them again with `schedulerName: {min(scheduler_names)}`{place.or_kube_scheduler}"
        found.append(findings.warn("schedulers", detail, do))
    return found


def _with_removed_label(found: Iterable[tuple[cluster.Pod, Mapping[str, Any]]]) -> list[findings.Finding]:
    labelled = [
        pod.key for pod, item in found
        if _REMOVED_LABEL in (item["metadata"].get("labels") or {}) and not ownership.belongs_to_node(item)
    ]  # fmt: skip
    if not labelled:
        return []
    detail = f"{_REMOVED_LABEL} has no effect any more: without it, {findings.names(labelled)} would be the same"
    do = (
        "take the label away; CARICO_SCHEDULER_BASELINE_NAMESPACES and CARICO_AGENT_BASELINE_NAMESPACES name "
        "namespaces whose Pods belong to their node"
    )
    return [findings.warn("labels", detail, do)]


def _why_not_started(pod: Mapping[str, Any], now_s: float) -> list[str]:
    """Return why the first container has not started, unless it may still be about to start."""
    status = pod.get("status") or {}
    found = [each for each in containers.troubles(status) if each.state is containers.State.WAITS]
    waits = [each.reason for each in found]
    stuck = [_said(each) for each in found if each.reason not in _STARTING]
    placed_s = _placed_s(status)
    if not (waits or status.get("startTime") or status.get("containerStatuses")):
        since_s = now_s - placed_s
        return [f"its node has not taken it up for {formats.duration(since_s)}"] if since_s > TAKEN_UP_WITHIN_S else []
    if stuck or not waits or _has_begun(status) or now_s - placed_s <= STARTS_WITHIN_S:
        return stuck[:1]
    return [f"{waits[0] or 'waiting'} for {formats.duration(now_s - placed_s)}"]


def _said(trouble: containers.Trouble) -> str:
    """Return the reason, and the message without what it has in brackets."""
    message = trouble.message.partition(" (")[0]
    return f"{trouble.reason}: {message[:_QUOTED]}" if message else trouble.reason


def _crashing(
    running: Iterable[tuple[cluster.Pod, Mapping[str, Any]]], place: places.Place
) -> list[findings.Finding]:  # fmt: skip
    """Return a finding about Pods whose containers end again and again."""
    found = [
        f"{pod.key} on {pod.node_name} (exit code {each.exit_code}, {amounts.plural(each.restarts, 'restart')}"
        f"{_said_of(each.ended_reason)})"
        for pod, item in running
        for each in containers.troubles(item.get("status") or {})
        if each.is_crashing
    ]
    if not found:
        return []
    do = (
        f"`{place.kubectl} logs POD --previous` shows the output before it ended, `{place.carico('explain POD')}` why "
        "it did"
    )
    return [findings.warn("Pods crashing", f"their containers end again and again: {findings.names(found)}", do)]


def _said_of(reason: str) -> str:
    """Return the reason of an end where it says more than that the program failed: OOMKilled, StartError."""
    return "" if reason in ("", containers.ERROR) else f", {reason}"


def _has_begun(status: Mapping[str, Any]) -> bool:
    """Return whether an init container runs or has run: the containers after it wait for that."""
    states = [each.get("state") or {} for each in status.get("initContainerStatuses") or ()]
    return any("running" in state or "terminated" in state for state in states)


def _placed_s(status: Mapping[str, Any]) -> float:
    """Return when the Pod was bound, in Unix seconds; +inf where that is not known."""
    scheduled = fields.condition(status, "PodScheduled")
    placed_s = instants.find_instant(scheduled.get("lastTransitionTime"))
    return placed_s if placed_s is not None and scheduled.get("status") == "True" else math.inf


def _not_started(pods: list[str], place: places.Place) -> list[findings.Finding]:
    if not pods:
        return []
    image = "image (emulated nodes pull none: they need a command)" if place.kind is places.Kind.LOCAL else "image"
    do = (
        f"each may start at any moment, so its room stays reserved: fix its {image}, key or volume, or delete it; "
        f"`{place.kubectl} describe pod` shows the node's Events"
    )
    return [findings.warn("Pods not started", f"their nodes cannot start them: {findings.names(pods)}", do)]
