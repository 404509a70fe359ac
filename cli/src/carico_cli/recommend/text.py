"""Recommendations for people: a table of classes, or one class with its distribution. Pure."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from carico_cli.output import formats, words
from carico_cli.recommend import manifests
from carico_core.domain import amounts

Row = Mapping[str, Any]
_SHARES = ("mean", "p50", "p90", "p95", "p99", "peak")
_DASH = "-"
# Classes that are named one by one; -o wide names all.
_SHOWN = 5
MEBIBYTE = 2.0**20
# From this on, memory in use is shown in steps of a request, too.
_WHOLE_FROM = 10 * MEBIBYTE
# Steps of a request; less than one is shown as none.
_STEPS: Mapping[str, float] = {"cpu": 1e-3, "memory": MEBIBYTE}


def table(rows: Sequence[Row], *, now_ns: int, wide: bool = False) -> str:
    """Return a line for each class, what its flags mean, and what all of it would save.

    wide: show whole names, and name every flagged class.
    """
    shown = None if wide else _SHOWN
    head = ("CLASS", "CPU NOW", "CPU", "MEM NOW", "MEM", "PODS", "NODES", "SINCE", "SURE")
    ordered = sorted(rows, key=lambda row: formats.natural(row["class"]))
    lines = formats.aligned(head, [_cells(row, now_ns) for row in ordered], width=None if wide else words.WIDTH)
    lines += ["", *words.paragraph("NOW: requested today. Limits: memory as its request, CPU none.", "")]
    lines += _savings(rows)
    found = {flag for row in rows for flag in row["flags"]}
    contradicted = [row for row in ordered if row["contradicts"]]
    if found or contradicted:
        lines += words.paragraph("! do not apply without a look (-o patch refuses):", "")
        for flag, meaning in manifests.FLAGS.items():
            named = [row["class"] for row in ordered if flag in row["flags"]]
            if flag in found:
                lines += words.paragraph(f"{_names(named, shown)}: {meaning}")
        for row in contradicted[:shown]:
            lines += words.paragraph(f"{row['class']}: {'; '.join(row['contradicts'])}")
        if len(contradicted) > len(contradicted[:shown]):
            lines += words.paragraph(f"{len(contradicted) - _SHOWN} more are refused (-o wide names all)")
    return "\n".join(lines)


def detail(row: Row, *, now_ns: int) -> str:
    """Return one class with its distribution."""
    since = formats.duration(max(now_ns - row["since_ns"], 0) / 1e9)
    nodes = f"{'at least ' if row['nodes_at_least'] else ''}{amounts.plural(row['nodes'], 'node')}"
    lines = words.paragraph(
        f"{row['class']}: {amounts.plural(row['pods'], 'Pod')} on {nodes} since {since} ago "
        f"({row['running']} running, {row['failed']} failed), measured for "
        f"{formats.duration(row['measured_s'])}, all Pods added up; confidence {row['confidence']}",
        "",
    )
    head = ("", "NOW", "REQUEST", "LIMIT", *(share.upper() for share in _SHARES))
    lines += ["", *formats.aligned(head, [_dimension(row, dim) for dim in ("cpu", "memory")])]
    lines += _containers(row)
    lines += [f"{dim}: costs {amounts.text_with_sd(dim, **each)} a Pod" for dim, each in row["further"].items()]
    lines.append("")
    lines += _interval(row)
    lines += words.paragraph(
        f"memory: the next Pod's peak is above the highest seen with probability {row['memory_risk']:.0%}", ""
    )
    if row["images"] > 1:
        lines += words.paragraph(
            f"Pods of {row['images']} sets of images run: the amounts are for all of them, by the largest peak of "
            "memory and the CPU of all together",
            "",
        )
    lines += _savings([row])
    for flag in row["flags"]:
        kinds = row["kinds"] if flag == "two_kinds" else None
        levels = (
            "" if kinds is None else f" (CPU about {' and '.join(amounts.quantity('cpu', each) for each in kinds)})"
        )
        lines += words.paragraph(f"! {manifests.FLAGS[flag]}{levels}", "")
    for each in row["contradicts"]:
        lines += words.paragraph(f"! {each}", "")
    return "\n".join(lines)


def used(dim: str, value: float) -> str:
    """Return an amount in use: as a request is written, but little memory with a decimal, as the step would hide it.

    >>> used("memory", 2.18 * MEBIBYTE), used("memory", 10.2 * MEBIBYTE), used("cpu", 0.0513)
    ('2.2Mi', '11Mi', '52m')
    """
    is_little = dim == "memory" and value < _WHOLE_FROM
    return f"{amounts.number(value / MEBIBYTE, 1)}Mi" if is_little else amounts.quantity(dim, value)


def _interval(row: Row) -> list[str]:
    """Return between which amounts the percentile of CPU is."""
    if row["cpu_bounds"] is None:
        return []
    low, high = (amounts.quantity("cpu", each) for each in row["cpu_bounds"])
    # Of few Pods, none need have been above the percentile.
    is_open = row["cpu_bounds"][1] >= row["usage"].get("cpu", {}).get("peak", math.inf)
    upper = f"at least {low} (too few Pods for an upper end: {high} is the most seen)"
    found = upper if is_open else f"{low} to {high}"
    return words.paragraph(f"CPU before the margin: {found} with 95% probability, by the Pods seen", "")


def _cells(row: Row, now_ns: int) -> tuple[str, ...]:
    nodes = f"{row['nodes']}{'+' if row['nodes_at_least'] else ''}"
    since = formats.duration(max(now_ns - row["since_ns"], 0) / 1e9)
    sure = f"{row['confidence']}{' !' if row['flags'] or row['contradicts'] else ''}"
    return (
        row["class"], _amount(row["requested"], "cpu"), _amount(row["requests"], "cpu"),
        _amount(row["requested"], "memory"), _amount(row["requests"], "memory"), str(row["pods"]), nodes, since, sure,
    )  # fmt: skip


def _dimension(row: Row, dim: str) -> tuple[str, ...]:
    usage = row["usage"].get(dim, {})
    found = [_amount(row[field], dim) for field in ("requested", "requests", "limits")]
    return (dim, *found, *(_amount(usage, share, dim, used) for share in _SHARES))


def _amount(
    found: Mapping[str, float | None], key: str, dim: str | None = None,
    write: Callable[[str, float], str] = amounts.quantity,
) -> str:  # fmt: skip
    value = found.get(key)
    return _DASH if value is None else write(dim or key, value)


def _containers(row: Row) -> list[str]:
    """Return what each container of a Pod with several should request."""
    found: Mapping[str, Any] = row["of_containers"]
    fields = (("requests", amounts.quantity), ("peaks", used))
    cells = [
        (name, *(_amount(each[field], dim, None, write) for dim in ("cpu", "memory") for field, write in fields))
        for name, each in found.items()
    ]
    return ["", *formats.aligned(("CONTAINER", "CPU", "PEAK", "MEM", "PEAK"), cells)] if cells else []


def _savings(rows: Sequence[Row]) -> list[str]:
    """Return what the Pods that run now would request less, or more, of what they request today."""
    saved: dict[str, float] = {}
    for row in rows:
        for dim, value in row["saves"].items():
            saved[dim] = saved.get(dim, 0.0) + value
    parts = []
    for dim, value in saved.items():
        if abs(value) < _STEPS[dim]:
            continue
        named = "CPU" if dim == "cpu" else dim
        parts.append(f"{amounts.quantity(dim, abs(value))} {'less' if value >= 0.0 else 'more'} {named}")
    return words.paragraph(f"Pods that run now would request {' and '.join(parts)}.", "") if parts else []


def _names(named: Sequence[str], shown: int | None) -> str:
    rest = len(named) - len(named[:shown])
    return ", ".join(named[:shown]) + (f" and {rest} more (-o wide names all)" if rest else "")
