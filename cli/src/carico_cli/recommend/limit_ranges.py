"""LimitRanges that refuse what is recommended: the API server would refuse the Pods of a patched workload. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from carico_cli.recommend import choosing
from carico_core.domain import amounts

Row = Mapping[str, Any]
_DIMS = ("cpu", "memory")
# 575m is parsed as .5750000000000001.
_ROUNDING = 1.0 - 1e-9


def contradictions(row: Row, ranges: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return what the LimitRanges of the class's namespace do not allow, one text for each bound."""
    namespace = choosing.parse(row["class"]).namespace
    found = []
    for each in ranges:
        metadata = each.get("metadata") or {}
        if metadata.get("namespace") == namespace:
            for limit in (each.get("spec") or {}).get("limits") or []:
                found += [f"LimitRange {metadata.get('name')} {said}" for said in _of_limit(row, limit)]
    return found


def _of_limit(row: Row, limit: Mapping[str, Any]) -> Iterator[str]:
    kind = limit.get("type")
    match kind:
        case "Pod":
            holders: list[Mapping[str, Any]] = [row]
        case "Container" if len(row["containers"]) > 1:
            # Of some, only the whole Pod is measured.
            holders = list((row.get("of_containers") or {}).values())
        case "Container":
            holders = [row]
        case _:
            holders = []
    # Several containers may contradict the same bound.
    yield from dict.fromkeys(said for each in holders for said in _of_holder(each, limit, kind))


def _of_holder(holder: Mapping[str, Any], limit: Mapping[str, Any], kind: object) -> Iterator[str]:
    for dim in _DIMS:
        request = holder["requests"].get(dim)
        most = holder["limits"].get(dim, request)
        least, allowed = _amount(limit, "min", dim), _amount(limit, "max", dim)
        if request is not None and least is not None and request < least * _ROUNDING:
            yield f"requires at least {amounts.quantity(dim, least)} {dim} of a {kind}"
        if most is not None and allowed is not None and most * _ROUNDING > allowed:
            yield f"allows at most {amounts.quantity(dim, allowed)} {dim} of a {kind}"


def _amount(limit: Mapping[str, Any], field: str, dim: str) -> float | None:
    found = (limit.get(field) or {}).get(dim)
    try:
        return None if found is None else amounts.parse_quantity(found)
    except ValueError:
        return None
