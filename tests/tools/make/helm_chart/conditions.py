"""Conditions on values of the chart."""

import itertools
from collections.abc import Collection, Iterator, Sequence
from typing import TypeAlias

from tests.tools.make.helm_chart import combinations

# (name, whether it is on)
Literal: TypeAlias = tuple[str, bool]
# One of these holds, each when all of its literals do.
Condition: TypeAlias = tuple[tuple[Literal, ...], ...]
ALWAYS: Condition = ((),)
_LITERALS_MOST = 3


def telling(present: Collection[combinations.Sample], absent: Collection[combinations.Sample]) -> Condition:
    """Return the shortest condition that holds in all of `present` and in none of `absent`.

    Raises `ValueError` where there is none of at most three literals each.
    """
    if not absent:
        return ALWAYS
    parts = [part for part in _parts(present, absent) if not any(_holds(part, each) for each in absent)]
    chosen, left = [], set(present)
    while left:
        # The first of those that hold in most: a short one, and one without negations.
        best = max(parts, key=lambda part: sum(_holds(part, each) for each in left), default=())
        covered = {each for each in left if _holds(best, each)}
        if not best or not covered:
            raise ValueError(f"no condition on the components tells {sorted(map(sorted, left))} from the others")
        chosen.append(best)
        left -= covered
    return tuple(chosen)


def _parts(
    present: Collection[combinations.Sample], absent: Collection[combinations.Sample]
) -> Iterator[tuple[Literal, ...]]:
    names: Sequence[str] = [*combinations.PROFILES[1:], *combinations.components()]
    seen = set().union(*present, *absent)
    literals = [(name, is_on) for is_on in (True, False) for name in names if name in seen]
    for size in range(1, _LITERALS_MOST + 1):
        yield from itertools.combinations(literals, size)


def _holds(part: Sequence[Literal], each: combinations.Sample) -> bool:
    return all((name in each) is is_on for name, is_on in part)


def text(condition: Condition) -> str:
    """Return the condition in the language of templates."""
    parts = [_joined("and", [_literal(*literal) for literal in part]) for part in condition]
    return _joined("or", parts)


def words(condition: Condition) -> str:
    """Return the condition as a name."""
    return "-or-".join("-".join(name if is_on else f"no-{name}" for name, is_on in part) for part in condition)


def _literal(name: str, is_on: bool) -> str:
    is_profile = name in combinations.PROFILES
    if is_profile:
        return f'({"eq" if is_on else "ne"} .Values.profile "{name}")'
    return f".Values.components.{name}" if is_on else f"(not .Values.components.{name})"


def _joined(operator: str, parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"({operator} {' '.join(parts)})"
