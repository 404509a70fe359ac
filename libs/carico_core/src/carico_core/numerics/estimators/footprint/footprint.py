"""`footprint`, the default: the cost of a Pod per class and dimension, with its growth and lifetime."""

import math
from collections.abc import Mapping, Sequence

from carico_core.domain import messages, names
from carico_core.numerics.estimators import base
from carico_core.numerics.estimators.footprint import (
    admission,
    class_costs,
    cluster_evidence,
    dimension,
    footprint_constants,
    growth,
    population,
)

# Classes that only other nodes have measured and that are advertised as well: at most this many, by number of Pods.
CLASSES_STATED = 48
# From this age on, a running Pod is evidence for its class: it has passed five segments of its profile.
STOOD_S = 16.0


FootprintConstants = footprint_constants.FootprintConstants
DEFAULT = footprint_constants.DEFAULT


class Footprint:
    """One `ClassCosts` per dimension, and the Pods of the node by class."""

    __slots__ = (
        "_ceilings", "_cluster", "_config", "_constants", "_costs", "_counted_in", "_full", "_peak_pods", "_pods",
        "_ticked", "_trial",
    )  # fmt: skip

    def __init__(self, config: base.EstimatorConfig, constants: FootprintConstants = DEFAULT) -> None:
        self._config = config
        self._constants = constants
        self._costs = [
            class_costs.ClassCosts(facts, constants.per_dimension, grows=dim in admission.STOCKS)
            for dim, facts in zip(config.dims, dimension.facts_of(config), strict=True)
        ]
        # The dimension whose filter counts Pods: the one that shows them first.
        self._counted_in = config.dims.index("cpu") if "cpu" in config.dims else 0
        self._full = admission.FullShare(len(config.dims), full_from=base.CENSORED_FROM)
        growing = [index for index, each in enumerate(self._costs) if each.grows]
        self._pods = population.Population(config, constants, growing=growing)
        self._ceilings: list[float] = config.ceiling.tolist()
        self._hold()
        self._trial = admission.Trial()
        self._ticked = False
        self._peak_pods = 0.0
        self._cluster = cluster_evidence.ClusterEvidence(
            between_nodes=constants.per_dimension.between_nodes,
            most_classes=CLASSES_STATED if constants.federated else 0,
        )

    def follow(self, running: Mapping[str, str]) -> None:
        """Take in which workload Pods run now (UID to class), after each change."""
        self._pods.follow(running)
        self._hold()
        self._trial.changed()

    @property
    def eager(self) -> bool:
        """Whether only one class has run here, for so short a time that a few samples add much."""
        return self._pods.eager

    def _hold(self) -> None:
        """Keep the costs of the population's classes."""
        names = sorted(self._pods.classes)
        for each in self._costs:
            each.hold(names)

    def use(self, model: messages.GlobalModel) -> None:
        """Use what the cluster has measured, without this node's part."""
        self._cluster.take(model.evidence)
        if not self._constants.federated:
            return
        for dim, each in zip(self._config.dims, self._costs, strict=True):
            each.use_peers(self._cluster.of_others(model.evidence, dim))

    def tick(self, sample_y: Sequence[float], gains: Sequence[float], pods: int, dt_s: float) -> None:
        """Filter the Pod count of each class in each dimension, with the sample's own gains."""
        steps = base.steps(gains, len(self._config.dims))
        if steps is None:
            return
        elapsed_s = base.elapsed(dt_s)
        self._trial.tick(elapsed_s)
        if self._pods.count(pods):
            self._hold()
            self._trial.changed()
        self._full.tick(sample_y, steps)
        self._pods.tick(steps, elapsed_s)
        self._ticked = True

    def update(self, observation: base.Observation) -> base.CapacityEstimate:
        """Return the estimate after learning from one more second."""
        usages, whole = base.usage(observation.y)
        if not self._ticked:
            self.tick(observation.y.tolist(), observation.gains.tolist(), observation.pods, observation.dt_s)
        self._ticked = False
        if whole:
            self._learn(usages, base.elapsed(observation.dt_s))
        estimate = self.estimate(observation)
        if whole:
            self._cluster.contribute(estimate.evidence or {}, base.elapsed(observation.dt_s))
        return estimate

    def estimate(self, observation: base.Observation) -> base.CapacityEstimate:
        """Return what fits below every ceiling, per class and for the typical Pod."""
        usages, _ = base.usage(observation.y)
        counted = self._pods.counted(observation.pods)
        dims = self._config.dims
        full = self._full.full(usages)
        lives_s = self._pods.longest_lives_s()
        headroom = [
            self._headroom(index, usage, counted, lives_s, full=end)
            for index, (usage, end) in enumerate(zip(usages, full, strict=True))
        ]
        plus = self._cost_plus(headroom, lives_s)
        typical = self._typical_cost(plus)
        limit = self._limit(observation.peak_pods_per_core)
        pods = float(sum(counted.values()))
        found = admission.fit(headroom, typical, pods=pods, most_pods=limit, closed=admission.is_guarded(usages))
        by_class = self._pods.shown(self._counted_in)
        shown = sum(by_class.values())
        spreads = [self._mean_cost(each, by_class, shown, lives_s) for each in self._costs]
        # To first order: sd(H / c+)^2 = (sd_H^2 + (H / c+)^2 sd_c^2) / c+^2
        sds = [
            math.hypot(each.noise, found.capacity * spread) / cost_plus
            for each, (_, spread), cost_plus in zip(self._costs, spreads, typical, strict=True)
        ]
        return base.CapacityEstimate(
            capacity=found.capacity,
            capacity_sd=min(max(sds) if found.bottleneck is None else sds[found.bottleneck], base.CAPACITY_CAP),
            bottleneck=None if found.bottleneck is None else dims[found.bottleneck],
            mode=admission.mode(
                full=any(full), measured=any(each.measured for each in self._costs), ahead_pods=pods - shown
            ),
            baseline={dim: each.baseline_spread for dim, each in zip(dims, self._costs, strict=True)},
            cost=dict(zip(dims, spreads, strict=True)),
            filtered_pods=shown,
            headroom=dict(zip(dims, headroom, strict=True)),
            cost_plus={name: dict(zip(dims, costs, strict=True)) for name, costs in plus.items()},
            limit=limit,
            evidence=self._evidence(counted, lives_s) or None,
            class_pods=dict(counted),
            lifetimes_s=self._pods.lifetimes.means_s() or None,
            guessed=frozenset(name for name, count in counted.items() if count and not self._is_measured(name)),
        )

    def _is_measured(self, name: str) -> bool:
        return all(each.is_measured(name) for each in self._costs)

    def _learn(self, usages: list[float], dt_s: float) -> None:
        full = self._full.full(usages)
        for index, (each, usage, end) in enumerate(zip(self._costs, usages, full, strict=True)):
            shown = self._pods.shown_by_part(index) if each.grows else {}
            counted = {name: parts[0] for name, parts in shown.items()} if each.grows else self._pods.shown(index)
            each.learn(usage, counted, shown, censored=end and self._constants.censored, dt_s=dt_s)
        keep = 0.5 ** (dt_s / self._config.peak_half_life_s)
        self._peak_pods = max(self._peak_pods * keep, sum(self._pods.shown(self._counted_in).values()))

    def _headroom(
        self, index: int, usage: float, counted: Mapping[str, int], lives_s: Mapping[str, float], *, full: bool
    ) -> float:
        """Return H = ceiling S - now - growth."""
        each = self._costs[index]
        scale = each.facts.scale
        level = usage * scale
        by_part = self._pods.now_by_part(counted) if each.grows else {}
        if each.grows:
            expected = each.expected_by_part(by_part)
            shown = each.expected_by_part(self._pods.shown_by_part(index))
        else:
            expected = each.expected({name: float(count) for name, count in counted.items()})
            shown = each.expected(self._pods.shown(index))
        # now = Y + sum c (n - x): adds Pods that usage does not show yet, subtracts those that ended but still show.
        now = level + expected - shown
        if full or each.grows:
            # A full node reads the same whatever runs on it, and memory that Pods are still filling is as good as
            # used: if the model expects more, it counts.
            now = max(now, each.floor + expected)
        now = max(now, min(level, each.floor))
        headroom = self._ceilings[index] * scale - now
        for name, parts in by_part.items():
            life_s = lives_s.get(name, growth.UNKNOWN_LIFE_S)
            headroom -= each.left_to_grow(name, parts, float(counted[name]), life_s)
        return headroom

    def _cost_plus(self, headroom: Sequence[float], lives_s: Mapping[str, float]) -> dict[str, list[float]]:
        """Return c+ per class and dimension: of the classes here, of those that peers measured, and of a new one."""
        others = [name for name in self._cluster.classes if name not in lives_s]
        all_s = {**lives_s, **dict.fromkeys((*others, messages.NEW_CLASS), growth.UNKNOWN_LIFE_S)}
        return {
            name: [self._plus(index, name, life_s, room) for index, room in enumerate(headroom)]
            for name, life_s in all_s.items()
        }

    def _plus(self, index: int, name: str, life_s: float, room: float) -> float:
        each = self._costs[index]
        plus = each.plus(name, life_s, self._constants.risk_sd)
        half = admission.FROM * self._ceilings[index] * each.facts.scale
        if plus <= half or room < half:
            return plus
        runs = self._pods.running.get(name, 0) > 0
        is_unknown = each.is_unknown(name, runs=runs)
        if not self._trial.is_due(is_unknown=is_unknown, runs=runs):
            return plus
        # CPU can be shared in time; what a Pod holds cannot.
        least = each.cost(name, life_s)[0] if each.grows and not is_unknown else 0.0
        return admission.cost_plus(plus, room=room, half=half, least=least)

    def _typical_cost(self, plus: Mapping[str, list[float]]) -> list[float]:
        """Return c+ weighted by the running Pods of each class in the cluster; that of a new class if none runs."""
        known = {
            name: weight
            for name, weight in (self._cluster.pods or self._pods.running).items()
            if name in plus and weight > 0
        }
        total = sum(known.values())
        if total <= 0.0:
            return plus[messages.NEW_CLASS]
        return [
            sum([weight * plus[name][index] for name, weight in known.items()]) / total
            for index in range(len(self._costs))
        ]

    def _limit(self, peak_pods_per_core: float) -> int:
        return admission.limit(
            self._config,
            own_peak_pods=self._peak_pods,
            peak_pods_per_core=peak_pods_per_core,
            growth=self._constants.growth,
            unknown_per_core=self._constants.unknown_per_core,
        )

    def _mean_cost(
        self, each: class_costs.ClassCosts, shown: Mapping[str, float], total: float, lives_s: Mapping[str, float]
    ) -> base.Spread:
        """Return (mean, sd) of the mean cost of the Pods that show on this node; of a new class if none shows."""
        if total <= 0.0:
            return each.cost(messages.NEW_CLASS, growth.UNKNOWN_LIFE_S)
        if len(shown) == 1:
            # The usual case, at every estimate: no sums of one term.
            (name,) = shown
            return each.cost(name, lives_s[name])
        parts = [(count / total, each.cost(name, lives_s[name])) for name, count in shown.items()]
        return sum(share * cost[0] for share, cost in parts), sum(share * cost[1] for share, cost in parts)

    def _evidence(
        self, counted: Mapping[str, int], lives_s: Mapping[str, float]
    ) -> dict[str, dict[str, base.Evidence]]:
        found: dict[str, dict[str, base.Evidence]] = {}
        for dim, each in zip(self._config.dims, self._costs, strict=True):
            for name, life_s in lives_s.items():
                evidence = self._evidence_of(each, name, life_s)
                if evidence is not None:
                    found.setdefault(name, {})[dim] = evidence
        if len(found) <= messages.REPORTED_MOST:
            return found
        # Here, so that the node subtracts from the cluster's evidence what it has reported, and no more.
        kept = names.largest({name: counted.get(name, 0) for name in found}, messages.REPORTED_MOST)
        return {name: found[name] for name in kept}

    def _evidence_of(self, each: class_costs.ClassCosts, name: str, life_s: float) -> base.Evidence | None:
        known = self._pods.lifetimes
        if not each.grows or known.is_known(name):
            return each.evidence(name, life_s)
        # Other nodes take evidence for the whole cost, and a Pod's beginning says little about that.
        oldest_s = max(known.ages_s(name), default=0.0)
        return each.standing_evidence(name, oldest_s) if oldest_s >= STOOD_S else None
