"""What is recommended to a VerticalPodAutoscaler, and its conditions. Pure.

    class not measured, or flagged     the recommendation that is there stays; conditions give the reason
    a ResourceQuota refuses the Pods   the same: an updater would evict Pods that cannot be created again
    a specification without an answer  no recommendation, ConfigUnsupported
    memory that grows                  the same, where less would be requested than today
    above what any node gives          the same: they would wait for ever
    otherwise                          target, bounds and uncapped target of the container; whether a LimitRange
                                       contradicts, within which VPA's own updater and admission controller keep

Each container gets its own amounts. Where only the whole Pod is measured, they are for its only container, or for the
only one whose mode is not Off: it gets those of the Pod, which are never too little.

The bounds widen with too little history as VPA's do (pkg/recommender/logic/estimator.go: a confidence interval of a
day), so that its updater evicts a Pod of a new class only if its requests are far off.
"""

import dataclasses
import enum
from collections.abc import Mapping, Sequence

from carico_core.domain import usage
from carico_core.numerics import recommendation
from carico_core.wire.kubernetes import namespace_rules
from carico_recommender.vpa import objects

_DAY_S = 86_400.0
# VPA's first sample is a minute old.
_LEAST_DAYS = 60.0 / _DAY_S
# Flags of the aggregator with which no new amounts are given.
_WITHHOLDING: Mapping[str, str] = {
    "all_failed": "almost all Pods have failed, crash or ran out of memory: raise their limits, or repair them, first",
    "two_kinds": "the Pods are of two kinds: give each kind an owner of its own",
    "brief": "measured for less than 10 Pod-seconds so far",
}

_GROWING = "memory still grows: what is measured so far is less than the Pods will need"

Amounts = Mapping[str, float]


class Kind(enum.StrEnum):
    """The conditions of a VerticalPodAutoscaler that this recommender sets."""

    CONFIG_UNSUPPORTED = "ConfigUnsupported"
    LOW_CONFIDENCE = "LowConfidence"
    # CARICO's own.
    NAMESPACE_REFUSES = "NamespaceRefuses"
    NO_PODS_MATCHED = "NoPodsMatched"
    RECOMMENDATION_PROVIDED = "RecommendationProvided"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition; all but RecommendationProvided are present only if they are true."""

    kind: Kind
    is_true: bool
    reason: str
    message: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """Amounts for a container, in cores and bytes."""

    name: str
    target: Amounts
    lower: Amounts
    upper: Amounts
    uncapped: Amounts


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """`containers` None: those that are there stay."""

    containers: tuple[Container, ...] | None
    conditions: tuple[Condition, ...]

    def find(self, kind: Kind) -> Condition | None:
        """Return the condition of this kind, if it has one."""
        return next((each for each in self.conditions if each.kind is kind), None)


def advise(
    one: objects.Autoscaler, known: usage.Recommended | None, *, margin: float, has_recommendation: bool,
    rules: namespace_rules.Rules = namespace_rules.NO_RULES,
) -> Advice:  # fmt: skip
    """Return what is recommended, by what is known of the object's class and the rules of its namespace."""
    if one.fault:
        return _unsupported("InvalidSpec", one.fault)
    if known is None:
        said = Condition(
            kind=Kind.NO_PODS_MATCHED, is_true=True, reason="NotMeasured",
            message=f"no node has measured a Pod of class {one.pod_class}",
        )  # fmt: skip
        return _kept(said, has_recommendation=has_recommendation)
    conditions = () if known.running else (_no_pods(one),)
    flag = next((each for each in known.flags if each in _WITHHOLDING), None)
    if flag is not None:
        return _kept(*conditions, has_recommendation=has_recommendation, why=(_reason(flag), _WITHHOLDING[flag]))
    if not known.containers:
        why = ("ContainersUnknown", "the names of the Pods' containers are not known yet")
        return _kept(*conditions, has_recommendation=has_recommendation, why=why)
    found = _of_containers(one, known, conditions, margin)
    withheld = _why_withheld(found.containers or (), known)
    if withheld is not None:
        return _kept(*conditions, has_recommendation=has_recommendation, why=withheld)
    refusals = namespace_rules.contradictions(rules, _wanted(one, found.containers or (), known))
    if not refusals:
        return found
    kind, message = refusals[-1].kind, "; ".join(each.text for each in refusals)
    refused = Condition(kind=Kind.NAMESPACE_REFUSES, is_true=True, reason=kind, message=message)
    if any(each.is_quota for each in refusals):
        return _kept(*conditions, refused, has_recommendation=has_recommendation, why=(kind, message))
    return dataclasses.replace(found, conditions=(refused, *found.conditions))


