"""Whether what a plan gains has lasted: it must have paid by the readings of the rounds before as well. Pure.

Readings vary, by some per cent from minute to minute under steady load. Of all placements a search finds the one that
seems best by those of one moment: in a full cluster there is always one, and by the next readings it is another, so
Pods would keep moving for nothing. What rests on a coincidence does not pay by other readings.
"""

import collections
import dataclasses
from collections.abc import Mapping

import numpy as np

from carico_core.numerics.rescheduling.containers import gains, model
from carico_rescheduler.context import problem as contexts
from carico_rescheduler.plan import decision, planning

# Rounds before this one by whose readings a plan must pay. In a cluster with all cores in use and readings that vary by
# 5 %, four of seven plans that in truth lose still seem to pay by one of them, and none of five by all three.
ROUNDS = 3


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Readings:
    """Tasks of Pods and of nodes themselves, and bytes per second between two Pods, by UIDs and names."""

    at_s: float
    tasks: Mapping[str, float]
    traffic: Mapping[tuple[str, str], float]


class Lasting:
    """The readings of the last rounds, which begin every `every_s` seconds."""

    def __init__(self, *, every_s: float) -> None:
        # Older ones are of another load. A round may come late.
        self._age_most_s = (ROUNDS + 1) * every_s
        self._rounds: collections.deque[_Readings] = collections.deque(maxlen=ROUNDS)

    def note(self, context: contexts.Context, now_s: float) -> None:
        """Take in the readings of a round. `now_s`: on the monotonic clock."""
        names = _names(context)
        problem = context.problem
        traffic = {
            (names[one], names[other]): amount
            for (one, other), amount in zip(problem.pairs.tolist(), problem.traffic.tolist(), strict=True)
        }
        tasks = dict(zip(names, problem.tasks.tolist(), strict=True))
        self._rounds.append(_Readings(at_s=now_s, tasks=tasks, traffic=traffic))

    def forget(self) -> None:
        """Begin again: Pods have moved, and have other names since."""
        self._rounds.clear()

    def why_not(self, context: contexts.Context, plan: decision.Plan, rule: decision.Rule, now_s: float) -> str:
        """Return why a plan is not carried out now; empty if it would have paid in each of the last rounds."""
        while self._rounds and now_s - self._rounds[0].at_s > self._age_most_s:
            self._rounds.popleft()
        after = planning.placement(context, plan.moves)
        price = sum(each.cost_task_s / each.horizon_s for each in plan.moves)
        for ago, readings in enumerate(reversed(self._rounds), 1):
            problem = _as_read(context, readings)
            ended_bytes = model.cntc(problem, problem.present) - model.cntc(problem, after)
            ended_tasks = gains.excess_tasks(problem, problem.present) - gains.excess_tasks(problem, after)
            pays = rule.weights.gain(ended_bytes, ended_tasks) > price
            if not (pays and rule.is_enough(ended_bytes, ended_tasks)):
                rounds = "a round" if ago == 1 else f"{ago} rounds"
                return f"what would be moved did not pay by the readings of {rounds} before: it has not lasted"
        return ""


def _as_read(context: contexts.Context, readings: _Readings) -> model.Problem:
    """Return the problem as it is, with earlier readings. What had none then is as it is now."""
    names, problem = _names(context), context.problem
    numbers = {name: number for number, name in enumerate(names)}
    is_new = [name not in readings.tasks for name in names]
    new = np.array(is_new, dtype=bool)[problem.pairs].any(axis=1)
    pairs = [
        (numbers[one], numbers[other], amount)
        for (one, other), amount in readings.traffic.items()
        if one in numbers and other in numbers
    ]
    return dataclasses.replace(
        problem,
        tasks=np.array([readings.tasks.get(name, now) for name, now in zip(names, problem.tasks, strict=True)]),
        pairs=np.concatenate([problem.pairs[new], np.array([each[:2] for each in pairs]).reshape(-1, 2)]),
        traffic=np.concatenate([problem.traffic[new], np.array([each[2] for each in pairs])]),
    )


def _names(context: contexts.Context) -> list[str]:
    """Return a name of each container: the UID of a Pod, the name of a node for what belongs to it."""
    return [*(pod.uid for pod in context.pods), *(f"node/{name}" for name in context.nodes)]
