"""Advertisements on `carico.v1.capacity.<node>`: JSON, because people read them with `nats sub`."""

from collections.abc import Mapping

from carico_core.domain import messages
from carico_core.wire import codec, fields, header

# Kubernetes UIDs are UUIDs (36 characters); those of static Pods are hashes (32).
_UID_MAX = 64
# What fits into 64 KiB is about 1,680; a Pod limit plus 256 is far below (messages.md).
_COVERS_MAX = 4096
_MODES = frozenset(mode.value for mode in messages.Mode)
# Usage is a share, 0 to 1: rounding of a filter may overshoot by this much, and is clipped.
_SHARE_ROUNDING = 1e-6
# Signals and directions are in full nodes; this is a bound of plausibility.
_SIGNAL_MAX = 1e9


def encode_advertisement(advertisement: messages.Advertisement) -> bytes:
    """The bytes of an advertisement."""
    a = advertisement
    values: dict[str, object] = {
        "node": a.node,
        **header.format_header(boot=a.boot, seq=a.seq, ts_ns=a.ts_ns),
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
        "baseline": _format_estimates(a.baseline),
        "cost": _format_estimates(a.cost),
        "covers": sorted(a.covers),
    }
    if a.headroom is not None:
        values["headroom"] = dict(a.headroom)
    if a.classes is not None:
        values["classes"] = {
            name: {"cost_plus": dict(item.cost_plus), "pods": item.pods} for name, item in a.classes.items()
        }
    return codec.format_json(values)


def decode_advertisement(payload: bytes, *, subject: str) -> messages.Advertisement:
    """The advertisement in `payload`. Raises `MessageError` for whatever is wrong with it."""
    message = codec.parse_json(payload)
    origin = header.parse_header(message)
    return messages.Advertisement(
        node=header.parse_writer(message, "node", subject),
        boot=origin.boot,
        seq=origin.seq,
        ts_ns=origin.ts_ns,
        sampled_at_ns=message.integer("sampled_at", maximum=fields.INT64_MAX),
        capacity=message.number("capacity", maximum=fields.PODS_MAX),
        capacity_sd=message.number("capacity_sd", maximum=_SIGNAL_MAX),
        bottleneck=message.text("bottleneck", maximum=fields.NAME_MAX) if message.has("bottleneck") else None,
        signal=message.number("signal", minimum=-_SIGNAL_MAX, maximum=_SIGNAL_MAX),
        baseline=message.estimates("baseline"),
        cost=message.estimates("cost"),
        pods=message.integer("pods", maximum=int(fields.PODS_MAX)),
        covers=frozenset(message.texts("covers", maximum=_UID_MAX, count=_COVERS_MAX)),
        mode=messages.Mode(message.choice("mode", _MODES)),
        usage=_parse_shares(message, "usage"),
        parts=_parse_shares(message, "parts"),
        direction=message.number_map("direction", minimum=-_SIGNAL_MAX, maximum=_SIGNAL_MAX),
        headroom=_parse_headroom(message),
        classes=message.members("classes", _parse_class) if message.has("classes") else None,
        limit=message.integer("limit", maximum=int(fields.PODS_MAX)) if message.has("limit") else None,
    )


def _format_estimates(estimates: Mapping[str, messages.Estimate]) -> dict[str, object]:
    return {name: {"mean": estimate.mean, "sd": estimate.sd} for name, estimate in estimates.items()}


def _parse_shares(message: fields.Fields, name: str) -> dict[str, float]:
    shares = message.number_map(name, minimum=-_SHARE_ROUNDING, maximum=1.0 + _SHARE_ROUNDING)
    return {key: min(max(share, 0.0), 1.0) for key, share in shares.items()}


def _parse_headroom(message: fields.Fields) -> dict[str, float] | None:
    if not message.has("headroom"):
        return None
    return message.number_map("headroom", minimum=-fields.QUANTITY_MAX, maximum=fields.QUANTITY_MAX)


def _parse_class(item: fields.Fields) -> messages.ClassCapacity:
    cost_plus = item.number_map("cost_plus", maximum=fields.QUANTITY_MAX)
    return messages.ClassCapacity(cost_plus=cost_plus, pods=item.integer("pods", maximum=int(fields.PODS_MAX)))