def _why_withheld(containers: Sequence[Container], known: usage.Recommended) -> tuple[str, str] | None:
    """Return why Pods would fail or wait with these amounts, as reason and message; None if they would not."""
    asked = _total(containers)
    # Of a part of the Pod it is not known whether it is less.
    is_of_pod = recommendation.MEMORY in asked and set(known.containers) <= {each.name for each in containers}
    is_less = is_of_pod and asked[recommendation.MEMORY] < known.requested.get(recommendation.MEMORY, 0.0)
    if recommendation.Flag.GROWING in known.flags and is_less:
        return _reason(recommendation.Flag.GROWING), _GROWING
    above = usage.above_node(asked, known.node_gives)
    return ("AboveNodes", "; ".join(above.values())) if above else None


def _wanted(
    one: objects.Autoscaler, containers: Sequence[Container], known: usage.Recommended
) -> namespace_rules.Wanted:
    """Return what Pods would request; of containers that the policy leaves alone nothing is known."""
    template = usage.Template(
        image="", containers=known.containers, requests=known.requested, priority_class=known.priority_class,
        has_deadline=known.has_deadline, crosses_namespaces=known.crosses_namespaces,
    )  # fmt: skip
    return namespace_rules.Wanted(
        pod=namespace_rules.Resources(requests=_total(containers)),
        containers=tuple(namespace_rules.Resources(requests=each.target) for each in containers),
        running=known.running, template=template,
        raises_limits=_total([each for each in containers if one.policy(each.name).raises_limits]),
    )  # fmt: skip


def _total(containers: Sequence[Container]) -> dict[str, float]:
    total = {dim: sum(each.target.get(dim, 0.0) for each in containers) for dim in usage.DIMS}
    return {dim: amount for dim, amount in total.items() if amount > 0.0}


def _of_containers(
    one: objects.Autoscaler, known: usage.Recommended, conditions: tuple[Condition, ...], margin: float
) -> Advice:
    wanted = [name for name in known.containers if not one.policy(name).is_off]
    if not wanted:
        return Advice(containers=(), conditions=(_provided(False, "ContainersOff", "every container has mode Off"),))
    if len(wanted) > 1 and not set(wanted) <= known.of_containers.keys():
        return _unsupported(
            "SeveralContainers",
            "only the Pods as a whole have been measured: wait, or set mode Off for all but one of the containers "
            f"{', '.join(wanted)}",
        )
    foreign = [name for each in wanted for name in one.policy(each).controlled or () if name not in usage.DIMS]
    if foreign:
        message = (
            f"controlledResources: got {', '.join(foreign)}, expected cpu or memory: no amount is recommended for it"
        )
        conditions += (Condition(kind=Kind.CONFIG_UNSUPPORTED, is_true=True, reason="OtherResource", message=message),)
    found = [_container(name, known, one.policy(name), margin) for name in wanted]
    containers = tuple(each for each in found if each.target)
    if not containers:
        why = ("NothingControlled", "none of the controlled resources has been measured")
        return Advice(containers=(), conditions=(*conditions, _provided(False, *why)))
    if known.confidence == recommendation.Confidence.LOW or recommendation.Flag.ONE_POD in known.flags:
        message = "measured on fewer than 5 Pods, or for less than a minute"
        conditions += (Condition(kind=Kind.LOW_CONFIDENCE, is_true=True, reason="FewPods", message=message),)
    elif recommendation.Flag.IMAGE_CHANGED in known.flags:
        message = "the image has changed: the amounts are of the earlier one, too"
        conditions += (Condition(kind=Kind.LOW_CONFIDENCE, is_true=True, reason="ImageChanged", message=message),)
    elif recommendation.Flag.GROWING in known.flags:
        conditions += (
            Condition(
                kind=Kind.LOW_CONFIDENCE, is_true=True, reason=_reason(recommendation.Flag.GROWING), message=_GROWING
            ),
        )
    return Advice(containers=containers, conditions=(*conditions, _provided(True)))


