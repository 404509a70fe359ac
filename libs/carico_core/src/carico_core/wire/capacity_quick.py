"""The short way through an advertisement, for a scheduler that takes 10,000 a second: a third of the time.

It takes what is as nearly every message is, and gives None for whatever is not: then `capacity` reads the message field
by field and says what is wrong with it. A test holds both to the same verdict and the same record, for whatever bytes.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from carico_core.domain import errors, messages
from carico_core.wire import fields, header, quick, subjects

# Kubernetes UIDs are UUIDs (36 characters); those of static Pods are hashes (32).
UID_MAX = 64
# What fits into 64 KiB is about 1,680; a Pod limit plus 256 is far below (messages.md).
COVERS_MAX = 4096
# Usage is a share, 0 to 1: rounding of a filter may overshoot by this much, and is clipped.
SHARE_ROUNDING = 1e-6
# Signals and directions are in full nodes; this is a bound of plausibility.
SIGNAL_MAX = 1e9
_MODES = {mode.value: mode for mode in messages.Mode}


def read(payload: bytes, subject: str) -> messages.Advertisement | None:
    """The advertisement in bytes that are not too many; None where anything about it is unusual."""
    try:
        return _read(orjson.loads(payload), subject)
    except (
        quick.Unusual,
        errors.BadName,
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        RecursionError,
        MemoryError,
    ):
        return None


def _read(values: dict[str, Any], subject: str) -> messages.Advertisement:
    node = subjects.node_of(subject)
    version, boot = values["v"], values["boot"]
    seq, ts_ns, sampled_ns, pods = values["seq"], values["ts"], values["sampled_at"], values["pods"]
    capacity, capacity_sd, signal = values["capacity"], values["capacity_sd"], values["signal"]
    bottleneck, limit, classes = values.get("bottleneck"), values.get("limit"), values.get("classes")
    if values["node"] != node or type(version) is not int or version != messages.SCHEMA_VERSION:
        raise quick.Unusual
    if type(boot) is not str or not header.is_boot(boot):
        raise quick.Unusual
    for count in (seq, ts_ns, sampled_ns):
        if type(count) is not int or not 0 <= count <= fields.INT64_MAX:
            raise quick.Unusual
    if not (type(capacity) is type(capacity_sd) is type(signal) is float):
        raise quick.Unusual
    if not (0.0 <= capacity <= fields.PODS_MAX and 0.0 <= capacity_sd <= SIGNAL_MAX and abs(signal) <= SIGNAL_MAX):
        raise quick.Unusual
    if bottleneck is not None and not (type(bottleneck) is str and fields.is_name(bottleneck, fields.NAME_MAX)):
        raise quick.Unusual
    headroom = values.get("headroom")
    return messages.Advertisement(
        node=node, boot=boot, seq=seq, ts_ns=ts_ns, sampled_at_ns=sampled_ns, capacity=capacity,
        capacity_sd=capacity_sd, bottleneck=bottleneck, signal=signal,
        baseline=quick.estimates(values["baseline"]), cost=quick.estimates(values["cost"]),
        pods=_pods(pods), covers=_covers(values["covers"]), mode=_MODES[values["mode"]],
        usage=_shares(values["usage"]), parts=_shares(values["parts"]),
        direction=_numbers(values["direction"], -SIGNAL_MAX, SIGNAL_MAX),
        headroom=None if headroom is None else _numbers(headroom, -fields.QUANTITY_MAX, fields.QUANTITY_MAX),
        classes=None if classes is None else _classes(classes),
        limit=None if limit is None else _pods(limit),
    )  # fmt: skip


def _pods(value: object) -> int:
    """A number of Pods."""
    if type(value) is not int or not 0 <= value <= fields.PODS_MAX:
        raise quick.Unusual
    return value


def _covers(value: Any) -> frozenset[str]:
    """The UIDs, looked at together."""
    if type(value) is not list or len(value) > COVERS_MAX or not "".join(value).isprintable():
        raise quick.Unusual
    if value and not (all(value) and len(max(value, key=len)) <= UID_MAX):
        raise quick.Unusual
    return frozenset(value)


def _numbers(value: Any, least: float, most: float) -> dict[str, float]:
    """Dimension name -> number within bounds."""
    if type(value) is not dict or not fields.are_names(tuple(value)):
        raise quick.Unusual
    for number in value.values():
        if type(number) is not float or not least <= number <= most:
            raise quick.Unusual
    return value


def _shares(value: Any) -> dict[str, float]:
    shares = _numbers(value, -SHARE_ROUNDING, 1.0 + SHARE_ROUNDING)
    for share in shares.values():
        if not 0.0 <= share <= 1.0:
            return {name: min(max(share, 0.0), 1.0) for name, share in shares.items()}
    return shares


def _classes(value: Any) -> Mapping[str, messages.ClassCapacity]:
    if type(value) is not dict or len(value) > fields.CLASSES_MAX:
        raise quick.Unusual
    found = {}
    for name, item in value.items():
        if not fields.is_name(name, fields.CLASS_NAME_MAX) or type(item) is not dict:
            raise quick.Unusual
        cost_plus = _numbers(item["cost_plus"], 0.0, fields.QUANTITY_MAX)
        found[name] = messages.ClassCapacity(cost_plus=cost_plus, pods=_pods(item["pods"]))
    return found
