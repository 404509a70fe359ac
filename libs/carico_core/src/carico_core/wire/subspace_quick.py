"""The short way through a local subspace, for an aggregator that takes 20,000 a second: a third of the time.

It takes what is as nearly every message is, and gives None for whatever is not: then `subspace` reads the message field
by field and says what is wrong with it. A test holds both to the same verdict and the same record, for whatever bytes.
"""

import math
import re
import struct
from typing import Any

import numpy as np

from carico_core.domain import errors, messages
from carico_core.wire import fields, subjects

_BOOT = re.compile(r"[0-9a-f]{16}")


def read(
    values: dict[Any, Any], *, subject: str, sigma_max: float, unit_max: float, cores_max: float
) -> messages.LocalSubspace | None:
    """The record, or None where anything about the message is unusual."""
    try:
        node = subjects.node_of(subject)
    except errors.BadName:
        return None
    get = values.get
    boot: Any = get("boot")
    seq: Any = get("seq")
    ts_ns: Any = get("ts")
    sampled_ns: Any = get("sampled_at")
    samples: Any = get("samples")
    if type(boot) is not str or _BOOT.fullmatch(boot) is None or get("node") != node or type(get("v")) is not int:
        return None
    weight, peak = get("weight"), get("peak_pods_per_core")
    if get("v") != messages.SCHEMA_VERSION or not _are_counts(seq, ts_ns, sampled_ns, samples):
        return None
    if type(weight) is not float or type(peak) is not float:
        return None
    if not (0.0 <= weight <= cores_max and 0.0 <= peak <= fields.PODS_MAX):
        return None
    listed = get("dims")
    if type(listed) is not list or set(map(type, listed)) != {str}:
        return None
    dims = tuple(listed)
    if not fields.are_dims(dims):
        return None
    sigma = _array(get("sigma"), 1, 0.0, sigma_max)
    u = _array(get("u"), 2, -unit_max, unit_max)
    scale = _array(get("scale"), 1, 0.0, fields.QUANTITY_MAX)
    evidence = _evidence(get("evidence"))
    if u is None or sigma is None or scale is None or evidence is None:
        return None
    count, rank = len(dims), sigma.shape[0]
    if u.shape != (count, rank) or scale.shape[0] != count or not 1 <= rank <= count or 0.0 in scale.tolist():
        return None
    return messages.LocalSubspace(
        node=node, boot=boot, seq=seq, ts_ns=ts_ns, sampled_at_ns=sampled_ns, dims=dims, u=u, sigma=sigma,
        samples=samples, weight=weight, scale=scale, evidence=evidence, peak_pods_per_core=peak,
    )  # fmt: skip


def _are_counts(*values: Any) -> bool:
    return set(map(type, values)) == {int} and min(values) >= 0 and max(values) <= fields.INT64_MAX


def _array(value: object, rank: int, minimum: float, maximum: float) -> messages.Array | None:
    """A read-only array of `rank` dimensions over the message's own bytes."""
    if type(value) is not dict:
        return None
    shape, data = value.get("shape"), value.get("data")
    if type(shape) is not list or type(data) is not bytes or len(shape) != rank:
        return None
    count = 1
    for length in shape:
        if type(length) is not int or not 0 < length <= fields.DIMS_MAX:
            return None
        count *= length
    if len(data) != 8 * count:
        return None
    numbers = struct.unpack(f"<{count}d", data)
    if not math.isfinite(sum(numbers)) or min(numbers) < minimum or max(numbers) > maximum:
        return None
    return np.ndarray(shape, fields.FLOAT64, data)


def _evidence(value: object) -> dict[str, messages.ClassEvidence] | None:
    if type(value) is not dict or len(value) > fields.CLASSES_MAX:
        return None
    found = {}
    for name, item in value.items():
        if type(name) is not str or not fields.is_name(name, fields.CLASS_NAME_MAX) or type(item) is not dict:
            return None
        pods, cost, growth = item.get("pods"), _estimates(item.get("cost")), item.get("growth")
        # Lifetimes come with few messages: the long way reads them.
        if type(pods) is not int or not 0 <= pods <= fields.PODS_MAX or cost is None or "lifetime_s" in item:
            return None
        grown = {} if growth is None else _estimates(growth)
        if grown is None:
            return None
        found[name] = messages.ClassEvidence(pods=pods, cost=cost, growth=grown)
    return found


def _estimates(value: object) -> dict[str, messages.Estimate] | None:
    if type(value) is not dict or len(value) > fields.DIMS_MAX:
        return None
    found = {}
    for name, item in value.items():
        if type(name) is not str or not fields.is_name(name, fields.NAME_MAX) or type(item) is not dict:
            return None
        mean, sd = item.get("mean"), item.get("sd")
        if type(mean) is not float or type(sd) is not float:
            return None
        if not (-fields.QUANTITY_MAX <= mean <= fields.QUANTITY_MAX and 0.0 <= sd <= fields.QUANTITY_MAX):
            return None
        found[name] = messages.Estimate(mean=mean, sd=sd)
    return found
