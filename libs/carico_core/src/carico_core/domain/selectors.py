"""Label selectors and node selector terms of Kubernetes, comparable and hashable.

https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/ and
https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#node-affinity
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TypeAlias

IN = "In"
NOT_IN = "NotIn"
GREATER = "Gt"
LESS = "Lt"
# The only field of a node that a term may name.
NAME_FIELD = "metadata.name"
# Of the smallest and the largest 64-bit integer.
_INTEGER_DIGITS = 19


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One requirement on one label (or, in `NodeTerm.fields`, field)."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether the labels meet it; a requirement that is not valid is never met."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return value is not None and self._compares(value)
        return False

    def _compares(self, value: str) -> bool:
        """Compare as 64-bit integers, which strconv.ParseInt accepts; False if either side is not one."""
        found, limit = _integer(value), _integer(self.values[0]) if len(self.values) == 1 else None
        if found is None or limit is None:
            return False
        return found > limit if self.operator == GREATER else found < limit

    def __str__(self) -> str:
        values = f" ({', '.join(self.values)})" if self.values else ""
        return f"{self.key} {self.operator}{values}"


# All requirements must be met: an empty selector matches everything, None (no selector) nothing.
Selector: TypeAlias = tuple[Requirement, ...] | None


def matches(selector: Selector, labels: Mapping[str, str]) -> bool:
    """Return whether the labels meet every requirement.

    >>> matches((), {}), matches(None, {})
    (True, False)
    """
    return selector is not None and all(each.matches(labels) for each in selector)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NodeTerm:
    """One term of a node selector: all its requirements must be met; an empty one matches nothing."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return whether a node with this name and these labels meets it."""
        if not self.labels and not self.fields:
            return False
        return all(each.matches(labels) for each in self.labels) and all(_names(each, name) for each in self.fields)

    def __str__(self) -> str:
        return " and ".join(map(str, self.labels + self.fields)) or "nothing"


# One of them must match.
NodeTerms: TypeAlias = tuple[NodeTerm, ...]


def any_matches(terms: NodeTerms, name: str, labels: Mapping[str, str]) -> bool:
    """Return whether a node with this name and these labels meets one of the terms."""
    return any(term.matches(name, labels) for term in terms)


def chooses(
    selector: Iterable[tuple[str, str]], terms: NodeTerms | None, *, name: str, labels: Mapping[str, str]
) -> bool:  # fmt: skip
    """Return whether a node has the labels of a nodeSelector and meets the terms of required node affinity, if any."""
    has_labels = all(labels.get(key) == value for key, value in selector)
    return has_labels and (terms is None or any_matches(terms, name, labels))


def _names(requirement: Requirement, name: str) -> bool:
    """Return whether a requirement on a node's fields is met.

    Kubernetes accepts only In and NotIn with one value here; anything else makes the term match nothing.
    """
    if requirement.operator not in (IN, NOT_IN) or len(requirement.values) != 1:
        return False
    found = name if requirement.key == NAME_FIELD else ""
    return (found == requirement.values[0]) is (requirement.operator == IN)


def _integer(text: str) -> int | None:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdecimal()):
        return None
    # The API checks no value of a preferred term, and Python refuses to read thousands of digits.
    digits = digits.lstrip("0") or "0"
    if len(digits) > _INTEGER_DIGITS:
        return None
    value = -int(digits) if text[0] == "-" else int(digits)
    return value if -(2**63) <= value < 2**63 else None
