"""LimitRanges and ResourceQuotas of a namespace, and which of them refuse Pods with given requests. Pure.

A rule is compared with requests alone as far as it can be: limits of CPU are never recommended, so that rules about
them concern what the Pods' template states.

Source: plugin/pkg/admission/limitranger/admission.go and pkg/quota/v1/evaluator/core/pods.go of kubernetes/kubernetes.
"""

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from carico_core.domain import amounts, usage
from carico_core.wire.kubernetes import object_fields as fields

LIMIT_RANGES, QUOTAS = "/api/v1/limitranges", "/api/v1/resourcequotas"
# https://kubernetes.io/docs/concepts/policy/resource-quotas/#quota-scopes
NOT_BEST_EFFORT = "NotBestEffort"
# 575m is parsed as .5750000000000001.
_ROUNDING = 1.0 - 1e-9
_LIMIT_RANGE, _QUOTA = "LimitRange", "ResourceQuota"
_POD, _CONTAINER = "Pod", "Container"
# What a quota counts of Pods -> field of the resources, and resource.
_REQUESTS: Mapping[str, str] = {name: dim for dim in usage.DIMS for name in (dim, f"requests.{dim}")}
_LIMITS: Mapping[str, str] = {f"limits.{dim}": dim for dim in usage.DIMS}
_PODS = "pods"

