"""The CPU's ceiling, which a node that stayed below it lately may exceed for a while.

Where more Pods wait than fit, packing denser makes Pods slower and the job hardly faster; where the last ones of a job
wait for a node to come free, or a short job finds a cluster at rest, a Pod more on each node saves a whole life of
waiting. A node cannot see the queue, but a node that was not full lately stands for the second case.
"""

from carico_core.numerics.estimators import base

# Nothing is admitted above this: from .97 on a filtered reading says "at least" only.
MOST = 0.9
# One runnable task a core, on the scale where 1 is two: below it nobody waits, and there is nothing to lend.
UNCONTENDED = 0.5


class BurstCeiling:
    """ceiling + share x (ceiling - .5) x (1 - mean usage / ceiling), the mean over `memory_s`."""

    __slots__ = ("_ceiling", "_memory_s", "_share", "_used")

    def __init__(self, ceiling: float, *, share: float, memory_s: float) -> None:
        self._ceiling = ceiling
        self._share = share
        self._memory_s = memory_s
        self._used = 0.0

    def tick(self, usage: float, dt_s: float) -> None:
        """Move on by one sample of usage in [0, 1]."""
        self._used += base.approached(dt_s, self._memory_s) * (usage - self._used)

    @property
    def value(self) -> float:
        """The ceiling now, never below the one that was set.

        >>> BurstCeiling(0.74, share=0.25, memory_s=15.0).value, BurstCeiling(0.5, share=0.25, memory_s=15.0).value
        (0.8, 0.5)
        """
        contended = max(0.0, self._ceiling - UNCONTENDED)
        unused = 1.0 - self._used / self._ceiling
        return max(self._ceiling, min(self._ceiling + self._share * contended * unused, MOST))
