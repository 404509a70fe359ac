"""`carico status` as text."""

from typing import Any

from carico_cli.clusters import local_services
from carico_cli.output import formats, words
from carico_core.domain import amounts, names
from carico_local.cluster import state

# A screenful; a cluster of played nodes has thousands.
_NODES_SHOWN = 40
NOT_RUNNING = "not running"
LEASE = "carico-scheduler"


def text(view: dict[str, Any], *, now_ns: int, wide: bool = False) -> str:
    """Return what `carico status` shows of its JSON."""
    unready = [] if view["phase"] == NOT_RUNNING else local_services.unready(view["services"], view["name"])
    is_half = unready and view["phase"] == state.Phase.READY.value
    lines = [f"cluster {view['name']}: {'up, but not everything is ready' if is_half else view['phase']}"]
    if view["failure"]:
        lines.append(f"failed: {view['failure']}")
    if view["phase"] == NOT_RUNNING:
        lines.append(f"it ended without `carico down`: start it again with `carico up --name {view['name']}`,")
        lines.append(f"or remove what it left with `carico down --name {view['name']}`")
    lines += ["", *formats.lines(view["services"], ("name", "ready", "pid", "restarts"), "SERVICE")]
    lines += [f"not ready: {each.names} ({each.why}): {each.do}" for each in unready]
    lines += [*_leader_line(view), *_scheduler_lines(view)]
    if view["moves_paused"]:
        resume = f"`carico reschedule resume --name {view['name']}`"
        lines += words.paragraph(f"rescheduler: moves are {view['moves_paused']}: {resume}", "")
    lines += _node_lines(view["nodes"], wide=wide)
    if view["jobs"]:
        lines += [
            "",
            *formats.lines(view["jobs"], ("name", "pods", "pending", "running", "succeeded", "failed"), "JOB"),
        ]
    if view["api_trouble"] is not None:
        unknown = f"jobs and waiting Pods: not known: Kubernetes API: {view['api_trouble']}"
        lines += ["", *words.paragraph(unknown, "")]
    lines += _waiting_line(view)
    lines += [
        f"crashed: {crash['service']} ({crash['how']}), {formats.duration((now_ns - crash['at_ns']) / 1e9)} ago"
        for crash in view["crashes"]
    ]
    lines += [f"note: {note}" for note in view["notes"]]
    return "\n".join(lines)


def _node_lines(nodes: list[dict[str, Any]], *, wide: bool) -> list[str]:
    if not nodes:
        return []
    more = ("free", "cpu", "memory", "bottleneck", "age") if wide else ()
    columns = ("name", "freshness", "pods", "capacity", "mode", "reserved", *more)
    shown = [
        {
            **node, "capacity": _capacity(node), "free": formats.number(node["free"], 1), "cpu": _percent(node["cpu"]),
            "memory": _percent(node["memory"]), "age": formats.duration(node["age_s"]),
        }
        for node in nodes[: None if wide else _NODES_SHOWN]
    ]  # fmt: skip
    lines = ["", *formats.lines(shown, columns, "NODE")]
    if len(nodes) > len(shown):
        fresh = sum(node["freshness"] == "fresh" for node in nodes)
        left = len(nodes) - len(shown)
        lines.append(f"... and {left} more (-o wide shows all); {fresh} of all {len(nodes)} are fresh")
    return lines


def _waiting_line(view: dict[str, Any]) -> list[str]:
    waiting = view["waiting"]
    if waiting is None or not waiting["pods"]:
        return []
    line = f"waiting: {amounts.plural(waiting['pods'], 'Pod')}"
    longest = waiting["longest"]
    if longest is not None:
        why = f": {longest['why']}" if longest["why"] else ""
        line += f"; {longest['namespace']}/{longest['name']} for {formats.duration(longest['waited_s'])}{why}"
    return ["", *words.paragraph(line, "")]


def _leader_line(view: dict[str, Any]) -> list[str]:
    leader = view["leader"]
    if leader is None:
        return []
    return [f"leader: {leader}, which holds the Lease {LEASE}" if leader else f"leader: none holds the Lease {LEASE}"]


def _scheduler_lines(view: dict[str, Any]) -> list[str]:
    if not view["schedulers"]:
        return []
    names_shown = names.shown_of([row["name"] for row in view["schedulers"]])
    shown = [
        {
            **row, "name": names_shown[row["name"]], "share": _percent(row["share"]),
            "view": formats.duration(row["view_age_s"]),
        }
        for row in view["schedulers"]
    ]  # fmt: skip
    columns = ("name", "share", "committed", "conflicts", "requeued", "view")
    why = [f"takes no Pods: {row['name']}: {row['why_not']}" for row in shown if row["why_not"]]
    return ["", *formats.lines(shown, columns, "SCHEDULER"), *why]


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{share:.0%}"


def _capacity(node: dict[str, Any]) -> str | None:
    """Return the capacity as `carico top` and `explain` show it; None where the node has advertised none."""
    if node["capacity"] is None:
        return None
    return f"{amounts.pods_with_sd(node['capacity'], node['capacity_sd'])} Pods"
