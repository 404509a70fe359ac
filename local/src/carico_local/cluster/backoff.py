"""When a crashed service is started again: at once the first time, then as the kubelet does (CrashLoopBackOff)."""

import dataclasses

# https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#restart-policy : 10 s, 20 s, 40 s, ..., at most
# 300 s, and from the start again after 10 minutes without a crash.
FIRST_S, MOST_S, FORGET_S = 10.0, 300.0, 600.0


@dataclasses.dataclass(slots=True)
class CrashLoop:
    """The pauses of one service."""

    _crashes: int = 0

    def pause_s(self, *, ran_s: float) -> float:
        """Seconds to wait before the next start, after a run of `ran_s`."""
        if ran_s >= FORGET_S:
            self._crashes = 0
        self._crashes += 1
        if self._crashes == 1:
            return 0.0
        return float(min(MOST_S, FIRST_S * 2 ** (self._crashes - 2)))
