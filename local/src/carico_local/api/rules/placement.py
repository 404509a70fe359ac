"""The rules of the fields that restrict where a Pod may run: tolerations, taints, affinity, spread.

Source: k8s.io/kubernetes/pkg/apis/core/validation/validation.go. Without them, a scheduler would have to guess the
meaning of an invalid field.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from carico_local.api.model import objects
from carico_local.api.rules import fields

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def pod(spec: objects.Object) -> fields.Causes:
    """Yield the rules that a Pod's placement fields violate."""
    for index, each in enumerate(spec.get("tolerations") or ()):
        yield from _toleration(each, f"spec.tolerations[{index}]")
    affinity = spec.get("affinity") or {}
    yield from _node_affinity(affinity.get("nodeAffinity") or {}, "spec.affinity.nodeAffinity")
    for kind in ("podAffinity", "podAntiAffinity"):
        for index, preferred in enumerate((affinity.get(kind) or {}).get(_PREFERRED) or ()):
            yield from _weight(preferred, f"spec.affinity.{kind}.{_PREFERRED}[{index}]")
        for path, term in _pod_terms(affinity.get(kind) or {}, f"spec.affinity.{kind}"):
            if not term.get("topologyKey"):
                yield fields.required(f"{path}.topologyKey", "can not be empty")
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        yield from _spread(constraint, f"spec.topologySpreadConstraints[{index}]")


def taints(found: Iterable[objects.Object], path: str) -> fields.Causes:
    """Yield the rules that a Node's taints violate."""
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(found):
        here = f"{path}[{index}]"
        if not taint.get("key") or not fields.is_qualified(taint["key"]):
            yield fields.wrong(f"{here}.key", taint.get("key", ""), "must be a label key")
        if taint.get("effect") not in _EFFECTS:
            yield fields.not_supported(f"{here}.effect", taint.get("effect", ""), _EFFECTS)
        known = (taint.get("key", ""), taint.get("effect", ""))
        if known in seen:
            yield fields.duplicate(here, f"{known[0]}:{known[1]}")
        seen.add(known)


def _toleration(toleration: objects.Object, path: str) -> fields.Causes:
    if toleration.get("operator", "Equal") not in ("Exists", "Equal", ""):
        yield fields.not_supported(f"{path}.operator", toleration["operator"], ("Equal", "Exists"))
    if toleration.get("operator") == "Exists" and toleration.get("value"):
        yield fields.wrong(f"{path}.operator", toleration["value"], "value must be empty when `operator` is 'Exists'")
    if not toleration.get("key") and toleration.get("operator") != "Exists":
        yield fields.wrong(
            f"{path}.operator", toleration.get("operator", ""), "operator must be Exists when `key` is empty"
        )


def _node_affinity(affinity: objects.Object, path: str) -> fields.Causes:
    required = affinity.get(_REQUIRED)
    if required is not None and not required.get("nodeSelectorTerms"):
        yield fields.required(f"{path}.{_REQUIRED}.nodeSelectorTerms", "must have at least one node selector term")
    terms = [
        (f"{path}.{_REQUIRED}.nodeSelectorTerms[{index}]", term)
        for index, term in enumerate((required or {}).get("nodeSelectorTerms") or ())
    ]
    for index, preferred in enumerate(affinity.get(_PREFERRED) or ()):
        here = f"{path}.{_PREFERRED}[{index}]"
        yield from _weight(preferred, here)
        terms.append((f"{here}.preference", preferred.get("preference") or {}))
    for here, term in terms:
        for field in ("matchExpressions", "matchFields"):
            for index, expression in enumerate(term.get(field) or ()):
                if expression.get("operator") not in _OPERATORS:
                    rule = "not a valid selector operator"
                    yield fields.wrong(f"{here}.{field}[{index}].operator", expression.get("operator", ""), rule)


def _pod_terms(affinity: objects.Object, path: str) -> Iterator[tuple[str, Any]]:
    for index, term in enumerate(affinity.get(_REQUIRED) or ()):
        yield f"{path}.{_REQUIRED}[{index}]", term
    for index, preferred in enumerate(affinity.get(_PREFERRED) or ()):
        yield f"{path}.{_PREFERRED}[{index}].podAffinityTerm", preferred.get("podAffinityTerm") or {}


def _weight(preferred: objects.Object, path: str) -> fields.Causes:
    if not 1 <= preferred.get("weight", 0) <= 100:
        yield fields.wrong(f"{path}.weight", preferred.get("weight", 0), "must be in the range 1-100")


def _spread(constraint: objects.Object, path: str) -> fields.Causes:
    if constraint.get("maxSkew", 0) < 1:
        yield fields.wrong(f"{path}.maxSkew", constraint.get("maxSkew", 0), "must be greater than zero")
    if not constraint.get("topologyKey"):
        yield fields.required(f"{path}.topologyKey", "can not be empty")
    allowed = ("DoNotSchedule", "ScheduleAnyway")
    if constraint.get("whenUnsatisfiable") not in allowed:
        yield fields.not_supported(f"{path}.whenUnsatisfiable", constraint.get("whenUnsatisfiable", ""), allowed)
