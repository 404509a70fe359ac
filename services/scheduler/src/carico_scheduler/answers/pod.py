"""Why a Pod is where it is, or why it waits."""

import enum
from collections.abc import Mapping
from typing import Any

import orjson

from carico_core.domain import amounts, cluster, decision, gangs, judgement, names
from carico_core.runtime.bus import serving
from carico_core.runtime.process import clock as clocks
from carico_core.wire import messages as wire
from carico_scheduler.answers import known as knowns
from carico_scheduler.answers import questions, standing
from carico_scheduler.answers import waiting as in_queue
from carico_scheduler.decide import cycle_scores
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import queue as queues
from carico_scheduler.preempt import nominations
from carico_scheduler.report import explain

_UNRECORDED = "bound, but without a decision record here: it was bound earlier, or not by CARICO"


class Standing(enum.StrEnum):
    """How far a Pod's scheduling has got. ELSEWHERE: it names another scheduler. ENDED: it will not be placed."""

    BOUND = "bound"
    BINDING = "binding"
    WAITING = "waiting"
    GATED = "gated"
    ELSEWHERE = "elsewhere"
    ENDED = "ended"
    UNKNOWN = "unknown"


def answer(known: knowns.Known, asked: Mapping[str, Any], clock: clocks.Clock) -> dict[str, Any]:
    """Return everything that determines the placement of {"namespace", "pod"}, as JSON. Raises `BadQuestion`."""
    namespace, name = serving.pod_of(asked)
    limit, now_s = questions.limit_of(asked), clock.monotonic_s()
    record = known.log.latest(namespace, name)
    pod = next((each for each in known.state.pods() if each.name == name and each.namespace == namespace), None)
    if pod is None:
        return {"namespace": namespace, "pod": name, **_absent(known, namespace, name, record)}
    if record is not None and record.uid != pod.uid:
        # It is about an earlier Pod of this name.
        record = None
    kept = known.state.records.find(pod.uid)
    found, waiting = _standing(known, pod), None if kept is None else kept.waiting
    waits = _of_wait(known, waiting, now_s)
    if waiting is None and found is Standing.WAITING:
        waits["waited_s"] = questions.finite(in_queue.since_created_s(pod, clock))
    scores = known.cycle.explain(known.view(now_s), known.state.demand_of(pod._replace(node_name=None)))
    return {
        **_of_pod(known, pod, found),
        "why": _why(known, pod, found, record, scores, waiting),
        **_of_record(record),
        **waits,
        **_of_nodes(scores, limit, known.lease_s),
        "judgement": _judged(pod, scores) if found is Standing.WAITING else None,
    }


def _absent(known: knowns.Known, namespace: str, name: str, record: decision.Decision | None) -> dict[str, Any]:
    """Return the answer about a Pod that the API does not show, or that has ended."""
    if record is not None:
        why = "it has ended or was removed; the record shows its last decision"
        return {"state": Standing.ENDED.value, "node": record.node, "why": why, **_of_record(record)}
    pods = known.state.pods()
    elsewhere = [each.namespace for each in pods if each.name == name]
    near = names.nearest(name, (each.name for each in pods if each.namespace == namespace))
    why = "no Pod of this name waits or runs, and no decision about one is remembered"
    return {
        "state": Standing.UNKNOWN.value, "node": None, "why": why, "nearest": near,
        "namespaces": elsewhere[: names.NEAREST_MOST], **_of_record(None),
    }  # fmt: skip


def _standing(known: knowns.Known, pod: cluster.Pod) -> Standing:
    if pod.scheduler_name not in known.names:
        return Standing.ELSEWHERE
    kept = known.state.records.find(pod.uid)
    if kept is not None and kept.is_bound:
        return Standing.BOUND
    if known.state.is_binding(pod.uid):
        return Standing.BINDING
    if pod.deleting:
        return Standing.ENDED
    return Standing.GATED if pod.scheduling_gates else Standing.WAITING


def _of_pod(known: knowns.Known, pod: cluster.Pod, found: Standing) -> dict[str, Any]:
    kept = known.state.records.find(pod.uid)
    booking = None if kept is None else kept.booking
    profile = known.state.fleet.policy.profiles.get(pod.scheduler_name)
    gang = known.state.gangs.key_of(pod)
    slot = None if pod.node_name is None else known.state.fleet.slot_of(pod.node_name)
    return {
        "namespace": pod.namespace,
        "pod": pod.name,
        "uid": pod.uid,
        "state": found.value,
        "node": booking.node if booking is not None else pod.node_name,
        # None if it has no node, or the API shows no such Node.
        "node_ready": None if slot is None else known.state.fleet.row(slot).node.ready,
        "phase": pod.phase,
        # Why a container of it does not run; empty if none waits.
        "stuck": pod.stuck,
        "class": names.class_of(pod),
        # None: it is placed by itself.
        "gang": None if gang is None else str(gang),
        "scheduler": pod.scheduler_name,
        # The settings of that name alone; None: it has none.
        "profile": None if profile is None else str(profile),
        "priority": pod.priority,
        # False: its node does not account for it yet, so it is reserved.
        "covered": None
        if booking is None or booking.is_baseline
        else not known.state.reservations.is_reserved(booking),
    }


