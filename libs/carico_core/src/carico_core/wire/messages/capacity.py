"""Advertisements on `carico.v1.capacity.<node>`: JSON, so that people can read them with `nats sub`."""

from collections.abc import Iterable, Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from carico_core.domain import messages, names
from carico_core.wire import codec, fields, schemas
from carico_core.wire.messages import elements

# 64 KiB hold about 1,680; a Pod limit plus 256 is far below.
_COVERS_MAX = 4096
# Usage is a share, 0 to 1. A filter's rounding may exceed it by this much, and is clipped.
_SHARE_ROUNDING = 1e-6
# Signals and directions are multiples of a full node; this is a plausibility limit.
_SIGNAL_MAX = 1e9

_Signal = Annotated[float, Meta(ge=-_SIGNAL_MAX, le=_SIGNAL_MAX)]
_Share = Annotated[float, Meta(ge=-_SHARE_ROUNDING, le=1.0 + _SHARE_ROUNDING)]
_PER_DIM = Meta(max_length=fields.DIMS_MAX)
_Shares = Annotated[dict[elements.Name, _Share], _PER_DIM]


class _ClassCapacity(msgspec.Struct, gc=False):
    cost_plus: Annotated[dict[elements.Name, elements.Quantity], _PER_DIM]
    pods: elements.Pods
    measured: bool = True


_Classes = Annotated[dict[elements.ClassName, _ClassCapacity], Meta(max_length=fields.CLASSES_MAX)]


class _Advertisement(elements.Message, kw_only=True, gc=False):
    node: elements.ObjectName
    sampled_at: elements.Int64
    capacity: Annotated[float, Meta(ge=0.0, le=fields.PODS_MAX)]
    capacity_sd: Annotated[float, Meta(ge=0.0, le=_SIGNAL_MAX)]
    signal: _Signal
    baseline: elements.Estimates
    cost: elements.Estimates
    pods: elements.Pods
    covers: Annotated[frozenset[elements.Uid], Meta(max_length=_COVERS_MAX)]
    mode: messages.Mode
    usage: _Shares
    parts: _Shares
    direction: Annotated[dict[elements.Name, _Signal], _PER_DIM]
    bottleneck: elements.Name | None = None
    headroom: Annotated[dict[elements.Name, elements.SignedQuantity], _PER_DIM] | None = None
    classes: _Classes | None = None
    limit: elements.Pods | None = None
    ceiling: _Shares | None = None


_DECODER = schemas.Decoder(_Advertisement, is_json=True)


def encode_advertisement(advertisement: messages.Advertisement) -> bytes:
    """Return the bytes of an advertisement without the classes that are too many for readers, or too large.

    Left out are those with fewest Pods, then those with the longest names: for readers they are new classes.
    """
    if advertisement.classes is not None and len(advertisement.classes) > fields.CLASSES_MAX:
        advertisement = advertisement._replace(classes=_most(advertisement.classes))
    payload = _format(advertisement)
    over_bytes = len(payload) - codec.PAYLOAD_MAX_BYTES
    if over_bytes <= 0 or advertisement.classes is None:
        return payload
    kept = elements.fitting(
        advertisement.classes, over_bytes, lambda name, item: len(codec.format_json({name: _format_class(item)})) - 1
    )
    return _format(advertisement._replace(classes=kept))


def _most(classes: Mapping[str, messages.ClassCapacity]) -> dict[str, messages.ClassCapacity]:
    """Return as many classes as readers take, one of them what stands for all others."""
    pods = {name: item.pods for name, item in classes.items() if name != messages.NEW_CLASS}
    kept = {messages.NEW_CLASS, *names.largest(pods, fields.CLASSES_MAX - 1)}
    return {name: item for name, item in classes.items() if name in kept}


def _format(a: messages.Advertisement) -> bytes:
    values: dict[str, object] = {
        "node": a.node,
        **elements.format_header(boot=a.boot, seq=a.seq, ts_ns=a.ts_ns),
        "sampled_at": a.sampled_at_ns,
        "capacity": a.capacity,
        "capacity_sd": a.capacity_sd,
        "bottleneck": a.bottleneck,
        "mode": a.mode.value,
        "signal": a.signal,
        "pods": a.pods,
        "limit": a.limit,
        "usage": dict(a.usage),
        "parts": dict(a.parts),
        "direction": dict(a.direction),
        "baseline": elements.format_estimates(a.baseline),
        "cost": elements.format_estimates(a.cost),
        "covers": sorted(a.covers),
    }
    if a.headroom is not None:
        values["headroom"] = dict(a.headroom)
    if a.ceiling is not None:
        values["ceiling"] = dict(a.ceiling)
    if a.classes is not None:
        values["classes"] = {name: _format_class(item) for name, item in a.classes.items()}
    return codec.format_json(values)


def _format_class(item: messages.ClassCapacity) -> dict[str, object]:
    found: dict[str, object] = {"cost_plus": dict(item.cost_plus), "pods": item.pods}
    return found if item.measured else {**found, "measured": False}


def decode_advertisement(payload: bytes, *, subject: str) -> messages.Advertisement:
    """Return the advertisement in `payload`. Raises `MessageError` if anything in it is wrong."""
    a = _DECODER.read(payload)
    elements.check_version(a)
    elements.check_writer("node", a.node, subject)
    # Only these can stand for characters that are not printable: JSON has no other control characters.
    if not payload.isascii() or b"\\" in payload or b"\x7f" in payload:
        _check_texts(a)
    return messages.Advertisement(
        node=a.node, boot=a.boot, seq=a.seq, ts_ns=a.ts, sampled_at_ns=a.sampled_at, capacity=a.capacity,
        capacity_sd=a.capacity_sd, bottleneck=a.bottleneck, signal=a.signal,
        baseline=elements.read_estimates(a.baseline), cost=elements.read_estimates(a.cost), pods=a.pods,
        covers=a.covers, mode=a.mode, usage=_clipped(a.usage), parts=_clipped(a.parts), direction=a.direction,
        headroom=a.headroom,
        classes=None if a.classes is None else _classes(a.classes), limit=a.limit,
        ceiling=None if a.ceiling is None else _clipped(a.ceiling),
    )  # fmt: skip


def _check_texts(a: _Advertisement) -> None:
    """Raise `MessageError` if a text has a character that is not printable."""
    texts: dict[str, Iterable[str]] = {
        "usage": a.usage,
        "parts": a.parts,
        "direction": a.direction,
        "baseline": a.baseline,
        "cost": a.cost,
        "covers": a.covers,
        "headroom": a.headroom or (),
        "ceiling": a.ceiling or (),
        "bottleneck": (a.bottleneck or "",),
    }
    if a.classes is not None:
        texts["classes"] = [*a.classes, *(name for item in a.classes.values() for name in item.cost_plus)]
    for path, found in texts.items():
        elements.check_printable(path, found)


def _clipped(shares: dict[str, float]) -> dict[str, float]:
    for share in shares.values():
        if not 0.0 <= share <= 1.0:
            return {name: min(max(share, 0.0), 1.0) for name, share in shares.items()}
    return shares


def _classes(classes: Mapping[str, _ClassCapacity]) -> dict[str, messages.ClassCapacity]:
    return {name: messages.ClassCapacity(item.cost_plus, item.pods, item.measured) for name, item in classes.items()}
