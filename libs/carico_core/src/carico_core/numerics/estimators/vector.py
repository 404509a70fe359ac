"""`vector`: the cost of a Pod in every dimension, in absolute units, one class for all Pods (ours).

Costs per dimension in physical units are disturbed neither by a moving model nor by an unequal node, which is what
no filter on the scalar signal can repair. The steps are those of the design, section 7.
"""

import math
from dataclasses import dataclass, field

from carico_core.numerics import arrays
from carico_core.numerics.estimators import admission, base, counts, resource


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorConstants:
    """Settings beside those of each resource (resource.ResourceConstants).

    start_lag_s: from a container's start to the first usage its telemetry can show.
    risk_sd: standard deviations added to a cost. growth: by which factor an unmeasured load may grow at once.
    unknown_per_core: divided into the cores, it gives the Pods a node may always run (two on four cores).
    """

    start_lag_s: float = 0.2
    risk_sd: float = 1.0
    growth: float = 2.0
    unknown_per_core: float = 1.7
    per_dimension: resource.ResourceConstants = field(default_factory=resource.ResourceConstants)


DEFAULT = VectorConstants()
# The count stands still when it has not changed for as long as the filters need (fast gain .2 at 10 Hz: e^-4 left
# after 2 s), and telemetry shows it to within a tenth of a Pod or 2 %.
SETTLED_S = 2.0
SETTLED_PODS = 0.1
SETTLED_SHARE = 0.02


class Vector:
    """One resource model per dimension, behind one filtered Pod count."""

    __slots__ = ("_config", "_constants", "_counts", "_full", "_peak_pods", "_resources", "_ticked")

    def __init__(self, config: base.EstimatorConfig, constants: VectorConstants = DEFAULT) -> None:
        self._config = config
        self._constants = constants
        self._counts = counts.FilteredCount(len(config.dims), start_lag_s=constants.start_lag_s)
        self._full = counts.FullShare(len(config.dims), full_from=base.CENSORED_FROM)
        self._resources = [resource.Resource(facts, constants.per_dimension) for facts in resource.facts_of(config)]
        self._ticked = False
        self._peak_pods = 0.0

    def tick(self, sample_y: arrays.Array, gains: arrays.Array, pods: int, dt_s: float) -> None:
        """Step 1: take the Pod count through each dimension's filter, at the sample's own gains."""
        steps = base.steps(gains, len(self._config.dims))
        if steps is not None:
            self._full.tick(sample_y.tolist(), steps)
            self._counts.tick(steps, float(max(pods, 0)), base.elapsed(dt_s))
            self._ticked = True

    def update(self, observation: base.Observation) -> base.CapacityEstimate:
        """The estimate after learning baseline and cost from one more second."""
        usages, whole = base.usage(observation.y)
        if not self._ticked:
            self.tick(observation.y, observation.gains, observation.pods, observation.dt_s)
        self._ticked = False
        pods = float(max(observation.pods, 0))
        if whole and self._counts.known:
            self._learn(usages, pods, base.elapsed(observation.dt_s))
        return self.estimate(observation)

    def estimate(self, observation: base.Observation) -> base.CapacityEstimate:
        """Steps 7, 8, 11 and 12: what fits below every ceiling, and what an unmeasured load may grow to."""
        usages, _ = base.usage(observation.y)
        pods = float(max(observation.pods, 0))
        shown = self._counts.values if self._counts.known else [pods] * len(usages)
        full = self._full.full(usages)
        views = [
            model.view(usage, shown=count, pods=pods, full=end, risk_sd=self._constants.risk_sd)
            for model, usage, count, end in zip(self._resources, usages, shown, full, strict=True)
        ]
        limit = self._limit(observation.peak_pods_per_core)
        found = admission.fit(
            self._config,
            [view.headroom for view in views],
            [view.cost_plus for view in views],
            pods=pods,
            most_pods=limit,
            closed=admission.is_guarded(self._config, usages),
        )
        tightest = views[found.tightest]
        # To first order: sd(H / c+)^2 = (sd_H^2 + (H / c+)^2 sd_c^2) / c+^2
        spread = math.hypot(tightest.noise, found.room * tightest.cost[1]) / tightest.cost_plus
        dims = self._config.dims
        return base.CapacityEstimate(
            capacity=found.capacity,
            capacity_sd=min(spread, self._config.capacity_cap),
            bottleneck=None if found.bottleneck is None else dims[found.bottleneck],
            mode=admission.mode(
                full=any(full),
                measured=any(model.measured for model in self._resources),
                ahead_pods=pods - shown[0],
            ),
            baseline={dim: model.baseline_spread for dim, model in zip(dims, self._resources, strict=True)},
            cost={dim: view.cost for dim, view in zip(dims, views, strict=True)},
            filtered_pods=shown[0],
            headroom={dim: view.headroom for dim, view in zip(dims, views, strict=True)},
            cost_plus={base.ALL_PODS: {dim: view.cost_plus for dim, view in zip(dims, views, strict=True)}},
            limit=limit,
            evidence=self._evidence(),
        )

    def _learn(self, usages: list[float], pods: float, dt_s: float) -> None:
        full = self._full.full(usages)
        shown = self._counts.values
        keep = 0.5 ** (dt_s / self._config.peak_half_life_s)
        self._peak_pods = max(self._peak_pods * keep, shown[0])
        held = self._held(usages, shown, full)
        for model, usage, count, end, idle in zip(self._resources, usages, shown, full, held, strict=True):
            near = abs(pods - count) < max(SETTLED_PODS, SETTLED_SHARE * pods)
            settled = near and self._counts.steady_s >= SETTLED_S
            model.learn(usage, shown=count, full=end, settled=settled, held=idle, dt_s=dt_s)

    def _held(self, usages: list[float], shown: list[float], full: list[bool]) -> list[bool]:
        # An idle CPU says nothing about the next Pod's (a server waits for work), a small memory does as long as
        # the Pods are at work: pi holds none. So flows are judged together, and memory with all of them.
        little = [
            model.shows_little(usage, shown=count, full=end)
            for model, usage, count, end in zip(self._resources, usages, shown, full, strict=True)
        ]
        flows = all(low for dim, low in zip(self._config.dims, little, strict=True) if dim not in admission.STOCKS)
        return [all(little) if dim in admission.STOCKS else flows for dim in self._config.dims]

    def _limit(self, peak_pods_per_core: float) -> int:
        return admission.limit(
            self._config,
            own_peak_pods=self._peak_pods,
            peak_pods_per_core=peak_pods_per_core,
            growth=self._constants.growth,
            unknown_per_core=self._constants.unknown_per_core,
        )

    def _evidence(self) -> dict[str, dict[str, base.Evidence]] | None:
        own = {
            dim: evidence
            for dim, model in zip(self._config.dims, self._resources, strict=True)
            if (evidence := model.evidence) is not None
        }
        return {base.ALL_PODS: own} if own else None