def _container(name: str, known: usage.Recommended, policy: objects.Policy, margin: float) -> Container:
    controlled = usage.DIMS if policy.controlled is None else policy.controlled
    own: usage.Recommended | usage.RecommendedContainer = known.of_containers.get(name, known)
    target = {dim: own.requests[dim] for dim in usage.DIMS if dim in own.requests and dim in controlled}
    days = max(min(known.age_s, known.measured_s) / _DAY_S, _LEAST_DAYS)
    bounds = {dim: _bounds(dim, own, amount, margin, days) for dim, amount in target.items()}
    return Container(
        name=name,
        target={dim: _capped(dim, amount, policy) for dim, amount in target.items()},
        lower={dim: _capped(dim, lower, policy) for dim, (lower, _) in bounds.items()},
        upper={dim: _capped(dim, upper, policy) for dim, (_, upper) in bounds.items()},
        uncapped=target,
    )


def _bounds(
    dim: str, known: usage.Recommended | usage.RecommendedContainer, target: float, margin: float, days: float
) -> tuple[float, float]:
    """Return the bounds between which VPA's updater leaves a Pod alone, after `days` of history."""
    lower = upper = target
    if dim == recommendation.MEMORY and dim in known.peaks:
        # Less than a peak has been too little once.
        lower = known.peaks[dim]
    elif dim == recommendation.CPU and known.cpu_bounds is not None:
        lower, upper = (each * (1.0 + margin) for each in known.cpu_bounds)
    # VPA: lower (1 + .001 / c)^-2 and upper (1 + 1 / c), with c days of history.
    lower, upper = lower * (1.0 + 0.001 / days) ** -2.0, max(upper, target) * (1.0 + 1.0 / days)
    return (
        min(recommendation.rounded_up(dim, lower), target),
        recommendation.rounded_up(dim, upper),
    )


def _capped(dim: str, amount: float, policy: objects.Policy) -> float:
    """As VPA: an allowed amount of zero is none."""
    least, most = policy.least.get(dim, 0.0), policy.most.get(dim, 0.0)
    amount = max(amount, least) if least > 0.0 else amount
    return min(amount, most) if most > 0.0 else amount


def _kept(*conditions: Condition, has_recommendation: bool, why: tuple[str, str] | None = None) -> Advice:
    """Return the advice to keep what is there, which the conditions then call into doubt."""
    reason, message = why or (conditions[0].reason, conditions[0].message)
    if has_recommendation:
        doubt = Condition(
            kind=Kind.LOW_CONFIDENCE, is_true=True, reason=reason,
            message=f"the amounts are those recommended before: {message}",
        )  # fmt: skip
        return Advice(containers=None, conditions=(*conditions, doubt, _provided(True)))
    return Advice(containers=None, conditions=(*conditions, _provided(False, reason, message)))


def _unsupported(reason: str, message: str) -> Advice:
    said = Condition(kind=Kind.CONFIG_UNSUPPORTED, is_true=True, reason=reason, message=message)
    return Advice(containers=(), conditions=(said, _provided(False, reason, message)))


def _reason(flag: str) -> str:
    return "".join(word.capitalize() for word in flag.split("_"))


def _no_pods(one: objects.Autoscaler) -> Condition:
    message = f"no Pod of class {one.pod_class} is running"
    return Condition(kind=Kind.NO_PODS_MATCHED, is_true=True, reason="NoPodsMatched", message=message)


def _provided(is_true: bool, reason: str = "", message: str = "") -> Condition:
    return Condition(kind=Kind.RECOMMENDATION_PROVIDED, is_true=is_true, reason=reason, message=message)
