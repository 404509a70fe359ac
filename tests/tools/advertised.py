"""Advertisements of nodes that have no agent."""

from typing import Any

from carico_core.domain import messages


def advertisement(
    node: str, *, room: float, boot: str, seq: int, at_ns: int, covers: frozenset[str] = frozenset(),
    cores: float | None = None, **more: Any,
) -> messages.Advertisement:  # fmt: skip
    """An advertisement with room for that many more Pods; `more`: fields that differ.

    `cores`: headroom for one class, whose Pods cost a core each, as our own modes have it; None: a capacity alone.
    """
    values: dict[str, Any] = {
        "node": node, "boot": boot, "seq": seq, "ts_ns": at_ns, "sampled_at_ns": at_ns, "capacity": room,
        "capacity_sd": 0.1, "bottleneck": "cpu", "signal": 1.0, "baseline": {}, "cost": {}, "pods": len(covers),
        "covers": covers, "mode": messages.Mode.MEASURED, "usage": {"cpu": 0.1}, "parts": {}, "direction": {},
    } | more  # fmt: skip
    if cores is not None:
        one = messages.ClassCapacity(cost_plus={"cpu": 1.0}, pods=values["pods"])
        values = {"headroom": {"cpu": cores}, "classes": {messages.ANY_CLASS: one}} | values
    return messages.Advertisement(**values)
