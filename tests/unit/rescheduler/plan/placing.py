"""A scheduler that places one Pod at a time on nodes of four cores, with the service's own state and cycle."""

import random
from collections.abc import Mapping

from carico_core.domain import constraints, selectors
from carico_scheduler.decide import cycle
from carico_scheduler.rules import policy
from carico_scheduler.state import node_state, state
from tests.unit.scheduler import objects

NOW_S = 100.0
# The tasks up to which a node of four cores is filled, and of a Pod that is not known yet.
MOST_TASKS, COST = 6.0, 1.0


def capacity(tasks: float) -> float:
    """What the node's agent advertises: how many more Pods it takes."""
    return max(0.0, (MOST_TASKS - tasks) / COST)


def node_for(tasks: Mapping[str, float], name: str, *, target: str | None = None, seed: int = 0) -> str | None:
    """Return where the scheduler places a Pod, on its target alone if there is one; None: nowhere.

    tasks: those of each node, all of Pods that its advertisement covers.
    """
    rules = policy.Policy()
    made = state.State(rules, random.Random(seed))
    for node, has in tasks.items():
        made.put_node(objects.make_node(node))
        said = objects.make_advertisement(node, capacity(has))
        made.put_advertisement(node_state.Heard(advertisement=said, sampled_s=NOW_S), NOW_S)
    limits = None
    if target is not None:
        named = selectors.Requirement(key="metadata.name", operator=selectors.IN, values=(target,))
        limits = constraints.Constraints(node_terms=(selectors.NodeTerm(fields=(named,)),))
    made.put_pod(objects.make_pod(name, constraints=limits), NOW_S)
    found = cycle.Cycle(rules).run(made.fleet.snapshot(NOW_S), made.queue, most=1)
    return found.placed[0].row.node.name if found.placed else None
