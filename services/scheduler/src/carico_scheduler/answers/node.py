"""Why a node's capacity is what it is: what it advertises, which Pods have reserved room, and every bound."""

import collections
import heapq
import math
from collections.abc import Mapping
from typing import Any

from carico_core.domain import decision, messages, names
from carico_scheduler.answers import known as knowns
from carico_scheduler.answers import questions, room, standing
from carico_scheduler.decide import cycle_scores
from carico_scheduler.nodes import headroom, snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.rules import admission

# A Pod without constraints or requests: what stops it, stops any Pod.
_TYPICAL = demands.Demand(pod_class=headroom.UNNAMED)


def answer(known: knowns.Known, asked: Mapping[str, Any], now_s: float) -> dict[str, Any]:
    """Return everything that determines the capacity of the node of {"node"}, as JSON. Raises `BadQuestion`.

    With {"history": true} also its last quarter of an hour.
    """
    name, limit = questions.text_of(asked, "node"), questions.limit_of(asked)
    slot = known.state.fleet.slot_of(name)
    if slot is None:
        advertised = known.is_early(name)
        why = "it advertises, but the API shows no such Node" if advertised else "the API shows no such Node"
        near = names.nearest(name, known.state.fleet.names())
        return {"node": name, "known": False, "why": why, "nearest": near}
    view = known.view(now_s)
    row, advertisement = view.row(slot), known.advertisement(name)
    bounds = room.typical_bounds(row, advertisement)
    return {
        "node": name,
        "known": True,
        **_of_api(row),
        **standing.heard(row, now_s, known.lease_s),
        **_of_advertisement(advertisement),
        **_of_room(known.cycle.explain(view, _TYPICAL), row, bounds),
        **_of_trust(row, view),
        **_of_pods(known, name, now_s, limit),
        "dimensions": _dimensions(row, advertisement),
        "classes": _classes(row, advertisement, limit),
        **({"history": known.history.of(name)} if known.history and asked.get("history") is True else {}),
    }


def _of_api(row: snapshot.NodeRow) -> dict[str, Any]:
    node = row.node
    return {
        "ready": node.ready,
        "schedulable": not node.unschedulable and not node.deleting,
        "taints": [{"key": each.key, "value": each.value, "effect": each.effect} for each in node.taints],
        "allocatable": {"cores": node.allocatable_cores, "bytes": node.allocatable_bytes, "pods": node.pod_limit},
        "requested": {"cores": questions.finite(row.used_cores), "bytes": questions.finite(row.used_bytes)},
    }


def _of_advertisement(advertised: messages.Advertisement | None) -> dict[str, Any]:
    if advertised is None:
        return {"advertisement": None}
    return {
        "advertisement": {
            "boot": advertised.boot,
            "capacity": advertised.capacity,
            "capacity_sd": advertised.capacity_sd,
            "mode": advertised.mode.value,
            "bottleneck": advertised.bottleneck,
            "signal": advertised.signal,
            "pods": advertised.pods,
            "limit": advertised.limit,
            "covers": len(advertised.covers),
            "parts": dict(advertised.parts),
            "direction": dict(advertised.direction),
        }
    }


def _of_room(scores: cycle_scores.Scores, row: snapshot.NodeRow, bounds: list[room.Bound]) -> dict[str, Any]:
    """Return what is free for the typical Pod, its bounds, and why the node takes none, if so."""
    tightest, threshold = bounds[0], scores.view.policy.threshold
    rejection = scores.rejection(row)
    if rejection is not None and rejection.reason is decision.Reason.CAPACITY:
        # This refusal is for an unmeasured class; the question is about the typical Pod.
        rejection = None
    if rejection is None and room.typical_count(row, bounds, threshold) == 0:
        detail = f"{tightest.what}: {tightest.detail}"
        rejection = decision.Rejection(reason=decision.Reason.CAPACITY, detail=detail)
    return {
        "free": questions.finite(tightest.pods) if row.is_advertised else None,
        "reserved": row.reserved,
        "threshold": threshold,
        "refused_by": standing.refused(rejection),
        "bounds": [each.row() for each in bounds],
        "bottleneck": tightest.what,
    }


