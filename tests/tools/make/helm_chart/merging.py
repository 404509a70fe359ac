"""One tree of all renderings of an object: what differs between them has a condition."""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from tests.tools.make.helm_chart import combinations, conditions

# A value by the combinations that have it.
Variants: TypeAlias = Mapping[combinations.Sample, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Same:
    """A value that all renderings share."""

    value: Any


@dataclasses.dataclass(frozen=True, slots=True)
class Fields:
    """A mapping: each key with its condition and its value."""

    fields: Sequence[tuple[str, conditions.Condition, "Node"]]


@dataclasses.dataclass(frozen=True, slots=True)
class Items:
    """A list: each element with its condition."""

    items: Sequence[tuple[conditions.Condition, "Node"]]


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """Different values; the last one applies where no condition holds."""

    options: Sequence[tuple[conditions.Condition, Any]]


Node: TypeAlias = Same | Fields | Items | Choice


def merged(variants: Variants) -> Node:
    """Return the tree of these values."""
    values = list(variants.values())
    if all(value == values[0] for value in values):
        return Same(values[0])
    if all(isinstance(value, dict) and value for value in values):
        return _fields(variants)
    if all(isinstance(value, list) and value for value in values):
        for key in (_by_name, _by_path, _by_value):
            items = _items(variants, key)
            if items is not None:
                return items
    return _choice(variants)


def presence(variants: Variants, everywhere: Variants) -> conditions.Condition:
    """Return the condition of a part that only these of the combinations have."""
    return conditions.telling(variants.keys(), everywhere.keys() - variants.keys())


def _fields(variants: Variants) -> Fields:
    found = []
    for name in _ordered([list(value) for value in variants.values()]) or sorted(
        {k for v in variants.values() for k in v}
    ):
        having = {each: value[name] for each, value in variants.items() if name in value}
        found.append((name, presence(having, variants), merged(having)))
    return Fields(found)


def _items(variants: Variants, key: Callable[[Any], str | None]) -> Items | None:
    """Return the merged list; None where `key` does not identify elements, or their order differs."""
    keyed = {each: [key(element) for element in elements] for each, elements in variants.items()}
    if any(None in keys or len(set(keys)) < len(keys) for keys in keyed.values()):
        return None
    order = _ordered([[str(one) for one in keys] for keys in keyed.values()])
    if order is None:
        return None
    found = []
    for name in order:
        having = {each: elements[keyed[each].index(name)] for each, elements in variants.items() if name in keyed[each]}
        node = merged(having)
        # The first line of an element has its dash.
        if isinstance(node, Fields) and not any(condition == conditions.ALWAYS for _, condition, _ in node.fields):
            return None
        found.append((presence(having, variants), node))
    return Items(found)


def _choice(variants: Variants) -> Choice:
    groups: dict[str, dict[combinations.Sample, Any]] = {}
    for each, value in variants.items():
        groups.setdefault(json.dumps(value, sort_keys=True), {})[each] = value
    # The value with the fewest components is the one without a condition.
    ordered = sorted(groups.values(), key=lambda group: min(len(each) for each in group), reverse=True)
    return Choice([(presence(group, variants), next(iter(group.values()))) for group in ordered])


def _ordered(sequences: Sequence[Sequence[str]]) -> list[str] | None:
    """Return all names in an order that every sequence keeps; None where two of them contradict each other."""
    order: list[str] = []
    for sequence in sorted(sequences, key=len, reverse=True):
        place = 0
        for name in sequence:
            if name in order:
                place = order.index(name) + 1
            else:
                order.insert(place, name)
                place += 1
    for sequence in sequences:
        places = [order.index(name) for name in sequence]
        if places != sorted(places):
            return None
    return order


def _by_name(element: Any) -> str | None:
    return element.get("name") if isinstance(element, dict) else None


def _by_path(element: Any) -> str | None:
    return element.get("mountPath") if isinstance(element, dict) else None


def _by_value(element: Any) -> str | None:
    return json.dumps(element, sort_keys=True)
