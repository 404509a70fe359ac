"""The panels around the table of nodes: summary, jobs, decisions, services. Each is a list of lines."""

import statistics
import time
from collections.abc import Iterable, Sequence

from carico_cli.live import picture as pictures
from carico_cli.live import services as asked
from carico_cli.output import formats
from carico_cli.top.words import spans
from carico_core.domain import amounts, decision
from carico_core.wire import freshness

JOB_BAR_CELLS = 12
# The least width of a job's name, and the greatest of the rest of its line: 10,000 Pods in each phase.
JOB_CELLS, _OF_JOB_CELLS = 16, 88
_ARROW = " → "
# NATS generates long ids; the first characters identify an instance.
INSTANCE_CELLS = 8


def summary(picture: pictures.Picture, *, name: str, paused_s: float | None, shown: int, width: int = 80) -> spans.Line:
    """Return the cluster in a line: what does not fit into the width is left out, from the end."""
    fresh = sum(node.state == freshness.Freshness.FRESH.value for node in picture.nodes)
    # The last advertisement of an absent node is no longer true.
    said = [
        (node.advertisement, node.is_open)
        for node in picture.nodes
        if node.advertisement is not None and node.freshness is not freshness.Freshness.ABSENT
    ]
    reserved = [node.reserved for node in picture.nodes if node.reserved is not None]
    all_fresh = fresh == len(picture.nodes)
    found: list[spans.Span] = [
        (f" {spans.fitted(name, min(len(name), 16))} ", "reverse"),
        (f" {fresh}/{len(picture.nodes)} nodes fresh", "" if all_fresh and fresh else "yellow"),
        (f"  {amounts.plural(sum(each.pods for each, _ in said), 'Pod')}", ""),
        *(((f"  {_waiting(picture)}", "yellow"),) if picture.waiting else ()),
        (f"  capacity {sum(each.capacity for each, is_open in said if is_open):.0f}", ""),
        (f"  reserved {sum(reserved) if reserved else '-'}", ""),
    ]
    # Before what a long line would cut.
    if shown != len(picture.nodes):
        found.insert(1, (f" {shown} shown ", "bold"))
    if paused_s is not None:
        found.insert(1, (f" paused {paused_s:.0f} s ", "bold yellow"))
    while len(found) > 1 and sum(len(text) for text, _ in found) > width:
        found.pop()
    return tuple(found)


def _waiting(picture: pictures.Picture) -> str:
    """Return how many Pods wait, and the longest time of one of them."""
    longest = picture.longest_waiting
    return f"{picture.waiting} waiting" + ("" if longest is None else f" ({formats.duration(longest[1])})")


def jobs(picture: pictures.Picture, width: int) -> list[spans.Line]:
    """Return a line for each job: its progress, and its Pods by phase."""
    longest = max((len(job.name) for job in picture.jobs), default=0)
    cells = max(JOB_CELLS, min(longest, width - _OF_JOB_CELLS))
    return [_job(job, cells) for job in picture.jobs] or [(("no Pods that CARICO places", "dim"),)]


def decisions(picture: pictures.Picture, width: int) -> list[spans.Line]:
    """Return a line for each decision, newest first."""
    return [_decision(found, width) for found in picture.decisions] or [(("none yet", "dim"),)]


def services(picture: pictures.Picture, width: int = 80) -> list[spans.Line]:
    """Return lines on the services, agents, model and bus; the same at any width."""
    found = [_service(each, picture.decisions) for each in picture.services or ()]
    answering = {each.name for each in picture.services or ()}
    silent = [name.removeprefix("carico-") for name in asked.ASKED if name not in answering]
    if picture.services is None:
        found.append(((f"asking {' and '.join(silent)}", "dim"),))
    else:
        found += [((f"{name}: none answers", "red"),) for name in silent]
    found.append(_agents(picture.nodes))
    found.append(_model(picture.model))
    backlog = "" if picture.backlog is None else f"; {picture.backlog} wait for the aggregators"
    found.append(((f"bus: {picture.heard_per_s:.0f} messages/s{backlog}", ""),))
    if picture.dropped:
        counts = ", ".join(f"{count} {reason}" for reason, count in sorted(picture.dropped.items()))
        found.append(((f"bus: dropped messages: {counts}", "yellow"),))
    return found


