"""The scheduling correction function of the paper: one more scheduler, for Pods that others could not place.

Its view is never old. It serves its queue by the highest S' (`paper`). What nodes report of waits is modelled: one with
room has none; on a full one a Pod ends after its mean life divided by the number of Pods. A node that is full answers a
query as late as a commit takes, an empty one at once.
"""

import collections
import dataclasses
import statistics

from carico_twin.evaluate.sharing import member, paper, pods


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class _Estimate:
    """The wait and the response time of the node from which a Pod was turned away, as then reported."""

    wait_s: float
    response_s: float


class Correction(member.Member):
    """The correction function: it decides on Pods that another scheduler has lost or found no node for."""

    def __init__(self, run: member.Run, name: str, parts: member.Parts) -> None:
        super().__init__(run, name, parts)
        # Only to learn which share of all nodes is feasible.
        self._survey = paper.Walk(100.0, run.rng)
        self._estimates: dict[str, _Estimate] = {}

    def correct(self, pod: pods.Pod, node: int | None) -> None:
        """Queue a Pod that was turned away from a node, or (None) found none."""
        self._estimates[pod.uid] = self._estimate(node)
        self.offer(pod)

    def order(self) -> list[str]:
        """Return the UIDs of the Pods that wait, the most urgent first."""
        return [pod.uid for pod in self._by_urgency()]

    def _by_urgency(self) -> list[pods.Pod]:
        return sorted(self._queue, key=lambda pod: -self._urgency_s(pod))

    def _next_batch(self) -> list[pods.Pod]:
        """Take the most urgent Pods, unless P_C says that the correction function must not place them now."""
        mean_s = statistics.fmean(self._urgency_s(pod) for pod in self._queue)
        _, feasible = self._survey.find(self.view)
        chosen = paper.case(feasible, self._run.setup.life_s / mean_s)
        if chosen is paper.Case.RESCHEDULE:
            self._run.count(chosen.value, len(self._queue))
            for pod in self._queue:
                self._estimates[pod.uid] = self._estimate(None)
            return []
        self._queue = collections.deque(self._by_urgency())
        batch = super()._next_batch()
        self._run.count(chosen.value, len(batch))
        if chosen is paper.Case.OPTIMAL:
            for pod in batch:
                self._run.offer(pod)
            return []
        return batch

    def _urgency_s(self, pod: pods.Pod) -> float:
        """Return S' of a Pod. All have the same runtime, which is also the mean."""
        found, runtime_s = self._estimates[pod.uid], self._run.setup.life_s
        return paper.urgency_s(found.wait_s, runtime_s, runtime_s, found.response_s)

    def _estimate(self, node: int | None) -> _Estimate:
        """Return what a node reports; None: the one with the fewest Pods."""
        truth, setup = self._run.truth, self._run.setup
        count = int(truth.pods.min()) if node is None else int(truth.pods[node])
        wait_s = setup.life_s / count if count >= truth.limit else 0.0
        return _Estimate(wait_s=wait_s, response_s=setup.commit_s * count / truth.limit)
