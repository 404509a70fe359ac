"""What it costs to move a Pod, and the time in which that must pay back. Pure.

Costs and gains have one unit: tasks for some time. While the new Pod starts, its program computes, and the old Pod's
load is there twice. A move pays back if what it gains in the time for which it gains, exceeds that.

    cost = start * (1 + tasks);   price = cost / min(lifetime, HORIZON_S)

with the tasks of the Pod; its price is what a move must gain at least, in tasks.
"""

from collections.abc import Sequence

import numpy as np

from carico_core.domain import names
from carico_core.numerics import arrays
from carico_rescheduler.context import cluster as clusters
from carico_rescheduler.context import objects

# For how long loads and traffic are taken to stay as they are: those of a service follow the hours of a day.
HORIZON_S = 3600.0
# A starting program computes with one task, unless it is made for more.
STARTING_TASKS = 1.0
# Times in objects are whole seconds. A Pod that was not ready for a while seems to have started for as long: what takes
# longer is undone (`--start-s`).
START_LEAST_S, START_MOST_S = 1.0, 300.0


def costs(pods: Sequence[objects.KnownPod], tasks: arrays.Array) -> arrays.Array:
    """Return the cost (P,) of a move of each Pod, in task seconds. tasks (P,): runnable tasks of each."""
    # The shortest of all replicas: each may have been unready since.
    starts: dict[str, float] = {}
    for each in pods:
        starts[each.controller] = min(_start_s(each), starts.get(each.controller, START_MOST_S))
    start_s = np.array([starts[each.controller] for each in pods])
    return start_s * (STARTING_TASKS + tasks)


def horizons(known: clusters.Cluster, pods: Sequence[objects.KnownPod]) -> arrays.Array:
    """Return for how many seconds (P,) a move of each Pod gains: as long as its class lives on average at most."""
    lives = known.lifetimes_s
    return np.array([min(max(lives.get(names.class_of(each.pod), HORIZON_S), 1.0), HORIZON_S) for each in pods])


def _start_s(pod: objects.KnownPod) -> float:
    """Return how long a Pod took to be ready, by the clock of its kubelet; the most if that is not known."""
    if pod.ready_at_s is None or pod.started_at_s is None:
        return START_MOST_S
    return min(max(pod.ready_at_s - pod.started_at_s, START_LEAST_S), START_MOST_S)
