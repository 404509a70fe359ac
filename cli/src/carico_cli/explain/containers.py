"""The state of a Pod's containers: why they failed, or what they wait for."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

# Phases that the containers' states explain.
EXPLAINED = ("Pending", "Failed")


def of_status(status: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return each container that waits or has failed, and the Pod's own reason, if any, under the name None.

    >>> of_status({"containerStatuses": [{"name": "a", "state": {"terminated": {"exitCode": 3, "reason": "Error"}}}]})
    [{'name': 'a', 'state': 'ended', 'exit_code': 3, 'reason': 'Error', 'message': ''}]
    """
    return [*_of_pod(status), *_of_containers(status)]


def _of_pod(status: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if status.get("reason"):
        yield _fact(None, "failed", status)


def _of_containers(status: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for each in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        state = each.get("state") or {}
        ended, waits = state.get("terminated"), state.get("waiting")
        if ended and ended.get("exitCode"):
            yield _fact(each["name"], "ended", ended)
        elif waits:
            yield _fact(each["name"], "waits", waits)


def _fact(name: str | None, state: str, status: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": name, "state": state, "exit_code": status.get("exitCode"), "reason": str(status.get("reason") or ""),
        "message": " ".join(str(status.get("message") or "").split()),
    }  # fmt: skip


def sentences(answer: Mapping[str, Any]) -> list[str]:
    """Return the same as sentences, with where to read more; empty where there is nothing to add."""
    found: Sequence[Mapping[str, Any]] = answer.get("containers") or ()
    if not found:
        return []
    key = answer["pod"] if answer["namespace"] == "default" else f"{answer['pod']} -n {answer['namespace']}"
    if answer.get("phase") == "Failed":
        more = f"`kubectl logs {key}` shows its output"
    else:
        more = f"its node has not started it yet: `kubectl describe pod {key}`"
    return [*map(_sentence, found), more]


def _sentence(fact: Mapping[str, Any]) -> str:
    because = ": ".join(filter(None, (fact["reason"], fact["message"])))
    if fact["name"] is None:
        return because
    if fact["state"] == "waits":
        return f"container {fact['name']} waits" + (f": {because}" if because else "")
    return f"container {fact['name']} ended with exit code {fact['exit_code']}" + (f": {because}" if because else "")
