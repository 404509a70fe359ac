"""The state of a Pod's containers: why they failed, or what they wait for."""

import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from carico_cli.output import formats
from carico_core.domain import amounts

# Phases that the containers' states explain: of a running Pod, a container may end again and again.
EXPLAINED = ("Pending", "Running", "Failed")
# A kubelet pauses before it starts a container again that has ended
# (https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#restart-policy).
CRASHING = "CrashLoopBackOff"
# Why containers fail before their program runs, so that there is no output to show.
_NOT_BEGUN = ("StartError", "ContainerCannotRun")
# Any program that fails has this reason.
FAILED = "Error"
# In the middle of a sentence so much of a message is quoted: a program may have written kilobytes.
_QUOTED = 200
_NONE: Mapping[str, Any] = types.MappingProxyType({})


def of_status(status: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return each container that waits or has failed, and the Pod's own reason, if any, under the name None.

    Of one that waits and has failed before, `restarts`, `exit_code`, `ended_reason` and `ended_message` say how often
    and how.

    >>> [fact] = of_status({"containerStatuses": [{"name": "a", "state": {"terminated": {"exitCode": 3}}}]})
    >>> fact["name"], fact["state"], fact["exit_code"], fact["reason"], fact["ended_reason"]
    ('a', 'ended', 3, '', '')
    """
    return [*_of_pod(status), *_of_containers(status)]


def _of_pod(status: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if status.get("reason"):
        yield _fact(None, "failed", status)


def _of_containers(status: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for each in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        state, before = each.get("state") or {}, (each.get("lastState") or {}).get("terminated") or {}
        ended, waits, restarts = state.get("terminated"), state.get("waiting"), int(each.get("restartCount") or 0)
        if ended and ended.get("exitCode"):
            yield _fact(each["name"], "ended", ended, restarts=restarts)
        elif waits:
            yield _fact(each["name"], "waits", waits, restarts=restarts, before=before)
        elif restarts and before.get("exitCode"):
            yield _fact(each["name"], "restarted", before, restarts=restarts)


def _fact(
    name: str | None, state: str, status: Mapping[str, Any], *, restarts: int = 0, before: Mapping[str, Any] = _NONE
) -> dict[str, Any]:  # fmt: skip
    return {
        "name": name, "state": state, "exit_code": (before or status).get("exitCode"),
        "reason": str(status.get("reason") or ""), "message": formats.one_line(status.get("message")),
        "restarts": restarts,
        "ended_reason": str(before.get("reason") or ""), "ended_message": formats.one_line(before.get("message")),
    }  # fmt: skip


def sentences(answer: Mapping[str, Any], kubectl: str) -> list[str]:
    """Return the same as sentences, with where to read more; empty where there is nothing to add."""
    found: Sequence[Mapping[str, Any]] = answer.get("containers") or ()
    if not found:
        return []
    key = answer["pod"] if answer["namespace"] == "default" else f"{answer['pod']} -n {answer['namespace']}"
    lines = [*map(_sentence, found)]
    if any(reason in _NOT_BEGUN for fact in found for reason in (fact["reason"], fact["ended_reason"])):
        return lines
    if any(fact.get("restarts") and fact["state"] != "ended" for fact in found):
        return [*lines, f"`{kubectl} logs {key} --previous` shows its output before it ended"]
    if answer.get("phase") == "Failed":
        return [*lines, f"`{kubectl} logs {key}` shows its output"]
    return [*lines, f"its node has not started it yet: `{kubectl} describe pod {key}`"] if _waits(found) else lines


def _waits(found: Sequence[Mapping[str, Any]]) -> bool:
    return any(fact["state"] == "waits" for fact in found)


def _because(reason: str, message: str) -> str:
    return ": ".join(filter(None, (reason, message)))


def _sentence(fact: Mapping[str, Any]) -> str:
    because = _because(fact["reason"], fact["message"])
    if fact["name"] is None:
        return because
    who, ended = f"container {fact['name']}", f"ended with exit code {fact['exit_code']}"
    times = amounts.plural(fact.get("restarts") or 0, "time")
    if fact["state"] == "restarted":
        return f"{who} was started again {times}, because it {ended}" + (f": {because}" if because else "")
    if fact["state"] == "waits":
        if fact.get("restarts") and fact["exit_code"] is not None:
            reason = "" if fact["ended_reason"] == FAILED else fact["ended_reason"]
            said = fact["ended_message"]
            how = _because(reason, said if len(said) <= _QUOTED else f"{said[:_QUOTED]}...")
            return f"{who} {ended}{f' ({how})' if how else ''}, and was started again {times}; {because}"
        return f"{who} waits" + (f": {because}" if because else "")
    return f"{who} {ended}" + (f": {because}" if because else "")
