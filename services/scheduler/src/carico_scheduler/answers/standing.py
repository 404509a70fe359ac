"""The nodes for one demand at this moment: best first, refused ones last, each with its reason."""

import math

import numpy as np

from carico_core.domain import decision
from carico_core.wire import freshness
from carico_scheduler.answers import questions
from carico_scheduler.decide import cycle_scores
from carico_scheduler.decide import scores as scoring
from carico_scheduler.nodes import snapshot
from carico_scheduler.report import explain
from carico_scheduler.rules import preferences


def best_first(scores: cycle_scores.Scores) -> list[int]:
    """Return the slots of all nodes, by score, and refused ones by what is free."""
    view = scores.view
    slots = view.present.nonzero()[0]
    # -inf for nodes that do not advertise, which come last among the refused.
    free = view.free(scores.demand.pod_class, scores.demand.ceiling_offset)[slots]
    order = np.lexsort((-free, -scores.values[slots]))
    found: list[int] = slots[order].tolist()
    return found


def feasible(scores: cycle_scores.Scores) -> int:
    """Return how many nodes have room."""
    return int(np.count_nonzero(scores.values > scoring.REFUSED))


def candidates(scores: cycle_scores.Scores, limit: int, lease_s: float) -> list[dict[str, object]]:
    """Return the best `limit` nodes as JSON."""
    values = scores.values
    preferred = preferences.preferences_of(scores.view, scores.demand)
    met = {} if preferred is None else preferred.parts(values > scoring.REFUSED)
    found = []
    for slot in best_first(scores)[:limit]:
        row, score = scores.view.row(slot), float(values[slot])
        each = candidate(scores, row, score, lease_s)
        if math.isfinite(score):
            each["score"], each["parts"] = questions.finite(score), _parts(scores, row, met)
        found.append(each)
    return found


def candidate(scores: cycle_scores.Scores, row: snapshot.NodeRow, score: float, lease_s: float) -> dict[str, object]:
    """Return one node as JSON: how many Pods of this kind it takes, and why it is refused."""
    found = explain.candidate_of(scores, row, score)
    free = row.free(scores.demand.pod_class, scores.demand.ceiling_offset)
    return {
        "node": found.node,
        **heard(row, scores.view.now_s, lease_s),
        "capacity": None if found.capacity is None else questions.finite(found.capacity),
        "reserved": row.reserved,
        "free": questions.finite(free),
        "rejected_by": refused(found.rejection),
        "score": None,
        "parts": None,
    }


def heard(row: snapshot.NodeRow, now_s: float, lease_s: float) -> dict[str, object]:
    """Return the age of the node's advertisement, as JSON."""
    age_s = now_s - row.sampled_s
    return {
        "freshness": freshness.classify(age_s, lease_s=lease_s).value,
        "age_s": questions.finite(max(age_s, 0.0)),
        "seq": row.seq if row.is_advertised else None,
    }


def refused(found: decision.Rejection | None) -> dict[str, str] | None:
    """Return a refusal as JSON: the stage, its meaning, and the detail; None if there is none."""
    if found is None:
        return None
    return {"stage": found.reason.value, "means": explain.phrase(found.reason), "detail": found.detail}


def _parts(scores: cycle_scores.Scores, row: snapshot.NodeRow, met: dict[str, snapshot.Floats]) -> dict[str, object]:
    """Return the parts of a score: that of room, and how far each kind of preference is met, from 0 to 1."""
    room = float(scores.stages.scorer.score(row, scores.demand))
    return {
        "room": questions.finite(room),
        "preferences": {kind: questions.finite(float(values[row.slot])) for kind, values in met.items()},
    }
