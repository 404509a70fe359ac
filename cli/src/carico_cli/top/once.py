"""One picture as plain ASCII text, or as JSON for scripts (docs/top.md)."""

import math
from collections.abc import Mapping
from typing import Any

from carico_cli.live import members
from carico_cli.live import picture as pictures
from carico_cli.output import formats
from carico_cli.top.words import pod_words
from carico_core.domain import amounts, decision, messages
from carico_core.domain import names as domain_names
from carico_core.wire.kubernetes import instants

SCHEMA_VERSION = 1
DECISIONS_SHOWN = 10


def as_json(picture: pictures.Picture, *, name: str, with_pods: bool = False) -> dict[str, Any]:
    """Return the picture in the documented schema: units in the names, null where a value is not known."""
    return {
        "v": SCHEMA_VERSION,
        "cluster": name,
        "taken_at_ns": picture.taken_ns,
        "links": [{"name": link.name, "trouble": link.trouble} for link in picture.links],
        "nodes": [node_row(node) for node in picture.nodes],
        "waiting_pods": picture.waiting,
        "pods": pod_rows(picture) if with_pods else None,
        "jobs": [_job(job) for job in picture.jobs],
        "decisions": [_decision(found) for found in picture.decisions],
        "history": [_summary(each) for each in picture.summaries],
        "schedulers": members.rows(picture.members),
        "services": [_service(each) for each in picture.services or ()],
        "model": None if picture.model is None else _model(picture.model),
        "bus": {
            "messages_per_s": round(picture.heard_per_s, 3),
            "backlog_messages": picture.backlog,
            "dropped": dict(picture.dropped),
        },
    }


def as_text(picture: pictures.Picture, *, name: str, wide: bool = False, with_pods: bool = False) -> str:
    """Return the picture as tables. wide: more columns, and every known decision."""
    seen = as_json(picture, name=name, with_pods=with_pods)
    waits = f", {amounts.plural(picture.waiting, 'Pod')} waiting" if picture.waiting else ""
    lines = [f"cluster {name}{waits}"]
    lines += [f"{link['name']}: {link['trouble']}" for link in seen["links"] if link["trouble"]]
    lines += ["", *_node_lines(seen["nodes"], wide=wide)]
    if seen["jobs"]:
        counted = ("name", "pods", "pending", "starting", "running", "succeeded", "failed")
        lines += ["", *_lines(seen["jobs"], counted, "JOB")]
    if seen["pods"]:
        lines += ["", *_pod_lines(seen["pods"])]
    if seen["schedulers"]:
        lines += ["", *_scheduler_lines(seen["schedulers"])]
    if seen["services"]:
        lines += ["", *_service_lines(seen["services"])]
    if picture.decisions:
        lines += ["", "LAST DECISIONS"]
        lines += [_words(found) for found in picture.decisions[: None if wide else DECISIONS_SHOWN]]
    return "\n".join(lines)


def node_row(node: pictures.Node) -> dict[str, Any]:
    """Return one node in the schema."""
    said = node.advertisement
    found: dict[str, Any] = {
        "name": node.name,
        "state": node.state,
        "freshness": node.freshness.value,
        "age_s": rounded(node.age_s),
        "reserved": node.reserved,
        "free": rounded(node.free),
        "ready": node.ready,
        "schedulable": node.schedulable,
    }
    if said is None:
        # The same keys for every node, so that a script need not test for them.
        nothing = dict.fromkeys(
            ("pods", "capacity", "capacity_sd", "limit", "bottleneck", "mode", "signal", "headroom", "classes")
        )
        return {**found, **nothing, "usage": {}, "parts": {}, "baseline": {}, "cost": {}}
    return {
        **found,
        "pods": said.pods,
        "capacity": rounded(said.capacity),
        "capacity_sd": rounded(said.capacity_sd),
        "limit": said.limit,
        "bottleneck": said.bottleneck,
        "mode": said.mode.value,
        "signal": rounded(said.signal),
        "headroom": None if said.headroom is None else dict(said.headroom),
        "classes": None if said.classes is None else _classes(said.classes),
        "usage": dict(said.usage),
        "parts": dict(said.parts),
        "baseline": _estimates(said.baseline),
        "cost": _estimates(said.cost),
    }


def pod_rows(picture: pictures.Picture) -> list[dict[str, Any]]:
    """Return the Pods in the schema, in the picture's order."""
    table = pod_words.PodTable(picture)
    nodes = {node.name: node for node in picture.nodes}
    return [_pod(picture, table, nodes, pod) for pod in picture.pods]


def _pod(
    picture: pictures.Picture, table: pod_words.PodTable, nodes: Mapping[str, pictures.Node], pod: pictures.Pod
) -> dict[str, Any]:  # fmt: skip
    used = picture.load(pod)
    runs = pod.node is not None and pod.state is pictures.PodState.RUNNING
    cost = pod_words.cost_of(nodes.get(pod.node or ""), pod.pod_class) if runs else {}
    return {
        "uid": pod.uid, "namespace": pod.namespace, "name": pod.name, "job": pod.job, "class": pod.pod_class,
        "state": pod.state.value, "for_s": rounded(table.for_s(pod)), "node": pod.node, "priority": pod.priority,
        "before": table.before(pod), "why": picture.why(pod) or None,
        "uses": None
        if used is None
        else {"cores": used.cores, "waiting_tasks": used.waiting, "memory_bytes": used.memory_bytes},
        "class_cost": dict(cost) or None,
    }  # fmt: skip


