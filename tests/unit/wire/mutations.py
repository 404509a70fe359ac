"""Messages made wrong, reproducibly: bytes flipped, cut and repeated; values of the wrong kind, size and shape."""

import json
import math
import pickle
import random
from collections.abc import Iterator
from typing import Any

import msgpack

HUGE = 10**400
DEEP_JSON = b"[" * 20_000 + b"]" * 20_000


def mutated(payload: bytes, *, is_json: bool, count: int, seed: int) -> Iterator[bytes]:
    """`count` payloads, half of them damaged bytes, half damaged values; some may still be valid."""
    rng = random.Random(seed)
    decode = json.loads if is_json else msgpack.unpackb
    tree = decode(payload)
    paths = list(_paths(tree, ()))
    # A copy of it is made faster than by reading the payload again.
    kept = pickle.dumps(tree)
    for _ in range(count // 2):
        yield _damaged_bytes(payload, rng)
        changed = pickle.loads(kept)
        _damage_tree(changed, paths, rng)
        yield _encode(changed, is_json=is_json)


def _damaged_bytes(payload: bytes, rng: random.Random) -> bytes:
    data = bytearray(payload)
    kind = rng.randrange(5)
    if kind == 0:
        return bytes(data[: rng.randrange(len(data))])
    if kind == 1:
        start = rng.randrange(len(data))
        return bytes(data[:start] + data[start : start + rng.randrange(1, 20)] * 2 + data[start:])
    if kind == 2:
        return rng.randbytes(rng.randrange(64))
    for _ in range(rng.randrange(1, 9)):
        if kind == 3:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        else:
            data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


def _damage_tree(tree: Any, paths: list[tuple[Any, ...]], rng: random.Random) -> None:
    for _ in range(rng.choice((1, 1, 1, 2))):
        *way, last = rng.choice(paths)
        holder = tree
        try:
            for step in way:
                holder = holder[step]
            if rng.random() < 0.15:
                del holder[last]
            else:
                holder[last] = _wrong_value(holder[last], rng)
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change has removed the way


def _wrong_value(value: Any, rng: random.Random) -> Any:
    if rng.random() < 0.4 and isinstance(value, bytes | str | int | float | list | dict):
        return _near(value, rng)
    return pickle.loads(rng.choice(_WRONG))


def _near(value: Any, rng: random.Random) -> Any:
    """A value of the same kind that is a little, or a lot, off."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return rng.choice(
            [-value, value + 1, value * 1e9, value / 3, float(value), int(value) if math.isfinite(value) else 0]
        )
    if isinstance(value, str):
        return rng.choice([value + "x", value[:-1], value.upper(), value * 50])
    if isinstance(value, bytes):
        return rng.choice([value[:-1], value + b"\0", value[:-8], value + b"\0" * 8, b"\xff" * len(value), b""])
    if isinstance(value, list):
        return rng.choice([value[:-1], value * 2, value[::-1]])
    return {**value, "x" * rng.randrange(1, 70): rng.choice(list(value.values()) or [1])}


def _paths(tree: Any, way: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    steps = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for step, value in steps:
        yield (*way, step)
        yield from _paths(value, (*way, step))


def _encode(tree: Any, *, is_json: bool) -> bytes:
    if is_json:
        return json.dumps(tree, default=str).encode("utf-8", "surrogatepass")
    try:
        packed: bytes = msgpack.packb(tree)
    except (OverflowError, ValueError):
        return b"\xc1"
    return packed


def _nested(depth: int) -> Any:
    found: Any = []
    for _ in range(depth):
        found = [found]
    return found


# As bytes, from which each payload gets a copy of its own: a second change may be inside of the first.
_WRONG = tuple(
    map(pickle.dumps, (
        None, True, False, 0, -1, 1, 0.5, -0.5, 1e300, -1e300, float("nan"), float("inf"), -float("inf"), 2**63,
        2**64 - 1, -(2**63), 1e19, "", "x", "\x00", "\u202e", "node-2", "a" * 5000, "../..", [], [[]], {}, {"": ""},
        [1, 2, 3], {"mean": float("nan"), "sd": 1.0}, {"shape": [2**31, 2**31], "data": ""}, _nested(200),
        ["x"] * 5000, {str(number): 1.0 for number in range(600)},
    ))
)  # fmt: skip