def _why(
    known: knowns.Known, pod: cluster.Pod, found: Standing, record: decision.Decision | None,
    scores: cycle_scores.Scores, waiting: queues.Waiting | None,
) -> str:  # fmt: skip
    """Return the reason in one line."""
    match found:
        case Standing.BOUND:
            return record.message if record is not None else _UNRECORDED
        case Standing.BINDING:
            return "a node is chosen; the API has not confirmed it yet"
        case Standing.ELSEWHERE:
            named = " or ".join(f"`schedulerName: {name}`" for name in known.names)
            near = names.nearest(pod.scheduler_name, known.names, most=1)
            meant = f" (did you mean {near[0]}?)" if near else ""
            return f"it names scheduler {pod.scheduler_name!r}{meant}; CARICO places Pods that are created with {named}"
        case Standing.GATED:
            return f"not scheduled until its scheduling gates are removed: {', '.join(pod.scheduling_gates)}"
        case Standing.ENDED:
            return "it is being deleted"
    nomination = known.state.nominations.find(pod.uid)
    if nomination is not None:
        return f"room is being made on {nomination.node}: {_who_goes(nomination)}"
    turn = None if known.turns is None else known.turns.find(pod.uid)
    if turn is not None:
        why = explain.why_unplaced(scores.refused, scores.view.count, explain.candidates_of(scores, scores.seen()))
        return f"it has waited for long: room on {turn.node} is held for it, as Pods end there; {why}"
    key = known.state.gangs.key_of(pod)
    if key is not None:
        return _why_gang_waits(known, key, scores)
    if not standing.feasible(scores):
        why = explain.why_unplaced(scores.refused, scores.view.count, explain.candidates_of(scores, scores.seen()))
        return f"{why}; {waiting.in_vain}" if waiting is not None and waiting.in_vain else why
    if waiting is not None and known.state.queue.due_s(pod.uid) is not None:
        return "there is room for it; it waits for a backoff after a failed bind"
    if known.turns is not None and len(known.turns):
        return "what room there is may be held for Pods that have waited longer, one node for each"
    return "there is room for it: it is placed in the next cycle"


def _who_goes(nomination: nominations.Nomination) -> str:
    """Return for how many Pods a Pod waits, which are evicted for it or leave anyway."""
    evicted = len(nomination.evicted)
    counts = {"of lower priority evicted for it": evicted, "awaited": len(nomination.victims) - evicted}
    return ", ".join(f"{amounts.plural(count, 'Pod')} {what}" for what, count in counts.items() if count)


def _why_gang_waits(known: knowns.Known, key: gangs.Key, scores: cycle_scores.Scores) -> str:
    why = known.state.gangs.why(key)
    if known.state.gangs.is_short(key):
        return why
    refused, candidates = explain.refused_to_gang(scores), explain.candidates_of(scores, scores.seen())
    return f"{why}; {explain.why_unplaced(refused, scores.view.count, candidates)}"


def _judged(pod: cluster.Pod, scores: cycle_scores.Scores) -> dict[str, Any] | None:
    """Return whether the Pod can ever fit as it is; None where that is not what keeps it waiting."""
    if standing.feasible(scores) or not judgement.EXPLAINS & set(scores.refused):
        return None
    return judgement.judge(pod, [node for node in scores.view.nodes if node is not None]).as_json()


def _of_record(record: decision.Decision | None) -> dict[str, Any]:
    """Return the decision record, and what the chosen node had advertised."""
    if record is None:
        return {"decision": None, "acted_on": None}
    chosen = next((each for each in record.candidates if each.node == record.node), None)
    acted_on = None
    if chosen is not None:
        acted_on = {
            "node": chosen.node, "seq": chosen.seq, "age_s": chosen.age_s, "capacity": chosen.capacity,
            "reserved": chosen.reserved, "free": record.free, "threshold": record.threshold,
        }  # fmt: skip
    return {"decision": orjson.loads(wire.encode_decision(record)), "acted_on": acted_on}


def _of_wait(known: knowns.Known, waiting: queues.Waiting | None, now_s: float) -> dict[str, Any]:
    if waiting is None:
        return {"attempts": None, "lost": {}, "waited_s": None, "before": None, "next_try_s": None}
    due_s = known.state.queue.due_s(waiting.pod.uid)
    return {
        "attempts": waiting.attempts,
        "lost": dict(waiting.lost),
        "waited_s": questions.finite(max(now_s - waiting.began_s, 0.0)),
        # Pods that are considered before it.
        "before": sum(each.key < waiting.key for each in known.state.queue),
        # None: as soon as a change could help it.
        "next_try_s": None if due_s is None else questions.finite(max(due_s - now_s, 0.0)),
    }


def _of_nodes(scores: cycle_scores.Scores, limit: int, lease_s: float) -> dict[str, Any]:
    """Return every node's score or refusal for this Pod, or for one more like it if it is already placed."""
    view: snapshot.Snapshot = scores.view
    return {
        "threshold": view.policy.threshold,
        "nodes": view.count,
        "feasible": standing.feasible(scores),
        "refused": dict(scores.refused),
        "candidates": standing.candidates(scores, limit, lease_s),
        "left_off": max(view.count - limit, 0),
    }
