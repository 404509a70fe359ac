"""Numbers and paragraphs for a terminal of 80 columns."""

import re
import textwrap
from collections.abc import Mapping
from typing import Any

from carico_cli.output import formats
from carico_core.domain import amounts
from carico_core.wire.kubernetes import object_fields as fields

WIDTH = 80
# Written out: `carico list` does without the records of messages, which have constants for them.
_GENERAL = {"?": "(not measured yet)", "*": "(any class)"}
_NO_BREAK = "\N{NO-BREAK SPACE}"
# Between a number and its unit.
_UNIT = re.compile(r"(?<=\d) (?=(?:s|ms|µs|min|h|[kMGT]?B|cores?|Pods?|nodes?|tasks?)\b)")
# With what is attached to it, such as a comma.
_COMMAND = re.compile(r"\S*`[^`]+`\S*")
# What `waits_for` returns where nodes lack nothing but room.
AT_CAPACITY = "at capacity"
# How a scheduler begins to say why no node fits.
_UNFIT = re.compile(r"^0/\d+ nodes (fit|are available): ")


def amount(dimension: str, value: float | None) -> str:
    """Return an amount of a dimension with its unit, or a dash.

    >>> amount("memory", 9.8e6), amount("cpu", 1.224), amount("cpu", None)
    ('9.8 MB', '1.22 tasks', '-')
    """
    return "-" if value is None else amounts.text(dimension, value)


def class_name(name: str) -> str:
    """Return the name of a class of Pods, in words where it stands for others.

    >>> class_name("app/default/pi"), class_name("?")
    ('app/default/pi', '(not measured yet)')
    """
    return _GENERAL.get(name, name)


def pod_key(namespace: str, name: str) -> str:
    """Return a Pod as `kubectl logs` and `carico explain` take it.

    >>> pod_key("default", "a"), pod_key("shop", "a")
    ('a', 'a -n shop')
    """
    return name if namespace == "default" else f"{name} -n {namespace}"


def counted(why: str) -> str:
    """Return why a Pod waits without how many nodes there are, which leaves no room for the reason.

    >>> counted("0/3 nodes fit: 3 at capacity")
    '3 at capacity'
    """
    return _UNFIT.sub("", why)


def waits_for(pod: Mapping[str, Any]) -> str:
    """Return why a Pod waits, as its condition says, without numbers and examples; empty where it has no condition.

    >>> waits_for({"status": {"conditions": [{"type": "PodScheduled", "status": "False",
    ...     "message": "0/3 nodes fit: 1 cordoned, 2 at capacity (node-1: 0.7 free of threshold 1)"}]}})
    'cordoned, at capacity'
    """
    scheduled = fields.condition(pod.get("status") or {}, "PodScheduled")
    said = str(scheduled.get("message") or scheduled.get("reason") or "") if scheduled.get("status") == "False" else ""
    return reasons(said)


def reasons(said: str) -> str:
    """Return the reasons in a scheduler's message, without numbers and examples.

    >>> reasons("0/3 nodes fit: 1 cordoned, 2 at capacity (node-1: 0.7 free of threshold 1)")
    'cordoned, at capacity'
    """
    if counted(said) == said:
        return said
    return re.sub(r"(^|, )\d+ ", r"\1", counted(said).partition(" (")[0])


def paragraph(text: str, indent: str = "  ") -> list[str]:
    """Return the text in lines of at most 80 columns; a number stays on the line of its unit, a command on one line.

    >>> paragraph("decided 9 min ago by scheduler-18ec49c43ff3b0ad, attempt 1, after waiting 60 ms: bound")
    ['  decided 9 min ago by scheduler-18ec49c43ff3b0ad, attempt 1, after waiting', '    60 ms: bound']
    >>> paragraph("if no node may have the taint gpu any more: `kubectl taint node node-1 gpu:NoSchedule-`")
    ['  if no node may have the taint gpu any more:', '    `kubectl taint node node-1 gpu:NoSchedule-`']
    """
    # So that it can be copied.
    most = WIDTH - len(indent) - 2
    whole = _COMMAND.sub(lambda found: found[0].replace(" ", _NO_BREAK) if len(found[0]) <= most else found[0], text)
    kept = _UNIT.sub(_NO_BREAK, whole)
    lines = textwrap.wrap(
        kept, WIDTH, initial_indent=indent, subsequent_indent=indent + "  ", break_on_hyphens=False
    ) or [indent]  # fmt: skip
    return [line.replace(_NO_BREAK, " ") for line in lines]


def behind(answer: Mapping[str, Any]) -> list[str]:
    """Return how old the scheduler's view of the API is; empty where the API answers it."""
    found = []
    for what, why in answer.get("away", {}).items():
        found += paragraph(f"the scheduler's view of {what} is out of date: {why}", "")
    silent_s = answer.get("api_silent_s")
    if silent_s is not None:
        said = f"the Kubernetes API last answered the scheduler {formats.duration(silent_s)} ago"
        found += paragraph(f"{said}: Pods and Nodes are shown as they were then", "")
    return found
