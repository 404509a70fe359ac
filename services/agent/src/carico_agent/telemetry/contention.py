"""A node's CPU pressure without the part that the limits of its own Pods explain. Pure.

PSI counts a task that waits for its quota as one that waits for a CPU, so one Pod limited to 0.2 CPU makes an idle
node read .80. With R tasks running and W waiting on average, and C CPUs, the kernel's non-idle-weighted mean is

    P = W / B,   B = min(C, max(1, R + W))            (B: CPUs that are not idle)

R is known (utilisation x CPUs), so W follows from P. The Pods' own cpu.stat shows how many of the W are throttled, T
(mean number of CPUs on which a Pod's tasks are held back), so the remaining contention is

    P' = max(0, W - T) / min(C, max(1, R + max(0, W - T)))

P' is never negative and never above P. At P = 1 only W >= C is known; then P' is too low by at most T / C.
The quota of an emulated node is not a Pod's, so it stays in P: it limits the node.
"""

import collections
import dataclasses

# Throttled time is counted when a period ends (100 ms by default), so one sample may contain none or two of them.
WINDOW_S = 2.0


def waiting_tasks(pressure: float, *, running: float, cpus: float) -> float:
    """Return W, the mean number of waiting tasks for a pressure.

    >>> round(waiting_tasks(0.8, running=0.2, cpus=8), 3)
    0.8
    """
    if pressure >= 1.0:
        return cpus
    # W = P (R + W), then clipped such that 1 <= R + W <= C.
    waiting = pressure * running / (1.0 - pressure)
    return pressure * min(cpus, max(1.0, running + waiting))


def without_throttling(pressure: float, *, running: float, throttled: float, cpus: float) -> float:
    """Return P', the pressure without the `throttled` tasks, which wait for their own Pod's quota.

    >>> without_throttling(0.8, running=0.2, throttled=0.8, cpus=4)
    0.0
    """
    if throttled <= 0.0 or pressure <= 0.0:
        return pressure
    left = max(0.0, waiting_tasks(pressure, running=running, cpus=cpus) - throttled)
    return min(pressure, left / min(cpus, max(1.0, running + left)))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One sample: its length, and the CPU-seconds in which tasks waited (PSI), ran, and were throttled."""

    elapsed_s: float
    pressed_s: float
    ran_s: float
    throttled_s: float


class Correction:
    """Removes the part of pressure that throttling explains, over the last two seconds."""

    def __init__(self, *, cpus: float) -> None:
        self._cpus = cpus
        self._spans: collections.deque[Span] = collections.deque()

    def clear(self) -> None:
        """Clear the window."""
        self._spans.clear()

    def apply(self, pressure: float, span: Span, *, in_progress_s: float) -> float:
        """Return the sample's pressure without the explained part.

        `in_progress_s`: upper bound of throttled time that is not counted yet.
        """
        self._spans.append(span)
        elapsed_s = sum(one.elapsed_s for one in self._spans)
        while len(self._spans) > 1 and elapsed_s - self._spans[0].elapsed_s >= WINDOW_S:
            elapsed_s -= self._spans.popleft().elapsed_s
        throttled_s = sum(one.throttled_s for one in self._spans)
        if elapsed_s <= 0.0 or throttled_s <= 0.0:
            return pressure
        mean = min(1.0, sum(one.pressed_s for one in self._spans) / elapsed_s)
        left = without_throttling(
            mean,
            running=sum(one.ran_s for one in self._spans) / elapsed_s,
            throttled=(throttled_s + in_progress_s) / elapsed_s,
            cpus=self._cpus,
        )
        # The sample is reduced in proportion, so that a calm moment stays calm.
        return pressure * (left / mean) if mean > 0.0 else pressure
