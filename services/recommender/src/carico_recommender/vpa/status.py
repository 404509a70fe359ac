"""The status of a VerticalPodAutoscaler: whether advice differs enough from what is there, and what to write. Pure."""

from collections.abc import Mapping
from typing import Any

from carico_core.domain import amounts
from carico_core.numerics import recommendation
from carico_recommender.vpa import advice as advices

# Bounds move with the age of a class, so they are compared more coarsely than targets.
BOUND_CHANGES = 5.0
_FIELDS: Mapping[str, str] = {
    "target": "target",
    "lowerBound": "lower",
    "upperBound": "upper",
    "uncappedTarget": "uncapped",
}
_OURS = frozenset(kind.value for kind in advices.Kind)

Object = Mapping[str, Any]


def has_recommendation(status: Object) -> bool:
    """Return whether the status has amounts for a container."""
    return bool(_containers(status))


def update(status: Object, advice: advices.Advice, *, change: float, at: str) -> dict[str, Any] | None:
    """Return the fields to write, or None if what is there is near enough. `at`: the time of changed conditions."""
    conditions = _conditions(status, advice, at)
    wanted = None if advice.containers is None else [_format(each) for each in advice.containers]
    is_kept = wanted is None or _is_near(_containers(status), wanted, change)
    if is_kept and conditions == status.get("conditions"):
        return None
    fields: dict[str, Any] = {"conditions": conditions}
    if not is_kept:
        # A merge patch removes what is null.
        fields["recommendation"] = {"containerRecommendations": wanted} if wanted else None
    return fields


def _format(found: advices.Container) -> dict[str, Any]:
    written = {name: _quantities(getattr(found, field)) for name, field in _FIELDS.items()}
    return {"containerName": found.name, **written}


def _quantities(found: advices.Amounts) -> dict[str, str]:
    return {dim: _quantity(dim, amount) for dim, amount in found.items()}


def _quantity(dim: str, amount: float) -> str:
    """Return whole steps as such; a bound of the policy that is none, in bytes: rounded up it would be exceeded."""
    is_whole = dim != recommendation.MEMORY or amount % amounts.memory_step(amount) == 0.0
    return amounts.quantity(dim, amount) if is_whole else str(int(amount))


def _conditions(status: Object, advice: advices.Advice, at: str) -> list[dict[str, Any]]:
    """Return the conditions in the order of their types; the time of one changes with its status alone."""
    there = status.get("conditions")
    before = {each.get("type"): each for each in there if isinstance(each, dict)} if isinstance(there, list) else {}
    found = [dict(each) for kind, each in before.items() if kind not in _OURS]
    for each in advice.conditions:
        old = before.get(each.kind.value, {})
        state = "True" if each.is_true else "False"
        is_as_before = old.get("status") == state and old.get("lastTransitionTime")
        written = {
            "type": each.kind.value, "status": state, "reason": each.reason, "message": each.message,
            "lastTransitionTime": old["lastTransitionTime"] if is_as_before else at,
        }  # fmt: skip
        found.append({key: value for key, value in written.items() if value})
    return sorted(found, key=lambda one: str(one.get("type")))


def _containers(status: Object) -> list[Any]:
    given = status.get("recommendation")
    found = given.get("containerRecommendations") if isinstance(given, dict) else None
    return found if isinstance(found, list) else []


def _is_near(there: list[Any], wanted: list[dict[str, Any]], change: float) -> bool:
    if len(there) != len(wanted):
        return False
    return all(_is_near_container(old, new, change) for old, new in zip(there, wanted, strict=True))


def _is_near_container(old: Any, new: dict[str, Any], change: float) -> bool:
    if not isinstance(old, dict) or old.get("containerName") != new["containerName"]:
        return False
    for field in _FIELDS:
        most = change if "arget" in field else change * BOUND_CHANGES
        before, after = old.get(field) or {}, new[field]
        if before.keys() != after.keys():
            return False
        # A bound of the policy is kept to exactly.
        bound = {dim for dim in after if field == "target" and after[dim] != new["uncappedTarget"][dim]}
        if not all(_is_near_amount(before[dim], after[dim], 0.0 if dim in bound else most) for dim in after):
            return False
    return True


def _is_near_amount(old: Any, new: str, change: float) -> bool:
    try:
        before = amounts.parse_quantity(old)
    except ValueError:
        return False
    return abs(amounts.parse_quantity(new) - before) <= change * before
