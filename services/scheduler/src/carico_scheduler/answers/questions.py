"""Questions as they come from the bus: JSON objects, read with the path of what is wrong in them."""

import difflib
import heapq
import itertools
import math
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from carico_core.domain import errors

# Rows of an answer: a page of text by default; at most what fits into one message of the bus (1 MiB) by far.
LIMIT = 100
LIMIT_MOST = 1000
NEAREST_MOST = 5
# Names that are compared letter by letter; of more, those that begin as the one asked for.
_COMPARED_MOST = 200


class BadQuestion(errors.CaricoError):
    """A question that lacks what it needs; the answer says what."""


def parse(payload: bytes) -> dict[str, Any]:
    """Return the question. Raises `BadQuestion`."""
    try:
        asked = orjson.loads(payload or b"{}")
    except orjson.JSONDecodeError as error:
        raise BadQuestion(f"expected a JSON object: {error}") from error
    if not isinstance(asked, dict):
        raise BadQuestion(f"got {type(asked).__name__}, expected a JSON object")
    return asked


def pod_of(asked: Mapping[str, Any]) -> tuple[str, str]:
    """Return namespace and name of the Pod that is asked about. Raises `BadQuestion`."""
    namespace, pod = asked.get("namespace", "default"), asked.get("pod")
    if not isinstance(namespace, str) or not isinstance(pod, str):
        raise BadQuestion('expected {"namespace": "default", "pod": "NAME"}')
    return namespace, pod


def text_of(asked: Mapping[str, Any], name: str) -> str:
    """Return a field that must be there. Raises `BadQuestion`."""
    found = asked.get(name)
    if not isinstance(found, str) or not found:
        raise BadQuestion(f'expected {{"{name}": "NAME"}}')
    return found


def limit_of(asked: Mapping[str, Any]) -> int:
    """Return how many rows are wanted. Raises `BadQuestion`."""
    found = asked.get("limit", LIMIT)
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found <= LIMIT_MOST:
        raise BadQuestion(f'"limit": got {found!r}, expected 0 to {LIMIT_MOST}')
    return found


def nearest(name: str, names: Iterable[str]) -> list[str]:
    """Return the names most like one that is not among them, best first.

    >>> nearest("helo-1", ["hello-1", "web"])
    ['hello-1']
    """
    alike = heapq.nlargest(_COMPARED_MOST, names, key=lambda each: _shared(each, name))
    return difflib.get_close_matches(name, alike, n=NEAREST_MOST)


def _shared(one: str, other: str) -> int:
    """Return how many letters both begin with."""
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def finite(value: float) -> float | None:
    """Return the number as JSON has it: None if it is not finite."""
    return round(value, 4) if math.isfinite(value) else None
