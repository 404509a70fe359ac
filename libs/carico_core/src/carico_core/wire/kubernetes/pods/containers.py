"""The containers of a Pod that wait or have failed: what its status says of them, and the sentence for it."""

import dataclasses
import enum
import types
from collections.abc import Iterator, Mapping
from typing import Any

from carico_core.domain import amounts
from carico_core.wire.kubernetes import object_fields as fields

# A kubelet pauses before it starts a container again that has ended
# (https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#restart-policy).
CRASHING = "CrashLoopBackOff"
# Any program that fails has this reason.
ERROR = "Error"
# So much is kept of why a container waits: runtimes quote whole commands, and who may write a status, anything.
STUCK_CHARS = 300
# In the middle of a sentence so much of a message is quoted: a program may have written kilobytes.
_QUOTED = 200
_NONE: Mapping[str, Any] = types.MappingProxyType({})
_LISTS = ("initContainerStatuses", "containerStatuses")


class State(enum.StrEnum):
    """What has become of a container."""

    WAITS = "waits"
    ENDED = "ended"
    # It runs again after it had failed.
    RESTARTED = "restarted"
    # Of a Pod as a whole.
    FAILED = "failed"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """A container that waits or has failed; or, without a name, the Pod's own reason."""

    name: str | None
    state: State
    # Of one that waits: how it ended before, if it has.
    exit_code: int | None
    reason: str
    message: str
    restarts: int
    # Empty for one that does not wait.
    ended_reason: str
    ended_message: str

    @property
    def because(self) -> str:
        """The reason, and the message."""
        return _joined(self.reason, self.message)

    @property
    def is_crashing(self) -> bool:
        """Whether it is started again and again."""
        return self.state is State.WAITS and self.reason == CRASHING

    @property
    def sentence(self) -> str:
        """The same in words."""
        if self.name is None:
            return self.because
        who, ended = f"container {self.name}", f"ended with exit code {self.exit_code}"
        times = amounts.plural(self.restarts, "time")
        if self.state is State.RESTARTED:
            return _joined(f"{who} was started again {times}, because it {ended}", self.because)
        if self.state is State.ENDED:
            return _joined(f"{who} {ended}", self.because)
        if not self.restarts or self.exit_code is None:
            return _joined(f"{who} waits", self.because)
        said = self.ended_message
        how = _joined(
            "" if self.ended_reason == ERROR else self.ended_reason,
            said if len(said) <= _QUOTED else f"{said[:_QUOTED]}...",
        )
        again = f"{who} {ended}{f' ({how})' if how else ''}, and was started again {times}"
        return "; ".join(filter(None, (again, self.because)))


def reported(status: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the status of each container, init containers first. Raises `ValueError` with the path of the bad field."""
    for field in _LISTS:
        yield from fields.objects(status, field, "status.")


def troubles(status: Mapping[str, Any]) -> list[Trouble]:
    """Return each container that waits or has failed, after the Pod's own reason, if any.

    Raises `ValueError` with the path of the bad field.

    >>> [found] = troubles({"containerStatuses": [{"name": "a", "state": {"terminated": {"exitCode": 3}}}]})
    >>> found.state.value, found.sentence
    ('ended', 'container a ended with exit code 3')
    """
    return [*_of_pod(status), *(found for container in reported(status) for found in _of_container(container))]


def stuck_of(status: Mapping[str, Any]) -> str:
    """Return why the first container that waits does not run, in one line; empty if none waits.

    Raises `ValueError` with the path of the bad field.

    >>> waits = {"reason": "CreateContainerConfigError", "message": 'configmap "nope" not found'}
    >>> stuck_of({"containerStatuses": [{"name": "web", "state": {"waiting": waits}}]})
    'container web waits: CreateContainerConfigError: configmap "nope" not found'
    """
    for container in reported(status):
        # Most are ready: they cost no more than this.
        for found in _of_container(container) if container.get("ready") is not True else ():
            if found.state is State.WAITS:
                return found.sentence[:STUCK_CHARS]
    return ""


def state_of(container: Mapping[str, Any], state: str, kind: str) -> Mapping[str, Any]:
    """Return what `state` or `lastState` says of this kind: running, waiting, terminated. Raises `ValueError`."""
    return fields.mapping(fields.mapping(container, state), kind, f"{state}.")


def _of_pod(status: Mapping[str, Any]) -> Iterator[Trouble]:
    if status.get("reason"):
        yield _trouble(None, State.FAILED, status)


def _of_container(container: Mapping[str, Any]) -> Iterator[Trouble]:
    name = fields.optional(container, "name")
    waits, ended = state_of(container, "state", "waiting"), state_of(container, "state", "terminated")
    before = state_of(container, "lastState", "terminated")
    restarts = fields.integer(container, "restartCount", "")
    if ended.get("exitCode"):
        yield _trouble(name, State.ENDED, ended, restarts=restarts)
    elif waits:
        yield _trouble(name, State.WAITS, waits, restarts=restarts, before=before)
    elif restarts and before.get("exitCode"):
        yield _trouble(name, State.RESTARTED, before, restarts=restarts)


def _trouble(
    name: str | None, state: State, why: Mapping[str, Any], *, restarts: int = 0, before: Mapping[str, Any] = _NONE
) -> Trouble:
    end = before or why
    return Trouble(
        name=name, state=state, exit_code=fields.integer(end, "exitCode", "") if "exitCode" in end else None,
        reason=_line(why, "reason"), message=_line(why, "message"), restarts=restarts,
        ended_reason=_line(before, "reason"), ended_message=_line(before, "message"),
    )  # fmt: skip


def _line(of: Mapping[str, Any], key: str) -> str:
    # Messages of runtimes have line breaks.
    return " ".join(fields.optional(of, key).split())


def _joined(what: str, why: str) -> str:
    return ": ".join(filter(None, (what, why)))
