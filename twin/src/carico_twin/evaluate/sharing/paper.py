"""The queue of the hybrid shared-state scheduler, literally as its paper states it.

O.-M. Ungureanu, C. Vladeanu, R. Kooij: "Kubernetes cluster optimization using hybrid shared-state scheduling framework"
(2019), https://doi.org/10.1145/3341325.3341992, section 5 and feature D. Where the paper leaves something undefined:

- Equation 1 divides by the wait time. For a Pod that need not wait the weight is 0 here.
- The weight is negative while the wait is shorter than the mean runtime, which means that a slow node makes its Pods
  less urgent. It is left so.
- Equation 3 compares a ratio of times with a share of nodes. S' is at least the runtime, so the ratio is at most 1, and
  P_C = 1, the "optimal" case, does not occur: it needs no feasible node and a ratio of 0, or only feasible ones and a
  ratio above 1. Rescheduling the whole queue needs a ratio of at most 1/2: waits as long as the runtimes.
- P_C is for Pods that must share a node's resources, of which the model has none. It is applied to every Pod of the
  queue.
- What happens to the queue when no node is feasible is not stated. Its Pods stay there, until there is a node.
"""

import enum

import numpy as np

from carico_twin.evaluate.sharing import cluster


class Case(enum.StrEnum):
    """What the correction function does with a Pod."""

    # It goes back to the scheduler that decides on it.
    OPTIMAL = "optimal"
    # The correction function places it.
    SUB_OPTIMAL = "sub-optimal"
    # Waits are estimated again for the whole queue.
    RESCHEDULE = "reschedule"


def total_s(wait_s: float, runtime_s: float) -> float:
    """Return S, the time from now until a Pod ends."""
    # S_i = Tw_i + R_i
    return wait_s + runtime_s


def weight(mean_runtime_s: float, wait_s: float) -> float:
    """Return w, the weight of a node's response time.

    >>> weight(5.0, 10.0), weight(5.0, 1.0), weight(5.0, 0.0)
    (0.5, -4.0, 0.0)
    """
    # w_i = 1 - Ta / Tw_i (1)
    return 1.0 - mean_runtime_s / wait_s if wait_s > 0.0 else 0.0


def urgency_s(wait_s: float, runtime_s: float, mean_runtime_s: float, response_s: float) -> float:
    """Return S', by which the queue is served: the highest first. `response_s`: how late the node answers a query.

    >>> urgency_s(10.0, 5.0, 5.0, 0.25)
    15.125
    """
    # S'_i = S_i + w_i I_i (2)
    return total_s(wait_s, runtime_s) + weight(mean_runtime_s, wait_s) * response_s


def collocation(feasible: float, ratio: float) -> float:
    """Return P_C. `feasible`: F_n, the share of nodes that were feasible; `ratio`: mean runtime over mean S'.

    >>> collocation(0.75, 0.5), collocation(0.25, 0.5)
    (0.25, 0.25)
    """
    # P_C = 1 - F_n if F_n >= S'bar, else F_n (3)
    return 1.0 - feasible if feasible >= ratio else feasible


def case(feasible: float, ratio: float) -> Case:
    """Return what becomes of a Pod.

    >>> case(0.5, 0.8).value, case(0.4, 0.3).value
    ('sub-optimal', 'reschedule')
    """
    value = collocation(feasible, ratio)
    if value == 1.0:
        return Case.OPTIMAL
    return Case.SUB_OPTIMAL if value < ratio else Case.RESCHEDULE


class Walk:
    """Feasible nodes in the order of the array, until there are enough; the next search continues where this one ended.

    `percent`: `percentageOfNodesToScore`, the share of all nodes that is enough.
    """

    def __init__(self, percent: float, rng: np.random.Generator) -> None:
        self._percent = percent
        self._rng = rng
        self._next = 0

    def find(self, view: cluster.View) -> tuple[int | None, float]:
        """Return the emptiest of the nodes found (None without one), and the share of those looked at with room."""
        count = len(view.pods)
        enough = max(1, round(self._percent / 100.0 * count))
        order = (np.arange(count) + self._next) % count
        # Positions in the walk.
        found = np.flatnonzero(view.pods[order] < view.limit)[:enough]
        looked = int(found[-1]) + 1 if len(found) == enough else count
        self._next = int(order[looked - 1] + 1) % count
        if not len(found):
            return None, 0.0
        pods = view.pods[order[found]]
        # Among the best at random, as kube-scheduler.
        best = found[pods == pods.min()]
        return int(order[best[self._rng.integers(len(best))]]), len(found) / looked
