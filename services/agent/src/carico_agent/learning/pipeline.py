"""From samples to an advertisement: filter, batch, local model, merge with the cluster's, signal, estimate.

Pure: time, counts and the cluster's model come as arguments, records go out; nothing is read or sent here.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from carico_agent.learning import local_model
from carico_core.domain import messages
from carico_core.numerics import estimators, ewma, signal, subspace
from carico_core.numerics.estimators import base

# Time between two samples, and samples per update, which the filters' constants depend on (the author's agent).
SAMPLE_S = 0.1
BATCH = 10
# Samples between updates while an estimator is eager: with two, the last of 100 Pods on a cold cluster starts 0.3 s
# earlier than with three.
EAGER_SAMPLES = 2
# Weight of the newest batch in the local model. The author's code gives both sides a half, each second.
BATCH_WEIGHT = 0.5
# Weight of the local model when it is merged with the cluster's for the signal (in the author's logs: a half).
LOCAL_WEIGHT = 0.5


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PipelineConfig:
    """A node's facts and the user's settings."""

    estimator: str
    node: base.EstimatorConfig
    # The kind of local model, and its directions; None: as many as there are dimensions.
    model: local_model.Kind = "gram"
    model_rank: int | None = None
    # An older model of the cluster is not merged: three leases.
    model_max_age_s: float = 30.0
    # The estimator's own constants; None: its defaults.
    constants: object | None = None


class Sample(NamedTuple):
    """One reading, with its time and the Pod count at that time.

    A NamedTuple, like `State`: a frozen dataclass takes twice as long to create.
    """

    values: messages.Array
    parts: dict[str, float]
    pods: int
    dt_s: float
    at_ns: int
    at_s: float


class State(NamedTuple):
    """The result of an update: the estimate, and what it was made from."""

    estimate: base.CapacityEstimate
    usage: messages.Array
    parts: dict[str, float]
    direction: messages.Array
    signal: float
    pods: int
    sampled_at_ns: int
    # Whether the cluster's model was part of the signal.
    federated: bool
    # Filtered usage minus the prediction by baseline, cost and Pods, per dimension, in shares.
    innovation: dict[str, float]


class Pipeline:
    """The learning half of an agent."""

    def __init__(self, config: PipelineConfig) -> None:
        """Raise `ValueError` if the estimator is unknown, or the model cannot have the rank."""
        self._config = config
        self._filter = ewma.DynamicEma()
        self._estimator = estimators.create(config.estimator, config.node, config.constants)
        # Checked once: isinstance with a protocol takes longer than most of the work.
        self._by_class = self._estimator if isinstance(self._estimator, base.ByClass) else None
        # The filtered usage (d,) of each sample since the last update.
        self._batch: list[list[float]] = []
        self._since_update_s = 0.0
        self._model = local_model.make(config.model, rank=config.model_rank, dimensions=len(config.node.dims))
        self._local: messages.Array | None = None
        self._cluster: messages.Array | None = None
        self._cluster_at_s = -math.inf
        self._cluster_peak = 0.0
        self._last: Sample | None = None
        self._usage: list[float] = []
        self._direction = np.zeros(len(config.node.dims))
        # Whether the direction is not zero, kept because checking an array takes longer than using the result.
        self._is_pointing = False
        self._federated = False
        self._estimated: base.CapacityEstimate | None = None
        self.peak_pods_per_core = 0.0
        self.samples = 0

    @property
    def config(self) -> PipelineConfig:
        """The configuration."""
        return self._config

    @property
    def local_gram(self) -> messages.Array | None:
        """The node's own model (d, d); None before the first batch."""
        return self._local

    @property
    def samples_to_update(self) -> int:
        """The minimum number of samples until an update may be due, if no Pod starts or ends."""
        left = BATCH - len(self._batch)
        if self._by_class is None:
            return left
        if self.samples == 0:
            return 1
        return max(1, min(left, EAGER_SAMPLES - len(self._batch))) if self._by_class.eager else left

    def sample(self, sample: Sample) -> bool:
        """Take one sample; return whether an update is due: a batch is full, or the estimator is eager."""
        # Plain numbers: for so few, numpy's overhead exceeds the arithmetic.
        values: list[float] = sample.values.tolist()
        self._usage = self._filter.step(values)
        self._estimator.tick(values, self._filter.gains, sample.pods, sample.dt_s)
        self._model.see(self._usage)
        self._batch.append(self._usage)
        self._since_update_s += sample.dt_s
        self._last = sample
        self.samples += 1
        return len(self._batch) == BATCH or self._is_eager()

    def follow(self, model: messages.GlobalModel, *, now_s: float) -> bool:
        """Use the cluster's model from now on, if it has this node's dimensions; return whether it has."""
        dims = self._config.node.dims
        if not set(dims) <= set(model.dims):
            return False
        places = [model.dims.index(dim) for dim in dims]
        self._cluster = model.gram if dims == model.dims else model.gram[np.ix_(places, places)]
        self._cluster_at_s = now_s
        self._cluster_peak = model.peak_pods_per_core
        if self._by_class is not None:
            self._by_class.use(model)
        return True

    def pods_changed(self, running: Mapping[str, str]) -> None:
        """Pass the running Pods (UID to class) to an estimator that distinguishes classes."""
        if self._by_class is not None:
            self._by_class.follow(running)

    def update(self, *, pods: int, churning: bool) -> State | None:
        """Return the state after learning from the batch so far; None before the first sample."""
        if self._last is None or not self._batch:
            return None
        # A partial batch has the corresponding part of the weight.
        weight = 1.0 - (1.0 - BATCH_WEIGHT) ** (len(self._batch) / BATCH)
        self._local = self._model.take(np.array(self._batch).T, weight)
        self._point(self._last.at_s)
        observation = self._observe(pods, churning, dt_s=self._since_update_s)
        self._estimated = self._estimator.update(observation)
        self._decay_peak(self._estimated.filtered_pods)
        self._batch.clear()
        self._since_update_s = 0.0
        return self._state(observation, self._estimated)

    def estimate(self, *, pods: int, churning: bool) -> State | None:
        """Return the state for another Pod count without learning, to publish it at once.

        None before the first update.
        """
        if self._last is None or self._estimated is None:
            return None
        observation = self._observe(pods, churning, dt_s=0.0)
        return self._state(observation, self._estimator.estimate(observation))

    def _is_eager(self) -> bool:
        if self._by_class is None:
            return False
        # A node takes Pods from its agent's first reading on.
        return self.samples == 1 or (len(self._batch) >= EAGER_SAMPLES and self._by_class.eager)

    def _point(self, now_s: float) -> None:
        assert self._local is not None
        config = self._config
        self._federated = self._cluster is not None and now_s - self._cluster_at_s <= config.model_max_age_s
        self._model.follow(self._cluster if self._federated else None, weight=LOCAL_WEIGHT)
        merged = self._local
        if self._federated and self._cluster is not None:
            merged = subspace.merge_gram(self._local, self._cluster, weight_a=LOCAL_WEIGHT)
        self._direction = signal.direction(merged, config.node.signal_mode)
        self._is_pointing = any(self._direction.tolist())

    def _observe(self, pods: int, churning: bool, *, dt_s: float) -> base.Observation:
        node, usage = self._config.node, np.array(self._usage)
        level, _ = signal.capacity_signal(usage, self._direction, ceiling=node.ceiling, cap=base.CAPACITY_CAP)
        return base.Observation(
            dt_s=dt_s,
            y=usage,
            gains=self._filter.last_gain,
            pods=pods,
            # A model without usage has no direction: the scalar estimators must not learn the cap as a baseline.
            signal=level if self._is_pointing else math.nan,
            churning=churning,
            # The cluster's peak does not count if it is old, as on an agent without connection to the bus.
            peak_pods_per_core=max(self._cluster_peak if self._federated else 0.0, self.peak_pods_per_core),
        )

    def _decay_peak(self, filtered_pods: float) -> None:
        keep = 0.5 ** (self._since_update_s / self._config.node.peak_half_life_s)
        self.peak_pods_per_core = max(filtered_pods / self._config.node.cores, self.peak_pods_per_core * keep)

    def _state(self, seen: base.Observation, estimate: base.CapacityEstimate) -> State:
        assert self._last is not None
        if self._model.rejecting:
            # PRONTO's Reject-Job: no job is accepted now, whatever the estimator finds.
            estimate = estimate._replace(capacity=0.0, limit=seen.pods, mode="saturated")
        return State(
            estimate=estimate,
            usage=seen.y,
            parts=self._last.parts,
            direction=self._direction,
            signal=seen.signal if math.isfinite(seen.signal) else base.CAPACITY_CAP,
            pods=seen.pods,
            sampled_at_ns=self._last.at_ns,
            federated=self._federated,
            innovation=_innovation(self._config.node, seen, estimate),
        )


def _innovation(
    node: base.EstimatorConfig, seen: base.Observation, estimate: base.CapacityEstimate
) -> dict[str, float]:
    if base.SIGNAL in estimate.cost:
        if not math.isfinite(seen.signal):
            return {}
        # e = signal - (baseline - cost n)
        cost, baseline = estimate.cost[base.SIGNAL][0], estimate.baseline[base.SIGNAL][0]
        return {base.SIGNAL: seen.signal - (baseline - cost * seen.pods)}
    # e = (Y - b - c x) / S
    return {
        dim: usage - (estimate.baseline[dim][0] + estimate.cost[dim][0] * estimate.filtered_pods) / full
        for dim, usage, full in zip(node.dims, seen.y.tolist(), node.scale.tolist(), strict=True)
    }
