"""One run in virtual time: Pods arrive, each scheduler decides on its share, and Pods end.

Which member decides on a Pod, which node is whose home, how nodes rank and whether a Pod still fits are the scheduler
service's own rules (`sharing.shares`, `homes`, `fits`, and its cycle).
"""

import collections
import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from carico_scheduler.decide import cycle
from carico_scheduler.nodes import snapshot
from carico_scheduler.sharing import shares
from carico_twin import virtual_time
from carico_twin.evaluate.sharing import choices, cluster, correction, paper, placing, pods
from carico_twin.evaluate.sharing import member as members
from carico_twin.evaluate.sharing import setup as setups

_SAMPLE_EVERY_S = 0.1
_CORRECTION = "correction"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a run has measured, after its warm-up.

    commits: changes sent to the stream (all-or-nothing: whole batches). conflicts: those refused. retries: Pods whose
    claim was sent again. given_up: claims lost; requeued: the Pods that had to wait for that, and were not decided on
    again at once. busy: mean share of the time in which a scheduler decides or commits. waiting_s: from the arrival of
    each Pod until it may be bound, or to the end of the run. chosen_pods: Pods on a node before another is placed
    there, mean. deviation: standard deviation of Pods between nodes, mean over time. corrected: Pods that the paper's
    correction function has placed; cases: how often it decided what on a Pod (`paper.Case`).
    """

    arrived: int
    placed: int
    commits: int
    conflicts: int
    retries: int
    given_up: int
    requeued: int
    busy: float
    waiting_s: Sequence[float]
    chosen_pods: float
    deviation: float
    corrected: int = 0
    cases: Mapping[str, int] = dataclasses.field(default_factory=dict)


class Model:
    """One run."""

    def __init__(self, setup: setups.Setup) -> None:
        self.setup = setup
        self.timeline = virtual_time.Timeline()
        # Apart, so that Pods arrive at the same times and live as long whatever the schedulers do.
        streams = np.random.SeedSequence(setup.seed).spawn(3)
        self.rng, self._arrivals, self._lives = map(np.random.default_rng, streams)
        self.truth = cluster.Truth(setup)
        self.pods: list[pods.Pod] = []
        self.counts: collections.Counter[str] = collections.Counter()
        self._chosen: list[int] = []
        self._waited_s: list[float] = []
        self._deviations: list[float] = []
        count = 1 if setup.mode is setups.Mode.LEADER else setup.schedulers
        names = [f"scheduler-{index}" for index in range(count)]
        static = cluster.static(setup)
        self.members = {name: members.Member(self, name, self._parts(name, names, static)) for name in names}
        full = cluster.View(self.truth, static, own=_CORRECTION, delay_s=0.0, usable=static.schedulable)
        whole = placing.ByWalk(paper.Walk(setup.score_percent, self.rng))
        self.correction = correction.Correction(self, _CORRECTION, members.Parts(view=full, placing=whole))

    def _parts(self, name: str, names: Sequence[str], static: snapshot.Snapshot) -> members.Parts:
        """Return what one of the schedulers `names` decides by."""
        setup = self.setup
        usable = static.schedulable
        if setup.mode is setups.Mode.PARTITIONED:
            at_home = shares.Homes(name, fuller_pods=1.0)
            at_home.set_members(names)
            usable = at_home.fuller(static) == 0.0
        view = cluster.View(self.truth, static, own=name, delay_s=setup.view_s, usable=usable)
        if setup.mode is setups.Mode.PAPER:
            return members.Parts(view=view, placing=placing.ByWalk(paper.Walk(setup.score_percent, self.rng)))
        cycles = cycle.Cycle(cluster.RULES, ranking=choices.ranking(setup, name, names, self.rng))
        return members.Parts(view=view, placing=placing.ByCycle(cycles))

    @property
    def is_measured(self) -> bool:
        """True after the warm-up."""
        return self.timeline.now_s >= self.setup.warm_up_s

    def run(self) -> Figures:
        """Run to the end, and return the figures."""
        setup = self.setup
        for node, count in enumerate(self.truth.pods.tolist()):
            for _ in range(count):
                self._end_later(node)
        self._arrive_later()
        self.timeline.at(setup.warm_up_s, self._sample)
        self.timeline.run(until_s=setup.warm_up_s + setup.measured_s, done=lambda: False)
        return self._figures()

    def arrive(self, count: int) -> None:
        """Let Pods arrive now."""
        for _ in range(count):
            pod = pods.Pod(uid=f"pod-{self.setup.seed}-{len(self.pods)}", arrived_s=self.timeline.now_s)
            self.pods.append(pod)
            self.offer(pod)

    def offer(self, pod: pods.Pod) -> None:
        """Give a Pod to the scheduler that decides on it."""
        owner = shares.owner(pod.uid, self.members)
        assert owner is not None, "there is no scheduler"
        self.members[owner].offer(pod)

    def correct(self, pod: pods.Pod, node: int | None) -> None:
        """Give a Pod to the correction function: it was turned away from a node, or (None) found none."""
        self.correction.correct(pod, node)

    def store(self, node: int, scheduler: str, requests: Sequence[pods.Request]) -> int:
        """Place Pods on a node for good; return the commit's number."""
        if self.is_measured:
            before = int(self.truth.pods[node])
            self._chosen += range(before, before + len(requests))
        seq = self.truth.store(node, scheduler, [each.pod.uid for each in requests], self.timeline.now_s)
        for each in requests:
            assert not each.pod.is_placed, f"{each.pod.uid} was placed twice"
            each.pod.is_placed = True
            if scheduler == _CORRECTION and self._counts(each.pod):
                self.counts["corrected"] += 1
            self._end_later(node)
        return seq

    def bound(self, requests: Sequence[pods.Request]) -> None:
        """Note that these Pods may be bound."""
        now_s = self.timeline.now_s
        self._waited_s += [now_s - each.pod.arrived_s for each in requests if self._counts(each.pod)]

    def lost(self, pod: pods.Pod) -> None:
        """Note that a claim was given up."""
        pod.losses += 1
        if self._counts(pod):
            self.counts["given_up"] += 1

    def count(self, name: str, by: int = 1) -> None:
        """Count during the measured time."""
        if self.is_measured:
            self.counts[name] += by

    def _counts(self, pod: pods.Pod) -> bool:
        return pod.arrived_s >= self.setup.warm_up_s

    def _end_later(self, node: int) -> None:
        life_s = self.setup.life_s * self._lives.standard_exponential()
        self.timeline.after(life_s, lambda: self.truth.end(node, self.timeline.now_s))

    def _arrive_later(self) -> None:
        setup = self.setup
        if setup.pods_per_s > 0.0:
            self.timeline.after(setup.burst / setup.pods_per_s * self._arrivals.standard_exponential(), self._arrive)

    def _arrive(self) -> None:
        self.arrive(self.setup.burst)
        self._arrive_later()

    def _sample(self) -> None:
        self._deviations.append(float(self.truth.pods.std()))
        self.timeline.after(_SAMPLE_EVERY_S, self._sample)

    def _figures(self) -> Figures:
        counted = [pod for pod in self.pods if self._counts(pod)]
        end_s = self.timeline.now_s
        # Those without an answer at the end count too: otherwise schedulers that are too slow would look fast.
        waits = [end_s - pod.arrived_s for pod in counted if not pod.is_placed]
        busy = [member.busy_s for member in self.members.values()]
        return Figures(
            arrived=len(counted), placed=sum(pod.is_placed for pod in counted), commits=self.counts["commits"],
            conflicts=self.counts["conflicts"], retries=self.counts["retries"], given_up=self.counts["given_up"],
            requeued=sum(pod.has_waited for pod in counted), busy=float(np.mean(busy)) / self.setup.measured_s,
            waiting_s=[*self._waited_s, *waits], chosen_pods=float(np.mean(self._chosen)) if self._chosen else 0.0,
            deviation=float(np.mean(self._deviations)) if self._deviations else 0.0, corrected=self.counts["corrected"],
            cases={each.value: self.counts[each.value] for each in paper.Case if self.counts[each.value]},
        )  # fmt: skip