Object = Mapping[str, Any]
Amounts = Mapping[str, float]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """An item of a LimitRange: what it allows of a Pod or a container.

    `limit`: what a container without one gets. `ratio`: how many times its request a limit may be.
    """

    kind: str
    least: Amounts
    most: Amounts
    limit: Amounts
    ratio: Amounts = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LimitRange:
    """A LimitRange."""

    namespace: str
    name: str
    limits: tuple[Limit, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """A condition under which a quota counts a Pod: In, NotIn, Exists or DoesNotExist."""

    name: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """A ResourceQuota: `hard` and `used` by the names that Kubernetes uses, such as requests.cpu."""

    namespace: str
    name: str
    hard: Amounts
    used: Amounts
    scopes: tuple[Scope, ...] = ()

    @property
    def is_for_requests(self) -> bool:
        """Whether it counts only Pods with requests or limits."""
        return any(each.name == NOT_BEST_EFFORT for each in self.scopes)

    def counts(self, template: usage.Template) -> bool:
        """Return whether it counts Pods of this template once they have requests."""
        return all(_includes(each, template) for each in self.scopes)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Those of one namespace."""

    limit_ranges: tuple[LimitRange, ...] = ()
    quotas: tuple[Quota, ...] = ()


NO_RULES = Rules()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Requests and limits of a Pod or a container."""

    requests: Amounts
    limits: Amounts = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What each Pod of a class would get, and its template today. `containers`: those whose amounts are known.

    `raises_limits`: those of the Pod's requests with which limits, which are not known, rise in proportion.
    `creates_first`: whether a Pod with these amounts is created before one of today is deleted.
    """

    pod: Resources
    containers: tuple[Resources, ...]
    running: int
    template: usage.Template
    raises_limits: Amounts = dataclasses.field(default_factory=dict)
    creates_first: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """A rule that refuses what is wanted. `kind`: LimitRange or ResourceQuota."""

    kind: str
    text: str

    @property
    def is_quota(self) -> bool:
        """Whether it is a ResourceQuota."""
        return self.kind == _QUOTA


def parse_limit_range(obj: Object) -> LimitRange:
    """Return a LimitRange. Raises `ValueError`."""
    namespace, name = fields.key_of(obj)
    spec = fields.mapping(obj, "spec")
    found = [
        Limit(
            kind=fields.optional(each, "type"), least=_amounts(each, "min"), most=_amounts(each, "max"),
            # As the API server does: without a default, the maximum is one.
            limit=_amounts(each, "max") | _amounts(each, "default"), ratio=_amounts(each, "maxLimitRequestRatio"),
        )
        for each in fields.objects(spec, "limits", "spec.")
    ]  # fmt: skip
    return LimitRange(namespace=namespace, name=name, limits=tuple(found))


def parse_quota(obj: Object) -> Quota:
    """Return a ResourceQuota. Raises `ValueError`."""
    namespace, name = fields.key_of(obj)
    spec, status = fields.mapping(obj, "spec"), fields.mapping(obj, "status")
    selector = fields.mapping(spec, "scopeSelector", "spec.")
    scopes = [Scope(name=each) for each in fields.words(spec, "scopes", "spec.")]
    for each in fields.objects(selector, "matchExpressions", "spec.scopeSelector."):
        operator, values = fields.optional(each, "operator"), fields.words(each, "values")
        scopes.append(Scope(name=fields.optional(each, "scopeName"), operator=operator, values=values))
    return Quota(
        namespace=namespace, name=name, hard=_amounts(spec, "hard"), used=_amounts(status, "used"),
        scopes=tuple(scopes),
    )  # fmt: skip


def contradictions(rules: Rules, wanted: Wanted) -> list[Contradiction]:
    """Return the rules that refuse Pods with these amounts, one for each bound."""
    found = [
        Contradiction(kind=_LIMIT_RANGE, text=f"LimitRange {each.name} {said}")
        for each in rules.limit_ranges
        for limit in each.limits
        for said in _of_limit(limit, wanted)
    ]
    return found + [
        Contradiction(kind=_QUOTA, text=f"ResourceQuota {each.name}: {said}")
        for each in rules.quotas
        if each.counts(wanted.template)
        for said in _of_quota(each, wanted)
    ]


def refusal_of_requests(quotas: Iterable[Quota], requests: Amounts, template: usage.Template) -> str | None:
    """Return the quota that refuses a Pod with these requests and no limits, but does not count one without requests.

    Any other quota refuses the Pod without requests, too.
    """
    for quota in quotas:
        if quota.is_for_requests and quota.counts(template):
            for name, hard in quota.hard.items():
                dim = _REQUESTS.get(name)
                amount = 1.0 if name == _PODS else requests.get(dim or "")
                is_missing = name in _LIMITS or (dim is not None and amount is None)
                if is_missing:
                    return f"ResourceQuota {quota.name} counts {name}, which is not set"
                if amount is not None and _is_above(quota.used.get(name, 0.0) + amount, hard):
                    left = _text(name, max(hard - quota.used.get(name, 0.0), 0.0))
                    return (
                        f"ResourceQuota {quota.name} has {left} of {name} left, and the Pod takes {_text(name, amount)}"
                    )
    return None


def least_of_pod(rules: Rules, dim: str) -> float:
    """Return the smallest request of a whole Pod that the LimitRanges allow; 0 if any is allowed."""
    limits = [limit for each in rules.limit_ranges for limit in each.limits if limit.kind == _POD]
    return max((limit.least.get(dim, 0.0) for limit in limits), default=0.0)


def _includes(scope: Scope, template: usage.Template) -> bool:
    """Return whether a scope includes Pods with requests."""
    match scope.name, scope.operator:
        case ("NotBestEffort", _):
            return True
        case ("Terminating", _):
            return template.has_deadline
        case ("NotTerminating", _):
            return not template.has_deadline
        case ("CrossNamespacePodAffinity", _):
            return template.crosses_namespaces
        case ("PriorityClass", "Exists" | "DoesNotExist"):
            return bool(template.priority_class) is (scope.operator == "Exists")
        case ("PriorityClass", "In" | "NotIn"):
            return (template.priority_class in scope.values) is (scope.operator == "In")
    return False


def _of_limit(limit: Limit, wanted: Wanted) -> Iterator[str]:
    holders = {_POD: (wanted.pod,), _CONTAINER: wanted.containers}.get(limit.kind, ())
    # Several containers may contradict the same bound.
    yield from dict.fromkeys(said for each in holders for said in _of_holder(each, limit))


def _of_holder(holder: Resources, limit: Limit) -> Iterator[str]:
    for dim in usage.DIMS:
        request = holder.requests.get(dim)
        most = holder.limits.get(dim, request)
        least, allowed = limit.least.get(dim), limit.most.get(dim)
        default = limit.limit.get(dim) if limit.kind == _CONTAINER and dim not in holder.limits else None
        if request is not None and least is not None and _is_above(least, request):
            yield f"requires at least {amounts.quantity(dim, least)} {dim} of a {limit.kind}"
        if most is not None and allowed is not None and _is_above(most, allowed):
            yield f"allows at most {amounts.quantity(dim, allowed)} {dim} of a {limit.kind}"
        elif request is not None and default is not None:
            given = f"gives a container without a limit one of {amounts.quantity(dim, default)} {dim}"
            ratio = limit.ratio.get(dim, math.inf)
            if _is_above(request, default):
                yield f"{given}, below the request"
            elif _is_above(default, ratio * request):
                yield f"{given}, more than {ratio:g} times the request"


def _of_quota(quota: Quota, wanted: Wanted) -> Iterator[str]:
    for name, hard in quota.hard.items():
        amount, before, used = _taken(quota, name, wanted)
        if amount is None or amount <= before:
            continue
        dim = _LIMITS.get(name, "")
        # A limit is at least its request.
        least, at_most = "at least " if dim in wanted.raises_limits else "", f"of at most {_text(name, hard)}"
        is_rise = wanted.running and dim in wanted.pod.limits and amount > wanted.template.requests.get(dim, 0.0)
        if _is_above(amount, hard):
            yield f"one Pod takes {least}{_text(name, amount)} of {name}, {at_most}"
        elif wanted.running and _is_above(after := used + wanted.running * (amount - before), hard):
            pods = amounts.plural(wanted.running, "Pod")
            run = "runs" if wanted.running == 1 else "run"
            yield f"with the {pods} that {run}, {name} would be {least}{_text(name, after)} {at_most}"
        elif wanted.creates_first and is_rise and _is_above(after := quota.used.get(name, 0.0) + amount, hard):
            yield f"with one Pod more, which a rollout creates first, {name} would be {_text(name, after)} {at_most}"


def _taken(quota: Quota, name: str, wanted: Wanted) -> tuple[float | None, float, float]:
    """Return what a Pod would take of a quota, what it takes today, and how much of the quota is used.

    What is not known is 0, so that too little is found rather than too much.
    """
    used, requests = quota.used.get(name, 0.0), wanted.template.requests
    if name in _REQUESTS:
        dim = _REQUESTS[name]
        return wanted.pod.requests.get(dim), requests.get(dim, 0.0), used
    if name in _LIMITS and wanted.raises_limits:
        dim = _LIMITS[name]
        # None rises where there is no request.
        return wanted.raises_limits.get(dim) if dim in requests else None, requests.get(dim, 0.0), used
    if name in _LIMITS:
        # What their limits are today is not known: of the class's own alone.
        return wanted.pod.limits.get(_LIMITS[name]), 0.0, 0.0
    is_counted = name == _PODS and quota.is_for_requests and not requests
    return 1.0 if is_counted else None, 0.0, used


def _is_above(value: float, bound: float) -> bool:
    return value * _ROUNDING > bound


def _text(name: str, value: float) -> str:
    dim = _REQUESTS.get(name) or _LIMITS.get(name)
    return f"{value:g}" if dim is None else amounts.quantity(dim, value)


def _amounts(obj: Object, key: str) -> dict[str, float]:
    """Return the quantities that can be read: a rule about something else must not hide the others."""
    found: dict[str, float] = {}
    for name, value in fields.mapping(obj, key).items():
        try:
            found[name] = amounts.parse_quantity(value)
        except ValueError:
            continue
    return found
