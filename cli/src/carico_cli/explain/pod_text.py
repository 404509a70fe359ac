"""Why a Pod is where it is, or why it waits, in words."""

from collections.abc import Mapping, Sequence
from typing import Any

from carico_cli.explain import containers, words
from carico_cli.output import tables
from carico_core.domain import amounts, decision

Row = Mapping[str, Any]
# Nodes named one by one in a text; -o wide and -o json have more.
SHOWN = 20
_Reason = decision.Reason
_FULL = (
    "a node needs room for a whole Pod (the threshold); it starts by itself as Pods end there, sooner with more nodes, "
    "or with a higher ceiling ({ceiling}: denser, and each Pod slower)"
)
_SILENT = "the agent, or its way to NATS: `carico doctor`, then the agent's log"
# Where a node has room but for what is reserved.
RESERVED = (
    "Pods that are on their way to a node hold their room there, and one that its node cannot start (image, volume)"
    " does so for as long as it is there: `carico explain node NODE` names them"
)
BY_REASON: Mapping[str, str] = {
    _Reason.CAPACITY: _FULL,
    _Reason.NO_ADVERTISEMENT: _SILENT,
    _Reason.STALE: _SILENT,
    _Reason.SUSPECT: "it does not account for a Pod that it was given: `carico explain node NODE`, its agent's log",
    _Reason.NOT_READY: "the node itself: `kubectl describe node NODE`",
    _Reason.UNSCHEDULABLE: "`kubectl uncordon NODE`, unless it is being drained",
    _Reason.TAINT: "a toleration in the Pod, or `kubectl taint node NODE KEY-`",
    _Reason.NODE_NAME: "the Pod names another node itself",
    _Reason.NODE_SELECTOR: "`kubectl label node NODE KEY=VALUE`, or another nodeSelector in the Pod",
    _Reason.NODE_AFFINITY: "labels on a node, or other required terms in the Pod",
    _Reason.REQUESTS: "smaller requests, or none: CARICO needs none, but keeps to those that a Pod has",
    _Reason.POD_LIMIT: "more nodes, or a higher maxPods of the kubelet",
    _Reason.HOST_PORTS: "another hostPort, or none",
    _Reason.DISK: "one Pod a node can have such a disk: another node, or another disk",
    _Reason.VOLUME: "the claim and its StorageClass: `kubectl describe pvc`",
    _Reason.VOLUME_LIMIT: "more nodes: the driver attaches no more volumes there",
    _Reason.POD_AFFINITY: "a Pod that it must be near has to run first, on a node with the topology's label",
    _Reason.POD_ANTI_AFFINITY: "more nodes or zones: those there have a Pod that it must be apart from",
    _Reason.TOPOLOGY_SPREAD: "room in the domains with the fewest such Pods, the topology's label, or a larger maxSkew",
    _Reason.UNSUPPORTED: "CARICO will not place it: create it with kube-scheduler's schedulerName",
}
# Reasons that do not pass by themselves as Pods start and end.
_LASTING = frozenset(
    {_Reason.TAINT, _Reason.NODE_NAME, _Reason.NODE_SELECTOR, _Reason.NODE_AFFINITY, _Reason.UNSUPPORTED}
)
_HEADINGS = ("NODE", "CAPACITY", "RESERVED", "FREE", "AGE", "STATE", "SCORE")


def text(answer: Row, *, now_ns: int, wide: bool = False, is_local: bool = False) -> str:
    """Return everything that is known, in lines of at most 80 columns.

    wide: every node that the answer names. is_local: of `carico up`, so that advice names its flags.
    """
    lines = [_headline(answer), *_of_node(answer)]
    for told in containers.sentences(answer):
        lines += words.paragraph(told)
    lines += words.paragraph(answer["why"])
    if answer.get("class"):
        lines += words.paragraph(f"class {answer['class']}, priority {answer['priority']}")
    lines += _of_record(answer, now_ns)
    lines += _of_wait(answer)
    if answer["state"] in ("waiting", "binding", "bound", "elsewhere") and "candidates" in answer:
        lines += _of_nodes(answer, shown=None if wide else SHOWN, is_local=is_local)
    lines += words.behind(answer)
    lines += words.paragraph(answer["note"], "") if answer.get("note") else []
    return "\n".join(lines)


def _headline(answer: Row) -> str:
    key, node = f"Pod {answer['namespace']}/{answer['pod']}", answer.get("node")
    phase = answer.get("phase")
    match answer["state"]:
        case "bound":
            return f"{key} is on {node} ({phase})"
        case "binding":
            return f"{key} is being bound to {node}"
        case "waiting":
            return f"{key} waits" + (", and fits no node as it is" if _is_impossible(answer) else "")
        case "gated":
            return f"{key} is gated"
        case "elsewhere":
            return f"{key} is not CARICO's" + (f"; it is on {node} ({phase})" if node else "")
        case "ended":
            return f"{key} has ended" + (f" on {node}" if node else "") + (f" ({phase})" if phase else "")
    return f"{key}: {answer['state']}"


def _is_impossible(answer: Row) -> bool:
    """Return whether each node is refused for a reason that lasts until someone changes the Pod or a node."""
    refused = answer.get("refused") or {}
    return bool(refused) and not answer.get("feasible") and set(refused) <= _LASTING


def _of_node(answer: Row) -> list[str]:
    """Return what keeps its node from running it; an older scheduler does not say."""
    ready = answer.get("node_ready", True)
    if answer["state"] != "bound" or ready:
        return []
    why = "its node has gone from the API" if ready is None else "its node is not ready and reports nothing"
    return words.paragraph(f"{why}: `kubectl describe node {answer['node']}`")


