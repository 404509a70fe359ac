"""Plans and moves of a running cluster for people. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from carico_cli.live import addresses
from carico_cli.output import formats, words
from carico_core.domain import amounts

Row = Mapping[str, Any]
# Nodes, moves and reasons of a table unless -o wide asks for all.
_ROWS = 20
_BAR = 20


def plan(answer: Row, *, is_wide: bool, at: addresses.Address = addresses.OF_SHELL) -> str:
    """Return the moves of a plan in order, the nodes before and after, and what stays and why."""
    found = answer["plan"]
    lines = [*_moves(found), "", *_nodes(found, is_wide), "", *_totals(found), *_gaps(found)]
    lines += _left_out(found["left_out"], is_wide)
    lines += _skipped(found["skipped"], found["skipped_pods"], is_wide)
    # What is planned now may still wait.
    return "\n".join([*lines, "", *standing(answer, at), *(rests(answer) if found["moves"] else [])])


def _moves(found: Row) -> list[str]:
    if not found["moves"]:
        return words.paragraph(f"nothing to move: {found['verdict']}", "")
    rows = [
        (
            str(number), each["pod"], each["from"], each["to"], f"{each['gain']:.2f}",
            f"{each['cost_task_s']:.1f}", _pays_back(each), each["why"],
        )
        for number, each in enumerate(found["moves"], 1)
    ]  # fmt: skip
    head = ("#", "POD", "FROM", "TO", "GAIN", "COST", "PAYS BACK", "WHY")
    note = (
        "GAIN: tasks above the ceiling that end, and traffic between nodes in such tasks. COST: of the new Pod's "
        "start, in seconds of a task."
    )
    return [*formats.aligned(head, rows, left=None), *words.paragraph(note, "")]


def _pays_back(move: Row) -> str:
    # What makes room for another move gains nothing by itself.
    return "-" if move["pays_back_s"] is None else formats.duration(move["pays_back_s"])


def _nodes(found: Row, is_wide: bool) -> list[str]:
    """Return the nodes whose load or Pods change, the most loaded first; all with -o wide."""
    changed = [each for each in found["nodes"] if is_wide or each["pods"]["before"] != each["pods"]["after"]]
    shown = sorted(changed, key=lambda each: -each["load"]["before"])[: None if is_wide else _ROWS]
    limits = [each["saturation"] for each in shown]
    top = max([*limits, *(max(each["load"].values()) for each in shown)], default=1.0)
    rows = [
        (
            each["node"], _bar(each["load"]["before"], top, each["saturation"]), f"{each['load']['before']:.2f}",
            _bar(each["load"]["after"], top, each["saturation"]), f"{each['load']['after']:.2f}",
            f"{each['pods']['before']} -> {each['pods']['after']}",
        )
        for each in shown
    ]  # fmt: skip
    if not rows:
        return ["no node changes"]
    range_text = " to ".join(dict.fromkeys(f"{each:.2f}" for each in (min(limits), max(limits))))
    note = f"load: runnable tasks per core; a node is overloaded above {range_text} (x)"
    return [*formats.aligned(("NODE", "BEFORE", "", "AFTER", "", "PODS"), rows, left=None), *words.paragraph(note, "")]


def _bar(load: float, top: float, saturation: float) -> str:
    """Return a bar; what is above saturation is drawn as x.

    >>> _bar(2.0, 2.0, 1.0), _bar(0.5, 2.0, 1.0)
    ('==========xxxxxxxxxx', '=====')
    """
    filled, limit = round(load / top * _BAR), round(saturation / top * _BAR)
    return "=" * min(filled, limit) + "x" * max(filled - limit, 0)


def _totals(found: Row) -> list[str]:
    traffic, overload = found["traffic_bytes"], found["overload_tasks"]
    change = (
        f"traffic between nodes {amounts.rate(traffic['before'])} -> {amounts.rate(traffic['after'])}"
        if found["has_traffic"]
        else "no traffic between Pods (docs/rescheduling.md)"
    )
    return words.paragraph(f"{change}; overload {overload['before']:.2f} -> {overload['after']:.2f} tasks", "")


def _gaps(found: Row) -> list[str]:
    """Return what loads and traffic miss."""
    lines = []
    if found["unresolved_bytes"] >= 1.0:
        unresolved = amounts.rate(found["unresolved_bytes"])
        lines += words.paragraph(f"left out: {unresolved} with ends that are no known Pods (outside, or gone)", "")
    by_reason: dict[str, list[Row]] = {}
    for each in found["skipped_readings"]:
        by_reason.setdefault(each["why"], []).append(each)
    for why, rows in by_reason.items():
        count, nodes = sum(each["count"] for each in rows), amounts.plural(len(rows), "node")
        often = "once" if count == 1 else f"{count:,} times"
        such = f"{why} {often} since agents started, on {nodes}, such as {rows[0]['node']}"
        lines += words.paragraph(f"left out: readings of traffic: {such} (docs/rescheduling.md)", "")
    for each in found["dropped_messages"]:
        lines += words.paragraph(f"dropped messages of {each['kind']}: {each['count']:,} ({each['why']})", "")
    return lines


def _left_out(rows: Sequence[Row], is_wide: bool) -> list[str]:
    lines = []
    for each in rows[: None if is_wide else _ROWS]:
        to = f" to {each['to']}" if each["to"] else ""
        lines += words.paragraph(f"not moved: {each['pod']}{to}: {each['detail']}", "")
    return [*lines, *([f"not moved: {len(rows) - _ROWS} more (-o wide)"] if len(rows) > _ROWS and not is_wide else [])]


def _skipped(rows: Sequence[Row], counts: Mapping[str, int], is_wide: bool) -> list[str]:
    """Return how many Pods may not move, by reason with an example; with -o wide each that the answer lists."""
    if is_wide:
        listed = [line for each in rows for line in words.paragraph(f"stays: {each['pod']}: {each['detail']}", "")]
        more = sum(counts.values()) - len(rows)
        return [*listed, *([f"stay: {amounts.plural(more, 'Pod')} more, not listed"] if more > 0 else [])]
    examples = {each["why"]: each for each in reversed(rows)}
    lines = []
    for why, count in sorted(counts.items(), key=lambda each: -each[1]):
        example = examples.get(why)
        such = "" if example is None else f", such as {example['pod']}: {example['detail']}"
        lines += words.paragraph(f"stay: {amounts.plural(count, 'Pod')} ({why}){such}", "")
    return lines


def standing(answer: Row, at: addresses.Address) -> list[str]:
    """Return how things stand: under way, paused, or why nothing is moved. at: the cluster, which advice names."""
    current = answer.get("current")
    if current is not None:
        return words.paragraph(f"under way: {move(current)}", "")
    if answer["paused"]:
        return words.paragraph(f"moves are {answer['paused']}: `{at.carico('reschedule resume')}`", "")
    how = "by itself" if answer["automatic"] else f"on request (`{at.carico('reschedule --apply')}`)"
    return words.paragraph(f"the rescheduler moves {how}, by {answer['mode']}", "")


def rests(answer: Row) -> list[str]:
    """Return why the last round moved nothing."""
    return words.paragraph(f"at rest: {answer['rests']}", "") if answer["rests"] else []


def move(each: Row) -> str:
    """Return one move in a line."""
    took = "" if each["took_s"] is None else f" after {formats.duration(each['took_s'])}"
    detail = f" ({each['detail']})" if each["detail"] else ""
    now = f"; now {each['successor']}" if each["successor"] and each["state"] == "moved" else ""
    return f"{each['pod']}: {each['from']} -> {each['to']}: {each['state']}{took}{detail}; {each['why']}{now}"