def _node_lines(nodes: list[dict[str, Any]], *, wide: bool) -> list[str]:
    rows = [
        {**node, "CPU used": _percent(node["parts"], "cpu.utilisation"), "memory": _percent(node["usage"], "memory"),
         "pressure": _percent(node["parts"], "cpu.pressure"), "state": node["state"],
         "capacity": _pods(node["capacity"]), "sd": _pods(node["capacity_sd"]), "age": formats.duration(node["age_s"])}
        for node in nodes
    ]  # fmt: skip
    more = ("free", "bottleneck", "signal", "age") if wide else ()
    titles = ("name", "CPU used", "pressure", "memory", "pods", "capacity", "sd", "reserved", "state", "mode", *more)
    return _lines(rows, titles, "NODE")


def _scheduler_lines(schedulers: list[dict[str, Any]]) -> list[str]:
    shown = domain_names.shown_of([each["name"] for each in schedulers])
    rows = [
        {**each, "name": shown[each["name"]], "share": f"{each['share']:.0%}",
         "view": formats.duration(each["view_age_s"])}
        for each in schedulers
    ]  # fmt: skip
    titles = ("name", "share", "last_minute", "committed", "conflicts", "requeued", "view", "lease")
    return _lines(rows, titles, "SCHEDULER")


def _service_lines(services: list[dict[str, Any]]) -> list[str]:
    rows = [
        {**each, "ms": round(each["answered_s"] * 1e3, 1), "name": each["name"].removeprefix("carico-")}
        for each in services
    ]
    return _lines(rows, ("name", "instance", "ms", "requests", "errors"), "SERVICE")


def _pod_lines(pods: list[dict[str, Any]]) -> list[str]:
    rows = []
    for pod in pods:
        used = pod["uses"] or {}
        rows.append(
            {
                "name": f"{pod['namespace']}/{pod['name']}", "state": pod["state"],
                "for": formats.duration(pod["for_s"]), "node": pod["node"],
                "CPU": amounts.millicores(used["cores"]) if used else None,
                "memory": amounts.text("memory", used["memory_bytes"]) if used else None, "why": pod["why"],
            }
        )  # fmt: skip
    return _lines(rows, ("name", "state", "for", "node", "CPU", "memory", "why"), "POD")


def _estimates(found: Mapping[str, messages.Estimate]) -> dict[str, Any]:
    return {dim: {"mean": each.mean, "sd": each.sd} for dim, each in found.items()}


def _classes(found: Mapping[str, messages.ClassCapacity]) -> dict[str, Any]:
    return {name: {"pods": each.pods, "cost_plus": dict(each.cost_plus)} for name, each in found.items()}


def _job(job: pictures.Job) -> dict[str, Any]:
    created = "" if math.isinf(job.created_s) else instants.format_time(round(job.created_s * 1e9))
    return {
        "name": job.name, "created": created, "pods": job.pods, "pending": job.pending, "starting": job.starting,
        "running": job.running, "succeeded": job.succeeded, "failed": job.failed,
    }  # fmt: skip


def _decision(found: decision.Decision) -> dict[str, Any]:
    return {
        "id": found.id, "ts_ns": found.ts_ns, "namespace": found.namespace, "pod": found.pod, "uid": found.uid,
        "outcome": found.outcome.value, "node": found.node, "free": rounded(found.free),
        "threshold": found.threshold, "attempt": found.attempt, "waited_s": rounded(found.waited_s),
        "decided_us": found.decided_us, "refused": dict(found.refused), "message": found.message,
    }  # fmt: skip


def _summary(each: messages.ClusterSummary) -> dict[str, Any]:
    events = [
        {"at_ns": event.at_ns, "kind": event.kind, "about": event.about, "state": event.state} for event in each.events
    ]
    return {
        "at_ns": each.ts_ns, "span_s": each.span_s, "nodes": dict(each.nodes), "pods": each.pods,
        "capacity": each.capacity, "capacity_sd": each.capacity_sd,
        "usage": {dim: each.usage[dim]._asdict() for dim in each.usage}, "waiting": each.waiting,
        "oldest_s": each.oldest_s, "placed": each.placed, "placed_waited_s": each.placed_waited_s, "events": events,
        "events_left_off": each.left_off,
    }  # fmt: skip


def _service(each: pictures.Service) -> dict[str, Any]:
    return {
        "name": each.name, "instance": each.instance, "version": each.version, "requests": each.requests,
        "errors": each.errors, "last_error": each.last_error, "answered_s": round(each.answered_s, 6),
        "processing_s": None if each.processing_s is None else round(each.processing_s, 6),
    }  # fmt: skip


def _model(model: pictures.Model) -> dict[str, Any]:
    return {
        "replica": model.replica, "contributors": model.contributors, "age_s": rounded(model.age_s),
        "magnitude": dict(model.magnitude),
    }  # fmt: skip


def _words(found: decision.Decision) -> str:
    pod = f"{found.namespace}/{found.pod}"
    if found.outcome is decision.Outcome.BOUND and found.node is not None:
        return f"{pod} -> {found.node}, waited {found.waited_s:.1f} s"
    return _ascii(f"{pod} {found.outcome.value}: {found.message}")


def _ascii(text: str) -> str:
    return "".join(char if char.isascii() and char.isprintable() else "?" for char in text)


def rounded(value: float | None) -> float | None:
    """Return a number with the digits that the schema has; None stays None."""
    return None if value is None else round(value, 3)


def _pods(value: float | None) -> str | None:
    return None if value is None else amounts.number(value, 1)


def _percent(shares: Mapping[str, float], name: str) -> str | None:
    return f"{shares[name]:.0%}" if name in shares else None


def _lines(rows: list[dict[str, Any]], columns: tuple[str, ...], title: str) -> list[str]:
    return formats.lines(rows, columns, title, show=lambda value: _ascii(formats.cell(value)))