def _of_record(answer: Row, now_ns: int) -> list[str]:
    """Return the decision, and what it acted on."""
    made, acted_on = answer.get("decision"), answer.get("acted_on")
    if made is None or made["outcome"] == "unschedulable":
        # What the scheduler finds now is newer, and is shown above and below.
        return []
    ago_s = max(now_ns - made["ts"], 0) / 1e9
    said = f"decided {words.ago(ago_s)} ago, attempt {made['attempt']}, after waiting {made['waited_s']:.2f} s: "
    lines = words.paragraph(said + made["outcome"].replace("_", " "))
    if made["message"] != answer["why"]:
        lines += words.paragraph(made["message"])
    if acted_on is not None and acted_on["capacity"] is not None:
        lines += words.paragraph(
            f"it acted on advertisement {acted_on['seq']} of {acted_on['node']}: {acted_on['age_s']:.2f} s old, "
            f"capacity {acted_on['capacity']:.1f}, reserved {acted_on['reserved']:.0f}"
        )
    if answer.get("covered") is not None:
        covers = "its node accounts for it: no reservation is left"
        lines += words.paragraph(covers if answer["covered"] else "its node does not account for it yet: reserved")
    if answer["state"] != "waiting" and made["candidates"]:
        lines += ["", f"As it was decided: {_counts(made['refused']) or 'no node was refused'}"]
        lines += _table(made["candidates"])
    return lines


def _of_wait(answer: Row) -> list[str]:
    if answer["state"] != "waiting" or answer.get("waited_s") is None:
        return []
    tried = amounts.plural(answer["attempts"], "bind") + " tried"
    due_s = answer["next_try_s"]
    then = "next try as soon as something changes that could help" if due_s is None else f"next try in {due_s:.1f} s"
    return words.paragraph(f"for {words.ago(answer['waited_s'])}, {tried}; {then}")


def _of_nodes(answer: Row, *, shown: int | None, is_local: bool) -> list[str]:
    """Return all nodes as they stand now."""
    of = "it" if answer["state"] == "waiting" else "one more Pod like it"
    said = f"Now, for {of}: {answer['feasible']} of {amounts.plural(answer['nodes'], 'node')} would do"
    refused = _counts(answer["refused"])
    lines = ["", *words.paragraph(said + (f"; refused: {refused}" if refused else ""), "")]
    rows = answer["candidates"][:shown]
    lines += _table(rows)
    left = answer["nodes"] - len(rows)
    lines += [f"... and {amounts.plural(left, 'node')} more (-o wide names up to 1000)"] if left else []
    return lines + _of_help(answer, is_local=is_local)


def _of_help(answer: Row, *, is_local: bool) -> list[str]:
    """Return what could help a Pod that waits and that no node takes."""
    if answer["state"] != "waiting" or answer["feasible"] or not answer["refused"]:
        return []
    lines = ["", "What could help, by reason:"]
    for reason, text in for_refused(answer["refused"], is_local=is_local):
        lines += words.paragraph(f"{reason}: {text}")
    if any(map(_is_held, answer["candidates"])):
        lines += words.paragraph(f"reserved: {RESERVED}")
    return lines


def _is_held(each: Row) -> bool:
    """Return whether the node would have room for a Pod, but for what is reserved there."""
    stage = (each.get("rejected_by") or {}).get("stage")
    return stage == decision.Reason.CAPACITY and each["reserved"] >= 1.0 and each["capacity"] >= 1.0


def _counts(refused: Mapping[str, int]) -> str:
    ordered = sorted(refused.items(), key=lambda item: -item[1])
    return ", ".join(f"{count} by {stage}" for stage, count in ordered)


def _table(candidates: Sequence[Row]) -> list[str]:
    """Return a line a node, and below it why it is refused."""
    if not candidates:
        return []
    rows = [_row(each) for each in candidates]
    head, *lines = tables.aligned(_HEADINGS, rows, width=words.WIDTH)
    found = [head]
    for each, line in zip(candidates, lines, strict=True):
        found.append(line)
        why = each.get("rejected_by") or each.get("rejection")
        if why is not None:
            found += words.paragraph(f"{why.get('stage') or why['reason']}: {why['detail']}", "    ")
        found += _wishes(each)
    return found


def _row(each: Row) -> tuple[str, ...]:
    capacity, reserved = each["capacity"], each["reserved"]
    free = each["free"] if "free" in each else None if capacity is None else max(capacity - reserved, 0.0)
    age = "-" if each["age_s"] is None else f"{each['age_s']:.1f} s"
    shown = (words.number(capacity), f"{reserved:.0f}", words.number(free), age, each.get("freshness", ""))
    return (each["node"], *shown, words.number(each["score"], 2))


def _wishes(each: Row) -> list[str]:
    parts = each.get("parts")
    if not parts or not parts["wishes"]:
        return []
    met = ", ".join(f"{kind} met to {share:.0%}" for kind, share in parts["wishes"].items())
    return words.paragraph(f"score: {parts['room']:.2f} for room, less for preferences ({met})", "    ")


def for_refused(refused: Mapping[str, int], *, is_local: bool = False) -> list[tuple[str, str]]:
    """(reason, what could help), of the reason with the most nodes first."""
    ordered = sorted(refused.items(), key=lambda item: (-item[1], item[0]))
    ceiling = "`carico up --ceiling`" if is_local else "CARICO_AGENT_CEILING_CPU"
    return [(reason, BY_REASON[reason].format(ceiling=ceiling)) for reason, _ in ordered if reason in BY_REASON]
