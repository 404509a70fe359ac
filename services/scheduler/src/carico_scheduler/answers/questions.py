"""Queries as they arrive from the bus: JSON objects; errors name the wrong field."""

import difflib
import heapq
import itertools
import math
from collections.abc import Iterable, Mapping
from typing import Any

from carico_core.runtime.bus import serving

# Rows of an answer: by default a page of text; the maximum is far below one bus message (1 MiB).
LIMIT = 100
LIMIT_MOST = 1000
NEAREST_MOST = 5
# Names that are compared letter by letter: those with the longest common prefix.
_COMPARED_MOST = 200


def text_of(asked: Mapping[str, Any], name: str) -> str:
    """Return a required field. Raises `BadQuestion`."""
    found = asked.get(name)
    if not isinstance(found, str) or not found:
        raise serving.BadQuestion(f'expected {{"{name}": "NAME"}}')
    return found


def limit_of(asked: Mapping[str, Any]) -> int:
    """Return the maximum number of rows. Raises `BadQuestion`."""
    found = asked.get("limit", LIMIT)
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found <= LIMIT_MOST:
        raise serving.BadQuestion(f'"limit": got {found!r}, expected 0 to {LIMIT_MOST}')
    return found


def nearest(name: str, names: Iterable[str]) -> list[str]:
    """Return the names most similar to one that is not among them, best first.

    >>> nearest("helo-1", ["hello-1", "web"])
    ['hello-1']
    """
    alike = heapq.nlargest(_COMPARED_MOST, names, key=lambda each: _shared(each, name))
    return difflib.get_close_matches(name, alike, n=NEAREST_MOST)


def _shared(one: str, other: str) -> int:
    """Return the length of the common prefix."""
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def finite(value: float) -> float | None:
    """Return the number for JSON: rounded, and None if it is not finite."""
    return round(value, 4) if math.isfinite(value) else None
