"""Values that Pods share.

Thousands of Pods come from one template. Equal values become one object, which is faster and takes much less memory.
Each cache has at most `SHARED_MOST` entries of at most `SHARED_CHARS` characters; longer values are not shared.
"""

import functools
from collections.abc import Mapping

from carico_core.domain import cluster

# 4096 templates, whose labels rarely exceed 1000 characters.
SHARED_MOST = 4096
SHARED_CHARS = 2048

Texts = tuple[str, ...]
_NO_TEXTS: Mapping[str, str] = {}


def owner(found: Texts | None) -> cluster.Owner | None:
    """Return the owner of kind, name and UID; None of None."""
    if found is None:
        return None
    return _owner(found) if sum(map(len, found)) <= SHARED_CHARS else _owner.__wrapped__(found)


def tolerations(found: tuple[Texts, ...]) -> tuple[cluster.Toleration, ...]:
    """Return the tolerations of key, operator, value and effect each."""
    if not found:
        return ()
    chars = sum([sum(map(len, texts)) for texts in found])
    return _toleration_records(found) if chars <= SHARED_CHARS else _toleration_records.__wrapped__(found)


def mapping(found: dict[str, str]) -> Mapping[str, str]:
    """Return labels, or another mapping of texts."""
    if not found:
        return _NO_TEXTS
    chars = sum(map(len, found)) + sum(map(len, found.values()))
    return _as_mapping(tuple(found.items())) if chars <= SHARED_CHARS else found


@functools.lru_cache(maxsize=SHARED_MOST)
def _owner(found: Texts) -> cluster.Owner:
    kind, name, uid = found
    return cluster.Owner(kind=kind, name=name, uid=uid)


@functools.lru_cache(maxsize=SHARED_MOST)
def _toleration_records(found: tuple[Texts, ...]) -> tuple[cluster.Toleration, ...]:
    return tuple(
        cluster.Toleration(key=key, operator=operator, value=value, effect=effect)
        for key, operator, value, effect in found
    )


@functools.lru_cache(maxsize=SHARED_MOST)
def _as_mapping(items: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    return dict(items)
