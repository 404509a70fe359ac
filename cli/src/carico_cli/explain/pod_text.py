"""Why a Pod is on its node, or why it waits, as text."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from carico_cli.explain import remedies
from carico_cli.live import addresses
from carico_cli.output import formats, words
from carico_core.domain import amounts, decision, names
from carico_core.wire.kubernetes import instants
from carico_core.wire.kubernetes.pods import containers

Row = Mapping[str, Any]
# Nodes shown in a text; -o wide and -o json show more.
SHOWN = 20
# A smaller share of the time is not worth a word.
_WAITS = 0.01
_Reason = decision.Reason
_OF_SCHEDULERS = ("Scheduled", "FailedScheduling")
# Events quoted for a Pod that its node does not start.
_EVENTS_SHOWN = 3
# Reasons that persist while Pods start and end.
_LASTING = frozenset(
    {_Reason.TAINT, _Reason.NODE_NAME, _Reason.NODE_SELECTOR, _Reason.NODE_AFFINITY, _Reason.UNSUPPORTED}
)
# Why containers fail before their program runs, so that there is no output to show.
_NOT_BEGUN = ("StartError", "ContainerCannotRun")
_HEADINGS = ("NODE", "CAPACITY", "RESERVED", "FREE", "AGE", "STATE", "SCORE")


def text(answer: Row, *, now_ns: int, wide: bool = False, at: addresses.Address = addresses.OF_SHELL) -> str:
    """Return all that is known of the Pod, in lines of at most 80 columns.

    wide: show every node of the answer. at: the cluster, which advice names. now_ns: by this machine's clock; the
    scheduler's, which may differ, counts where it has answered.
    """
    now_ns = answer.get("ts", now_ns)
    lines = [_headline(answer), *_of_node(answer, at.kubectl)]
    lines += _of_judgement(answer)
    lines += _of_containers(answer, at.kubectl)
    lines += _of_events(answer)
    lines += _of_uses(answer)
    lines += words.paragraph(answer["why"])
    if answer.get("class"):
        own = f"; settings of {answer['scheduler']}: {answer['profile']}" if answer.get("profile") else ""
        lines += words.paragraph(f"class {answer['class']}, priority {answer['priority']}{own}")
    lines += _of_rescheduler(answer.get("rescheduler"), now_ns, at)
    lines += _of_record(answer, now_ns)
    lines += _of_wait(answer)
    if answer["state"] in ("waiting", "binding", "bound", "elsewhere") and "candidates" in answer:
        lines += _of_nodes(answer, at, shown=None if wide else SHOWN)
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
            if (answer.get("judgement") or {}).get("never"):
                return f"{key} waits, and can never fit as it is"
            return f"{key} waits" + (", and no node can take it as it is" if _is_impossible(answer) else "")
        case "gated":
            return f"{key} is gated"
        case "elsewhere":
            return f"{key} is not placed by CARICO" + (f"; it is on {node} ({phase})" if node else "")
        case "ended":
            return f"{key} has ended" + (f" on {node}" if node else "") + (f" ({phase})" if phase else "")
    return f"{key}: {answer['state']}"


def _is_impossible(answer: Row) -> bool:
    """Return whether each node is refused for a reason that persists until the Pod or a node is changed."""
    refused = answer.get("refused") or {}
    return bool(refused) and not answer.get("feasible") and set(refused) <= _LASTING


def _of_judgement(answer: Row) -> list[str]:
    """Return what no node has, and which names are probably meant."""
    judged = answer.get("judgement") or {}
    lines = words.paragraph(judged["why"]) if judged.get("why") else []
    for hint in judged.get("hints") or ():
        lines += words.paragraph(hint)
    return lines


def _of_containers(answer: Row, kubectl: str) -> list[str]:
    """Return why its containers failed or what they wait for, and where to read more."""
    found: Sequence[containers.Trouble] = answer.get("containers") or ()
    if not found:
        return []
    key = words.pod_key(answer["namespace"], answer["pod"])
    waits = any(each.state is containers.State.WAITS for each in found)
    said = [each.sentence for each in found]
    if not any(reason in _NOT_BEGUN for each in found for reason in (each.reason, each.ended_reason)):
        if any(each.restarts and each.state is not containers.State.ENDED for each in found):
            said.append(f"`{kubectl} logs {key} --previous` shows its output before it ended")
        elif answer.get("phase") == "Failed":
            said.append(f"`{kubectl} logs {key}` shows its output")
        elif waits:
            said.append(f"its node has not started it yet: `{kubectl} describe pod {key}`")
    return [line for sentence in said for line in words.paragraph(sentence)]


def _of_events(answer: Row) -> list[str]:
    """Return the last Events of a Pod that its node does not start."""
    if answer.get("events_trouble"):
        return words.paragraph(f"its Events are not known: {answer['events_trouble']}")
    found = [each for each in answer.get("events") or () if each.get("reason") not in _OF_SCHEDULERS]
    lines = ["  its last Events:"] if found else []
    for line in events(found)[-_EVENTS_SHOWN:] if found else ():
        lines += words.paragraph(line.strip(), "    ")
    return lines + (words.paragraph(f"of its Events {answer['events_unread']}") if answer.get("events_unread") else [])


def _of_node(answer: Row, kubectl: str) -> list[str]:
    """Return what prevents its node from running it; an older scheduler does not report this."""
    ready = answer.get("node_ready", True)
    if answer["state"] != "bound" or ready:
        return []
    why = "its node is gone from the API" if ready is None else "its node is not ready and does not report"
    return words.paragraph(f"{why}: `{kubectl} describe node {answer['node']}`")


def _of_uses(answer: Row) -> list[str]:
    """Return what a running Pod uses."""
    if "uses" not in answer:
        return []
    uses = answer["uses"]
    if uses is None:
        why = "its node's agent has none, or does not answer"
        if answer.get("uses_left_out"):
            left = amounts.plural(answer["uses_left_out"], "Pod")
            why = f"its node's agent has reported no more than fits into a message, without {left} of the smallest load"
        return words.paragraph(f"there is no reading of what it uses: {why}")
    waits = f", and waits for a CPU {uses['waiting_tasks']:.0%} of the time" if uses["waiting_tasks"] >= _WAITS else ""
    cpu, memory = amounts.millicores(uses["cores"]), amounts.text("memory", uses["memory_bytes"])
    return words.paragraph(f"it uses {cpu} of CPU and {memory} of memory{waits}")


def _of_record(answer: Row, now_ns: int) -> list[str]:
    """Return the decision, and the advertisement that it used."""
    made, acted_on = answer.get("decision"), answer.get("acted_on")
    if made is None or made["outcome"] == "unschedulable":
        # What the scheduler finds now is newer, and is shown above and below.
        return []
    ago_s = max(now_ns - made["ts"], 0) / 1e9
    # A scheduler of an earlier version does not say its name.
    by = names.replica_of(made["scheduler"]) if made.get("scheduler") else f"scheduler-{made['boot']}"
    said = (
        f"decided {formats.duration(ago_s)} ago by {by}, attempt {made['attempt']}, "
        f"after waiting {formats.duration(made['waited_s'])}: "
    )
    lines = words.paragraph(said + made["outcome"].replace("_", " "))
    if answer["state"] != "waiting":
        lines += _of_lost(made.get("lost"))
    if made["message"] != answer["why"]:
        lines += words.paragraph(made["message"])
    if acted_on is not None and acted_on["capacity"] is not None:
        lines += words.paragraph(
            f"it used advertisement {acted_on['seq']} of {acted_on['node']}: {formats.duration(acted_on['age_s'])} "
            f"old, capacity {acted_on['capacity']:.1f}, reserved {acted_on['reserved']:.0f}"
        )
    if answer.get("covered") is not None:
        covers = "its node's advertisements cover it: its reservation has ended"
        waits = "its node's advertisements do not cover it yet: its room is reserved"
        lines += words.paragraph(covers if answer["covered"] else waits)
    if answer["state"] != "waiting" and made["candidates"]:
        refused = _counts(made["refused"])
        lines += [
            "",
            *words.paragraph(f"At the decision: {f'refused: {refused}' if refused else 'no node was refused'}", ""),
        ]
        lines += _table(made["candidates"])
    return lines


def _of_lost(lost: Mapping[str, int] | None) -> list[str]:
    """Return how often the Pod lost a claim of room, and to which schedulers."""
    if not lost:
        return []
    names_shown = names.shown_of(lost)
    ordered = sorted(lost.items(), key=lambda each: (-each[1], each[0]))
    shown = ", ".join(f"{names_shown[start]} {count}" for start, count in ordered)
    return words.paragraph(
        f"it lost {amounts.plural(sum(lost.values()), 'claim')} before, to other schedulers: {shown}"
    )


def _of_rescheduler(said: Row | None, now_ns: int, at: addresses.Address) -> list[str]:
    """Return why the Pod was moved, and why it is moved next or not; without a rescheduler nothing."""
    if said is None:
        return []
    if not said["known"]:
        return words.paragraph(_gone(said["went"]))
    lines, moved = [], said["moved"]
    if moved is not None:
        ago_s = max(now_ns / 1e9 - moved["at_s"], 0.0)
        source, why = moved["from"] or "another node", f": {moved['why']}" if moved["why"] else ""
        lines += words.paragraph(f"the rescheduler moved it here from {source} {formats.duration(ago_s)} ago{why}")
    if said["plan_at_ns"] is None:
        return lines + words.paragraph(f"the rescheduler has made no plan yet: {said['rests']}")
    ago = f"{formats.duration(max(now_ns - said['plan_at_ns'], 0) / 1e9)} ago"
    if not said["planned"]:
        dry_run = at.carico("reschedule --dry-run")
        new = f"it came to its node after the rescheduler's last plan ({ago}): `{dry_run}` makes one"
        return lines + words.paragraph(new)
    if said["stays"] is not None:
        next_move = f"does not move it: {said['stays']['detail']}"
    elif said["move"] is not None:
        next_move = f"plans to move it to {said['move']['to']}: {said['move']['why']}"
    elif said["left_out"] is not None:
        next_move = f"does not move it to {said['left_out']['to']}: {said['left_out']['detail']}"
    else:
        next_move = "may move it, and knows no better node for it"
    return lines + words.paragraph(f"the rescheduler {next_move} (its plan {ago})")


def _gone(move: Row) -> str:
    """Return where the Pod went that a move replaced."""
    ago = formats.duration(max(move["age_s"] - (move["took_s"] or 0.0), 0.0))
    successor = f" as {move['successor']}" if move["successor"] else ""
    return f"the rescheduler moved it from {move['from']} to {move['to']}{successor} {ago} ago: {move['why']}"


def _of_wait(answer: Row) -> list[str]:
    if answer["state"] != "waiting" or answer.get("waited_s") is None:
        return []
    if answer["attempts"] is None:
        return words.paragraph(f"for {formats.duration(answer['waited_s'])}; another scheduler decides on it")
    tried = amounts.plural(answer["attempts"], "bind") + " tried"
    due_s = answer["next_try_s"]
    then = "next try when something changes that could help" if due_s is None else f"next try in {due_s:.1f} s"
    before = answer.get("before")
    # An older scheduler does not report its queue.
    queued = "" if before is None else f"; {_before(before)}"
    return [
        *words.paragraph(f"for {formats.duration(answer['waited_s'])}{queued}; {tried}; {then}"),
        *_of_lost(answer.get("lost")),
    ]


def _before(count: int) -> str:
    """Return a place in the queue.

    >>> _before(0), _before(1), _before(84)
    ('no Pod waits before it', '1 Pod waits before it', '84 Pods wait before it')
    """
    verb = "waits" if count == 1 else "wait"
    return f"{amounts.plural(count, 'Pod')} {verb} before it" if count else "no Pod waits before it"


def _of_nodes(answer: Row, at: addresses.Address, *, shown: int | None) -> list[str]:
    """Return all nodes as they are now."""
    alone = "one Pod like it, without its gang" if answer.get("gang") else "it"
    of = alone if answer["state"] == "waiting" else "one more Pod like it"
    said = f"Now {answer['feasible']} of {amounts.plural(answer['nodes'], 'node')} can take {of}"
    refused = _counts(answer["refused"])
    lines = ["", *words.paragraph(said + (f"; refused: {refused}" if refused else ""), "")]
    if _Reason.NODE_AFFINITY in answer["refused"] and (answer.get("rescheduler") or {}).get("moved"):
        own = f"its affinity to {answer['node']} is of the move alone: a new Pod of its controller does not have it"
        lines += words.paragraph(own)
    rows = answer["candidates"][:shown]
    lines += _table(rows)
    left = answer["nodes"] - len(rows)
    lines += [f"... and {amounts.plural(left, 'node')} more (-o wide shows up to 1000)"] if left else []
    return lines + _of_help(answer, at)


def _of_help(answer: Row, at: addresses.Address) -> list[str]:
    """Return what could help a waiting Pod that no node can take."""
    if answer["state"] != "waiting" or answer["feasible"] or not answer["refused"]:
        return []
    lines = ["", "What could help:"]
    never = bool((answer.get("judgement") or {}).get("never"))
    for reason, text in remedies.for_refused(answer["refused"], at, never=never, candidates=answer["candidates"]):
        lines += words.paragraph(f"{reason}: {text}")
    if any(map(_is_held, answer["candidates"])):
        lines += words.paragraph(f"reserved: {remedies.reserved(at)}")
    return lines


def _is_held(each: Row) -> bool:
    """Return whether the node would have room for a Pod without its reservations."""
    stage = (each.get("rejected_by") or {}).get("stage")
    return stage == decision.Reason.CAPACITY and each["reserved"] >= 1.0 and each["capacity"] >= 1.0


def _counts(refused: Mapping[str, int]) -> str:
    ordered = sorted(refused.items(), key=lambda item: -item[1])
    return ", ".join(f"{count} by {stage}" for stage, count in ordered)


def _table(candidates: Sequence[Row]) -> list[str]:
    """Return a line for each node, and below it why it is refused."""
    if not candidates:
        return []
    rows = [_row(each) for each in candidates]
    head, *lines = formats.aligned(_HEADINGS, rows, width=words.WIDTH)
    found = [head]
    for each, line in zip(candidates, lines, strict=True):
        found.append(line)
        why = each.get("rejected_by") or each.get("rejection")
        if why is not None:
            found += words.paragraph(f"{why.get('stage') or why['reason']}: {why['detail']}", "    ")
        found += _preferences(each)
    return found


def _row(each: Row) -> tuple[str, ...]:
    capacity, reserved = each["capacity"], each["reserved"]
    free = each["free"] if "free" in each else None if capacity is None else max(capacity - reserved, 0.0)
    age = formats.duration(each["age_s"])
    shown = (formats.number(capacity, 1), f"{reserved:.0f}", formats.number(free, 1), age, each.get("freshness", ""))
    return (each["node"], *shown, formats.number(each["score"]))


def _preferences(each: Row) -> list[str]:
    parts = each.get("parts")
    if not parts or not parts["preferences"]:
        return []
    met = ", ".join(f"{kind} met to {share:.0%}" for kind, share in parts["preferences"].items())
    return words.paragraph(f"score: {parts['room']:.2f} for room, less for preferences ({met})", "    ")


def events(found: Sequence[Row]) -> list[str]:
    """Return a line for each Event: when (in local time), what, how often."""
    return [_event(each) for each in found] or ["  none"]


def _event(each: Row) -> str:
    at_s = instants.find_instant(each.get("lastTimestamp") or each.get("eventTime"))
    # Local time, as `carico top` shows decisions.
    at = "-" if at_s is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_s))
    count = (each.get("series") or {}).get("count") or each.get("count") or 1
    often = f" ({count} times)" if count > 1 else ""
    message = formats.one_line(each.get("message"))
    return f"  {at}  {each.get('type', '-')}  {each.get('reason', '-')}{often}: {message}"
