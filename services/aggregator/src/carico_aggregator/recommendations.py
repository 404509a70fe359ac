"""Recommended requests and limits of every class: the rows of an answer, and those of metrics. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from carico_aggregator import usage as usages
from carico_core.domain import errors, messages, usage
from carico_core.numerics import distribution, recommendation
from carico_core.wire import codec
from carico_core.wire.messages import usage as wire

# Of the rows in an answer; the rest is in the next one.
ANSWER_BYTES = 512 << 10
# Series of each metric: the classes with most Pods. A monitoring system pays for each series.
METRICS_MOST = 50
_SHARES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
_NAME_MAX = 800


def answer(known: usages.Usages, evidence: Mapping[str, messages.ClassEvidence], question: bytes, now_ns: int) -> bytes:
    """Return a page of rows, ordered by class, and how many classes there are.

    The question may have `percentile`, `margin` and `after`, the last class of the page before; or `class`, for that
    class alone with its `distribution`: pairs of amount and weight. Raises `CaricoError`.
    """
    asked = codec.parse_json(question or b"{}")
    rule = _rule(asked)
    after = asked.text("after", maximum=_NAME_MAX, free=True) if asked.has("after") else ""
    running = known.running()
    if asked.has("class"):
        found = _one(known, asked.text("class", maximum=_NAME_MAX, free=True), rule, running, evidence, now_ns)
        return orjson.dumps({"classes": found, "learnt": len(known), "complete": True})
    rows: list[orjson.Fragment] = []
    size, is_complete = 0, True
    for name in known.names():
        if name <= after:
            continue
        if size > ANSWER_BYTES:
            is_complete = False
            break
        facts = known.about(name, now_ns=now_ns)
        payload = orjson.dumps(row(name, facts, rule, running=running.get(name, 0), evidence=evidence.get(name)))
        rows.append(orjson.Fragment(payload))
        # Before the next: an answer exceeds the bound by one row at most.
        size += len(payload)
    return orjson.dumps({"classes": rows, "learnt": len(known), "complete": is_complete})


def row(
    name: str, facts: usages.About, rule: recommendation.Rule, *, running: int, evidence: messages.ClassEvidence | None
) -> dict[str, Any]:
    """Return what is recommended for a class, and why."""
    measured = facts.measured
    found = recommendation.recommend(measured, rule)
    template = facts.template or usage.Template(image="", containers=(), requests={})
    requested = dict(template.requests)
    return {
        "class": name,
        "requests": found.requests,
        "limits": found.limits,
        "confidence": found.confidence,
        "flags": found.flags,
        "kinds": found.kinds,
        "cpu_bounds": found.cpu_bounds,
        "memory_risk": round(found.memory_risk, 6),
        "usage": _usage(measured),
        "further": _further(evidence),
        "requested": requested,
        "saves": {dim: (requested[dim] - found.requests[dim]) * running for dim in requested if dim in found.requests},
        "priority_class": template.priority_class,
        "has_deadline": template.has_deadline,
        "crosses_namespaces": template.crosses_namespaces,
        "containers": template.containers,
        "of_containers": _containers(facts, rule, measured.pods),
        "node_gives": facts.node_gives,
        "pods": measured.pods,
        "failed": measured.failed,
        "running": running,
        "images": facts.images,
        "nodes": measured.nodes,
        "nodes_at_least": measured.nodes >= wire.NODES_MAX,
        "measured_s": round(measured.measured_s, 1),
        "since_ns": facts.first_ns,
        "last_ns": facts.last_ns,
    }


def series(known: usages.Usages, *, now_ns: int) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the classes with most Pods and their recommended requests; those that are flagged are left out."""
    running = known.running()
    ordered = sorted(known.names(), key=lambda name: (-running.get(name, 0), name))
    for name in ordered[:METRICS_MOST]:
        found = recommendation.recommend(known.measured(name, now_ns=now_ns), recommendation.Rule())
        if not found.flags:
            yield name, found.requests


def _one(
    known: usages.Usages, name: str, rule: recommendation.Rule, running: Mapping[str, int],
    evidence: Mapping[str, messages.ClassEvidence], now_ns: int,
) -> list[dict[str, Any]]:  # fmt: skip
    """Return the row of a class with its distribution; none for an unknown class."""
    if name not in known.names():
        return []
    facts = known.about(name, now_ns=now_ns)
    found = row(name, facts, rule, running=running.get(name, 0), evidence=evidence.get(name))
    found["distribution"] = {
        dim: [(distribution.amount(dim, index), weight) for index, weight in distribution.buckets(each.weights).items()]
        for dim, each in _by_dimension(facts.measured)
    }
    return [found]


def _rule(asked: Any) -> recommendation.Rule:
    given = {name: asked.number(name, maximum=10.0) for name in ("percentile", "margin") if asked.has(name)}
    try:
        return recommendation.Rule(**given)
    except ValueError as error:
        raise errors.SettingsError(str(error)) from None


def _usage(measured: recommendation.Measured) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for dim, used in _by_dimension(measured):
        read = used.percentiles(_SHARES.values())
        if read is not None:
            found[dim] = {"mean": used.mean(), "peak": used.peak, **dict(zip(_SHARES, read, strict=True))}
    return found


def _by_dimension(measured: recommendation.Measured) -> tuple[tuple[str, distribution.Distribution], ...]:
    return (recommendation.CPU, measured.cpu), (recommendation.MEMORY, measured.memory)


def _containers(facts: usages.About, rule: recommendation.Rule, pods: int) -> dict[str, Any]:
    """Return the amounts of each container of Pods with several; none if one of them has not been measured."""
    names = () if facts.template is None else facts.template.containers
    if len(names) < 2 or not set(names) <= facts.containers.keys():
        return {}
    found: dict[str, Any] = {}
    for name in names:
        each = facts.containers[name]
        cpu = distribution.Distribution(recommendation.CPU, each.cpu, peak=each.peaks.get(recommendation.CPU))
        amounts = recommendation.amounts_of(cpu, each.peaks.get(recommendation.MEMORY), rule, pods=pods)
        if len(amounts.requests) < len(usage.DIMS):
            return {}
        found[name] = {
            "requests": amounts.requests, "limits": amounts.limits, "peaks": each.peaks,
            "cpu_bounds": amounts.cpu_bounds,
        }  # fmt: skip
    return found


def _further(evidence: messages.ClassEvidence | None) -> dict[str, dict[str, float]]:
    """Return the learnt cost of a Pod in dimensions that are not measured by Pod, such as GPUs."""
    cost = {} if evidence is None else evidence.cost
    return {dim: {"mean": each.mean, "sd": each.sd} for dim, each in cost.items() if dim not in usage.DIMS}