def _of_trust(row: snapshot.NodeRow, view: snapshot.Snapshot) -> dict[str, Any]:
    """Return how long a Pod on the node has been missing from its advertisements, and how long it may be."""
    uncovered_s = view.now_s - row.uncovered_since_s
    return {
        "trust": {
            "uncovered_s": questions.finite(max(uncovered_s, 0.0)) if math.isfinite(uncovered_s) else None,
            "suspect_after_s": view.policy.suspect_after_s,
            "is_suspect": bool(admission.are_suspect(row)),
            "max_pods_per_core": view.policy.max_pods_per_core,
        }
    }


def _of_pods(known: knowns.Known, name: str, now_s: float, limit: int) -> dict[str, Any]:
    """Return the Pods that the node does not account for yet, all Pods by class, and the newest of them by name."""
    placed = known.state.fleet.pod_counts.on(name)
    found = [pod for pod in placed if not known.state.baseline.includes(pod)]
    by_class = collections.Counter(names.class_of(pod) for pod in found)
    baseline = len(placed) - len(found)
    newest = heapq.nlargest(limit, found, key=lambda pod: (pod.created_at_s, pod.namespace, pod.name))
    held = [(booking, since_s) for booking, since_s in known.state.reservations.reserved() if booking.node == name]
    return {
        "placed": len(placed),
        "baseline_pods": baseline,
        "pods_by_class": dict(by_class.most_common(limit)),
        "pods": [
            {
                "namespace": pod.namespace, "pod": pod.name, "uid": pod.uid, "class": names.class_of(pod),
                # Counts keep a Pod as it was placed.
                "stuck": (known.state.pod(pod.uid) or pod).stuck,
            }
            for pod in newest
        ],
        "reserved_by": [
            {
                "pod": booking.key, "uid": booking.uid, "class": booking.pod_class,
                "age_s": questions.finite(now_s - since_s), "binding": known.state.is_binding(booking.uid),
            }
            for booking, since_s in held[:limit]
        ],
    }  # fmt: skip


def _dimensions(row: snapshot.NodeRow, advertised: messages.Advertisement | None) -> list[dict[str, Any]]:
    """Return per dimension: usage, baseline, learnt cost of a Pod, headroom, and what reserved Pods take of it."""
    offer = row.room.offer
    if advertised is None or offer is None:
        return []
    offered = dict(zip(offer.dimensions, zip(offer.headroom, row.room.taken, strict=True), strict=True))
    found = []
    for name in dict.fromkeys([*advertised.usage, *offer.dimensions]):
        free, taken = offered.get(name, (None, None))
        found.append(
            {
                "name": name,
                "usage": advertised.usage.get(name),
                "baseline": _estimate(advertised.baseline.get(name)),
                "cost": _estimate(advertised.cost.get(name)),
                "headroom": free,
                "reserved": taken,
            }
        )
    return found


def _estimate(found: messages.Estimate | None) -> dict[str, float] | None:
    return None if found is None else {"mean": found.mean, "sd": found.sd}


def _classes(row: snapshot.NodeRow, advertised: messages.Advertisement | None, limit: int) -> list[dict[str, Any]]:
    """Return for each class that the node names the cautious cost of a Pod, how many fit, and the tightest bound."""
    if advertised is None or advertised.classes is None:
        return []
    found = []
    for name, each in list(advertised.classes.items())[:limit]:
        bounds = room.bounds(row, demands.Demand(pod_class=name))
        found.append(
            {
                # "?": any unmeasured class; "*": all classes, if the agent keeps one cost for all, else of Pods whose
                # class it does not know yet.
                "class": name,
                "pods": each.pods,
                "cost_plus": dict(each.cost_plus),
                "free": questions.finite(row.free(name)),
                "bottleneck": bounds[0].what,
            }
        )
    return found
