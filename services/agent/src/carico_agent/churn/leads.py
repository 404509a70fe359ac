"""How long Pods take from the advertisement they were placed by to their start: by that much capacity looks ahead.

Which advertisement it was is written on the Pod, as the API shows it. Whoever may write Pods may write what he likes
there, so it is believed of one that this agent has stamped, lately, and once for each Pod. Pure: time comes with each
call, all of it of one monotonic clock.
"""

import dataclasses
import math
from collections.abc import Callable

# Four minutes at one a second; what is longer ago than the longest lead is of no use.
STAMPS_KEPT = 256
# Pods known at a time: more than a node runs (`settings.POD_LIMIT_MOST`); the oldest gives way.
PODS_KEPT = 1024
# An advertisement is used for 5 s, and a start takes one or two: a Pod that took longer waited for its image or a
# volume, and tells nothing of the next one.
LEAD_MOST_S = 10.0
# In place of the number of an advertisement that was not made here, or not yet: they begin at 1.
_NOT_OURS = 0


@dataclasses.dataclass(slots=True, kw_only=True)
class _Pod:
    """What has been told of a Pod; None: nothing yet."""

    seq: int | None = None
    started_s: float | None = None


class Leads:
    """Brings together what was stamped when, what each Pod was placed by, and when it started, in any order."""

    def __init__(self, boot: str, learn: Callable[[float], None], *, most_s: float = LEAD_MOST_S) -> None:
        """`learn` is given each lead in seconds, from 0 to `most_s`; `boot` is that of the advertisements stamped."""
        self._boot = boot
        self._learn = learn
        self._most_s = most_s
        self._stamped_s: dict[int, float] = {}
        self._pods: dict[str, _Pod] = {}

    def stamped(self, seq: int, now_s: float) -> None:
        """Takes in that the advertisement of this number is made."""
        self._stamped_s[seq] = now_s
        if len(self._stamped_s) > STAMPS_KEPT:
            del self._stamped_s[next(iter(self._stamped_s))]

    def placed(self, uid: str, boot: str, seq: int) -> None:
        """Takes in what a Pod says it was placed by: the first time that it does."""
        pod = self._known(uid)
        if pod.seq is None:
            pod.seq = seq if boot == self._boot and seq in self._stamped_s else _NOT_OURS
            self._match(pod)

    def started(self, uid: str, at_s: float) -> None:
        """Takes in that a Pod runs: the first time, as a container that is started again was not placed again."""
        pod = self._known(uid)
        if pod.started_s is None:
            pod.started_s = at_s
            self._match(pod)

    def _match(self, pod: _Pod) -> None:
        if pod.seq is None or pod.started_s is None:
            return
        lead_s = pod.started_s - self._stamped_s.get(pod.seq, math.inf)
        if 0.0 <= lead_s <= self._most_s:
            self._learn(lead_s)

    def _known(self, uid: str) -> _Pod:
        pod = self._pods.get(uid)
        if pod is None:
            pod = self._pods[uid] = _Pod()
            if len(self._pods) > PODS_KEPT:
                del self._pods[next(iter(self._pods))]
        return pod
