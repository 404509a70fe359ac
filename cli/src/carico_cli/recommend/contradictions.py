"""What refuses the Pods of a patched workload: LimitRanges, ResourceQuotas, and nodes that are too small. Pure."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from carico_cli.recommend import choosing
from carico_core.domain import usage
from carico_core.wire.kubernetes import namespace_rules

Row = Mapping[str, Any]
Objects = Iterable[Mapping[str, Any]]
_Rule = TypeVar("_Rule", namespace_rules.LimitRange, namespace_rules.Quota)


def of_row(row: Row, limit_ranges: Objects, quotas: Objects) -> list[str]:
    """Return what the rules of the class's namespace do not allow, and what no node gives, one text for each bound."""
    namespace = choosing.parse(row["class"]).namespace
    rules = namespace_rules.Rules(
        limit_ranges=_of_namespace(limit_ranges, namespace, namespace_rules.parse_limit_range),
        quotas=_of_namespace(quotas, namespace, namespace_rules.parse_quota),
    )
    wanted = _wanted(row)
    above = usage.above_node(wanted.pod.requests, row["node_gives"])
    return [*(each.text for each in namespace_rules.contradictions(rules, wanted)), *above.values()]


def _of_namespace(
    objects: Objects, namespace: str, parse: Callable[[Mapping[str, Any]], _Rule]
) -> tuple[_Rule, ...]:  # fmt: skip
    found = []
    for each in objects:
        try:
            rule = parse(each)
        except ValueError:
            # The API server accepts no such object.
            continue
        if rule.namespace == namespace:
            found.append(rule)
    return tuple(found)


def _wanted(row: Row) -> namespace_rules.Wanted:
    # Of several containers, those that are measured; of some Pods, only the whole Pod is.
    holders = list(row["of_containers"].values()) if len(row["containers"]) > 1 else [row]
    template = usage.Template(
        image="", containers=tuple(row["containers"]), requests=row["requested"],
        priority_class=row["priority_class"], has_deadline=row["has_deadline"],
        crosses_namespaces=row["crosses_namespaces"],
    )  # fmt: skip
    containers = tuple(namespace_rules.Resources(requests=each["requests"], limits=each["limits"]) for each in holders)
    # A patch gives each container its own, which together are more than the Pod's: their peaks are not at one time.
    pod = namespace_rules.Resources(
        requests=_added_up(each["requests"] for each in holders or [row]),
        limits=_added_up(each["limits"] for each in holders or [row]),
    )
    kind = choosing.parse(row["class"]).kind
    return namespace_rules.Wanted(
        pod=pod, containers=containers, running=row["running"], template=template, creates_first=kind == "ReplicaSet"
    )


def _added_up(amounts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for each in amounts:
        for dim, amount in each.items():
            total[dim] = total.get(dim, 0.0) + amount
    return total