def _job(job: pictures.Job, cells: int) -> spans.Line:
    bar = spans.bar(job.ended / job.pods, JOB_BAR_CELLS)
    # In one colour: progress is neither good nor bad.
    found: list[spans.Span] = [(spans.fitted(spans.clean(job.name), cells) + " ", ""), (bar[0][0], "cyan"), *bar[1:]]
    found.append((f"  {job.ended}/{job.pods}", ""))
    found.append((f"  pending {job.pending}  starting {job.starting}  running {job.running}", ""))
    if job.failed:
        found.append((f"  failed {job.failed}", "red"))
    return tuple(found)


def _decision(found: decision.Decision, width: int) -> spans.Line:
    pod = spans.clean(found.pod if found.namespace == "default" else f"{found.namespace}/{found.pod}")
    clock: spans.Span = (time.strftime("%H:%M:%S ", time.localtime(found.ts_ns / 1e9)), "dim")
    if found.outcome is decision.Outcome.BOUND and found.node is not None:
        room = "" if found.free is None else f", room for {amounts.number(found.free, 1)}"
        said = f"{room}, waited {formats.duration(found.waited_s)}"
        pod, node = _names(pod, spans.clean(found.node), width - len(clock[0]) - len(_ARROW) - len(said))
        return (clock, (pod, "bold"), (_ARROW, "dim"), (node, "green"), (said, ""))
    outcome = "waits" if found.outcome is decision.Outcome.UNSCHEDULABLE else found.outcome.value.replace("_", " ")
    pod, _ = _names(pod, "", width // 2)
    return (clock, (pod, "bold"), (f" {outcome}", "yellow"), (f": {spans.clean(found.message)}", ""))


def _names(first: str, second: str, cells: int) -> tuple[str, str]:
    """Return both names in so many cells: the longer one is shortened first.

    >>> _names("a-very-long-name-of-a-pod", "node-1", 20)
    ('a-very-…-a-pod', 'node-1')
    """
    half = max(cells // 2, 1)
    kept = min(len(second), max(half, cells - len(first)))
    return spans.fitted(first, min(len(first), max(cells - kept, half))), spans.fitted(second, kept)


def _service(each: pictures.Service, decided: Sequence[decision.Decision]) -> spans.Line:
    name = each.name.removeprefix("carico-")
    average = "" if each.processing_s is None else f" of {each.processing_s * 1e3:.1f} ms"
    words = f" answers in {each.answered_s * 1e3:.0f} ms; {each.requests} answers{average}"
    # 0: it was refused for the reason for which a Pod like it had just been refused.
    took_us = [found.decided_us for found in decided if found.decided_us > 0.0]
    if name == "scheduler" and took_us:
        words += f"; decides in {formats.duration(statistics.median(took_us) / 1e6)}"
    instance = spans.clean(each.instance)[:INSTANCE_CELLS]
    found: list[spans.Span] = [(spans.fitted(name, 11), "bold"), (instance.ljust(INSTANCE_CELLS), "dim"), (words, "")]
    if each.errors:
        found.append((f"; {amounts.plural(each.errors, 'error')}, last: {spans.clean(each.last_error)}", "red"))
    return tuple(found)


def _agents(nodes: Iterable[pictures.Node]) -> spans.Line:
    ages = [node.age_s for node in nodes if node.age_s is not None]
    if not ages:
        return (("agents: none advertises", "red"),)
    late = sum(age_s > freshness.FRESH_S for age_s in ages)
    words = f"median age {statistics.median(ages):.1f} s, at most {max(ages):.1f} s"
    return (
        (spans.fitted("agents", 11), "bold"),
        (f"{len(ages)} advertise; {words}", ""),
        (f"; {late} not fresh" if late else "", "yellow"),
    )


def _model(model: pictures.Model | None) -> spans.Line:
    if model is None:
        return ((spans.fitted("model", 11), "bold"), ("none received yet", "yellow"))
    use = ", ".join(f"{spans.clean(dim)} {share:.0%}" for dim, share in model.magnitude.items())
    nodes = amounts.plural(model.contributors, "node")
    return ((spans.fitted("model", 11), "bold"), (f"of {nodes}, {model.age_s:.1f} s old; typical use {use}", ""))
