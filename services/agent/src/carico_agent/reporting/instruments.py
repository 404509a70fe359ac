"""The agent's metrics, by subject."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from carico_agent.learning import pipeline
from carico_core.runtime.observe import metrics as metric

LATENESS_BUCKETS_S = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0)
# Shares of full scale: telemetry's noise is about a hundredth, a Pod of an eighth of a node about a tenth.
INNOVATION_BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
MODES = ("measured", "predicted", "warming", "saturated")


class Ages(Protocol):
    """What is read from an agent at each scrape; None: unknown."""

    def sample_age_s(self) -> float | None: ...

    def model_age_s(self) -> float | None: ...


class Instruments:
    """Every series that an agent exports: carico_agent_..."""

    def __init__(self, metrics: metric.Metrics) -> None:
        self.lateness_s = metrics.histogram(
            "tick_lateness_seconds", "how late samples were taken", buckets=LATENESS_BUCKETS_S
        )
        self.samples = metrics.counter("samples", "samples taken")
        self.samples_missed = metrics.counter("samples_missed", "samples skipped because the process was late")
        self.samples_empty = metrics.counter(
            "samples_empty", "readings without a sample (the first one, or a counter decreased)"
        )
        self.sources_broken = metrics.counter("sources_broken", "readings skipped because a source was broken")
        self.degraded = metrics.gauge(
            "degraded", "1 for each source that is missing or replaced on this node", ("note",)
        )
        self.published = metrics.counter("published", "messages published", ("kind",))
        self.publish_errors = metrics.counter("publish_errors", "messages that the bus did not accept", ("kind",))
        self.model_drops = metrics.counter("model_drops", "dropped messages with the cluster's model", ("reason",))
        self.models = metrics.counter("models", "models of the cluster accepted")
        self.update_s = metrics.histogram(
            "update_seconds", "time of one update of the model", buckets=(0.0001, 0.0003, 0.001, 0.003, 0.01, 0.1)
        )
        self.pod_events = metrics.counter("pod_events", "events of Pods on the node", ("kind",))
        self._info = metrics.gauge(
            "node_info", "always 1; the labels identify the node and the estimator", ("node", "estimator")
        )
        self._capacity = metrics.gauge("capacity_pods", "Pods that the node can still take")
        self._capacity_sd = metrics.gauge("capacity_sd_pods", "standard deviation of the capacity")
        self._mode = metrics.gauge("mode", "1 for the equation behind the capacity", ("mode",))
        self._signal = metrics.gauge("signal_multiples", "the capacity signal, eq. 3.3: multiples of typical work")
        self._pods = metrics.gauge("pods", "Pods counted")
        self._usage = metrics.gauge("usage_ratio", "filtered usage", ("dimension",))
        self._parts = metrics.gauge("part_ratio", "raw shares behind the usage", ("part",))
        self._headroom = metrics.gauge("headroom_ratio", "room below the ceiling", ("dimension",))
        self._baseline = metrics.gauge("baseline_ratio", "learnt usage without workload", ("dimension",))
        self._cost = metrics.gauge("pod_cost_ratio", "learnt cost of one Pod", ("dimension",))
        self._cost_sd = metrics.gauge("pod_cost_sd_ratio", "standard deviation of that cost", ("dimension",))
        self._innovation = metrics.gauge("innovation_ratio", "usage minus the model's prediction", ("dimension",))
        self._surprise = metrics.histogram(
            "innovation_abs_ratio", "size of the innovation of each update", buckets=INNOVATION_BUCKETS,
            labels=("dimension",),
        )  # fmt: skip
        self._metrics = metrics

    def describe(self, *, node: str, estimator: str) -> None:
        """Set the series that identify the agent."""
        self._info.labels(node, estimator).set(1)

    def read_ages(self, ages: Ages) -> None:
        """Read the ages from `ages` at each scrape."""
        self._metrics.reading("sample_age_seconds", "time since the newest sample", lambda: _one(ages.sample_age_s()))
        self._metrics.reading(
            "model_age_seconds", "time since the newest model of the cluster", lambda: _one(ages.model_age_s())
        )

    def show(self, state: pipeline.State, dims: tuple[str, ...], scale: Sequence[float]) -> None:
        """Set the gauges to this state. `scale`: physical amount of a share of 1, by dimension."""
        estimate = state.estimate
        self._capacity.set(estimate.capacity)
        self._capacity_sd.set(estimate.capacity_sd)
        self._signal.set(state.signal)
        self._pods.set(state.pods)
        for mode in MODES:
            self._mode.labels(mode).set(mode == estimate.mode)
        for part, share in state.parts.items():
            self._parts.labels(part).set(share)
        for dim, value in state.innovation.items():
            self._innovation.labels(dim).set(value)
            self._surprise.labels(dim).observe(abs(value))
        self._show_dimensions(state, dict(zip(dims, scale, strict=True)))

    def _show_dimensions(self, state: pipeline.State, full: Mapping[str, float]) -> None:
        for dim, usage in zip(full, state.usage.tolist(), strict=True):
            self._usage.labels(dim).set(usage)
        for dim, left in (state.estimate.headroom or {}).items():
            self._headroom.labels(dim).set(left / full.get(dim, 1.0))
        for dim, (mean, _) in state.estimate.baseline.items():
            self._baseline.labels(dim).set(mean / full.get(dim, 1.0))
        # The scalar estimators have one other dimension, the signal, which is a share already.
        for dim, (mean, sd) in state.estimate.cost.items():
            self._cost.labels(dim).set(mean / full.get(dim, 1.0))
            self._cost_sd.labels(dim).set(sd / full.get(dim, 1.0))


def _one(value: float | None) -> metric.Readings:
    return [] if value is None else [((), value)]
