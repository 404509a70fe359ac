"""How many more Pods of a kind fit, as text."""

from collections.abc import Mapping, Sequence
from typing import Any

from carico_cli.output import formats, words
from carico_core.domain import amounts

Row = Mapping[str, Any]
SHOWN = 30
# With a longer head, because of long names, each reason has a line of its own.
_HEAD_MOST = 68


def text(answer: Row, *, wide: bool = False) -> str:
    """Return the total, what limits it, and each node, in lines of at most 80 columns."""
    total = f"{'at least ' if answer['at_least'] else ''}{answer['total']}"
    rows = sorted(answer["per_node"], key=lambda each: (-each["fits"], formats.natural(each["node"])))
    shown = rows if wide else rows[:SHOWN]
    room = sum(1 for each in rows if each["fits"])
    kind = answer["of"][:1].upper() + answer["of"][1:]
    lines = words.paragraph(f"{kind}: {total} more fit, on {_of(room, answer)}", "")
    if not answer["is_measured"]:
        lines += words.paragraph("no node has measured its class yet: its cost is a cautious guess")
    limits = ", ".join(f"{what} on {count}" for what, count in answer["stopped_by"].items())
    if limits:
        lines += words.paragraph(f"limited by: {limits}")
    if rows:
        lines.append("")
        head, *rest = formats.aligned(("NODE", "FITS", "STATE"), [_row(each) for each in shown], width=words.WIDTH)
        lines.append(f"{head}  LIMITED BY" if len(head) <= _HEAD_MOST else head)
        for each, line in zip(shown, rest, strict=True):
            lines += _with_reason(line, each, len(head))
    left = answer["nodes"] - len(shown)
    if left:
        lines.append(f"... and {amounts.plural(left, 'node')} more (-o wide shows up to 1000)")
    return "\n".join(lines + _kinds(answer.get("kinds") or []) + words.behind(answer))


def _kinds(kinds: Sequence[Row]) -> list[str]:
    """Return how many of each class fit; the scheduler sends them where no kind was asked for."""
    rows = [
        (
            words.class_name(str(each["class"])),
            str(each["pods"]),
            str(each["total"]),
            each["stopped_by"] or "-",
        )
        for each in kinds
    ]
    headings = ("CLASS", "RUNNING", "MORE FIT", "MAINLY LIMITED BY")
    return ["", *formats.aligned(headings, rows, width=words.WIDTH)] if rows else []


def _of(room: int, answer: Row) -> str:
    at_least = "at least " if answer["left_off"] and room == len(answer["per_node"]) else ""
    return f"{at_least}{room} of {amounts.plural(answer['nodes'], 'node')}"


def _row(each: Row) -> tuple[str, str, str]:
    return (each["node"], str(each["fits"]), each["freshness"])


def _with_reason(line: str, each: Row, width: int) -> list[str]:
    reason = f"{each['stopped_by']}: {each['detail']}"
    first = f"{line.ljust(width)}  {reason}"
    return [first] if len(first) <= words.WIDTH else [line, *words.paragraph(reason, "    ")]
