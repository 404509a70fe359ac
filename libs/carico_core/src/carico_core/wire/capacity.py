"""Advertisements on `carico.v1.capacity.<node>`: JSON, because people read them with `nats sub`."""

from collections.abc import Mapping

from carico_core.domain import messages
from carico_core.wire import capacity_quick, codec, fields, header

_MODES = frozenset(mode.value for mode in messages.Mode)


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
    found = capacity_quick.read(payload, subject) if len(payload) <= codec.PAYLOAD_MAX_BYTES else None
    return read_carefully(payload, subject=subject) if found is None else found


def read_carefully(payload: bytes, *, subject: str) -> messages.Advertisement:
    """The advertisement in `payload`, field by field. Raises `MessageError` for whatever is wrong with it."""
    message = codec.parse_json(payload)
    origin = header.parse_header(message)
    return messages.Advertisement(
        node=header.parse_writer(message, "node", subject),
        boot=origin.boot,
        seq=origin.seq,
        ts_ns=origin.ts_ns,
        sampled_at_ns=message.integer("sampled_at", maximum=fields.INT64_MAX),
        capacity=message.number("capacity", maximum=fields.PODS_MAX),
        capacity_sd=message.number("capacity_sd", maximum=capacity_quick.SIGNAL_MAX),
        bottleneck=message.text("bottleneck", maximum=fields.NAME_MAX) if message.has("bottleneck") else None,
        signal=message.number("signal", minimum=-capacity_quick.SIGNAL_MAX, maximum=capacity_quick.SIGNAL_MAX),
        baseline=message.estimates("baseline"),
        cost=message.estimates("cost"),
        pods=message.integer("pods", maximum=int(fields.PODS_MAX)),
        covers=frozenset(message.texts("covers", maximum=capacity_quick.UID_MAX, count=capacity_quick.COVERS_MAX)),
        mode=messages.Mode(message.choice("mode", _MODES)),
        usage=_parse_shares(message, "usage"),
        parts=_parse_shares(message, "parts"),
        direction=message.number_map(
            "direction", minimum=-capacity_quick.SIGNAL_MAX, maximum=capacity_quick.SIGNAL_MAX
        ),
        headroom=_parse_headroom(message),
        classes=message.members("classes", _parse_class) if message.has("classes") else None,
        limit=message.integer("limit", maximum=int(fields.PODS_MAX)) if message.has("limit") else None,
    )


def _format_estimates(estimates: Mapping[str, messages.Estimate]) -> dict[str, object]:
    return {name: {"mean": estimate.mean, "sd": estimate.sd} for name, estimate in estimates.items()}


def _parse_shares(message: fields.Fields, name: str) -> dict[str, float]:
    shares = message.number_map(
        name, minimum=-capacity_quick.SHARE_ROUNDING, maximum=1.0 + capacity_quick.SHARE_ROUNDING
    )
    return {key: min(max(share, 0.0), 1.0) for key, share in shares.items()}


def _parse_headroom(message: fields.Fields) -> dict[str, float] | None:
    if not message.has("headroom"):
        return None
    return message.number_map("headroom", minimum=-fields.QUANTITY_MAX, maximum=fields.QUANTITY_MAX)


def _parse_class(item: fields.Fields) -> messages.ClassCapacity:
    cost_plus = item.number_map("cost_plus", maximum=fields.QUANTITY_MAX)
    return messages.ClassCapacity(cost_plus=cost_plus, pods=item.integer("pods", maximum=int(fields.PODS_MAX)))
