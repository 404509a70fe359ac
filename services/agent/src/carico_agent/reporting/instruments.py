"""The agent's metrics, by subject."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from carico_agent.learning import pipeline
from carico_core.runtime.observe import metrics as metric

LATENESS_BUCKETS_S = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0)
# Shares of the full scale: telemetry's own noise is about a hundredth, a Pod of an eighth of a node a tenth.
INNOVATION_BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
MODES = ("measured", "predicted", "warming", "saturated")


class Ages(Protocol):
    """What an agent is asked for at each scrape; None: not known."""

    def sample_age_s(self) -> float | None: ...

    def model_age_s(self) -> float | None: ...


class Instruments:
    """Every series that an agent exports: carico_agent_..."""

    def __init__(self, metrics: metric.Metrics) -> None:
        self.lateness_s = metrics.histogram(
            "tick_lateness_seconds", "how late samples were taken", buckets=LATENESS_BUCKETS_S
        )
        self.samples = metrics.counter("samples", "samples taken in")
        self.samples_missed = metrics.counter("samples_missed", "samples left out because the process was late")
        self.samples_empty = metrics.counter(
            "samples_empty", "readings without a sample (first, or a counter went back)"
        )
        self.sources_broken = metrics.counter("sources_broken", "readings skipped because a source was broken")
        self.degraded = metrics.gauge("degraded", "1 for each thing this agent does without", ("note",))
        self.published = metrics.counter("published", "messages published", ("kind",))
        self.publish_errors = metrics.counter("publish_errors", "messages the bus did not take", ("kind",))
        self.model_drops = metrics.counter("model_drops", "messages of the cluster's model dropped", ("reason",))
        self.models = metrics.counter("models", "models of the cluster taken in")
        self.update_s = metrics.histogram(
            "update_seconds", "time of one update of the model", buckets=(0.0001, 0.0003, 0.001, 0.003, 0.01, 0.1)
        )
        self.pod_events = metrics.counter("pod_events", "what happened to Pods on the node", ("kind",))
        self._info = metrics.gauge("node_info", "1; whose agent this is, and how it estimates", ("node", "estimator"))
        self._capacity = metrics.gauge("capacity_pods", "Pods that the node can take")
        self._capacity_sd = metrics.gauge("capacity_sd_pods", "standard deviation of the capacity")
        self._mode = metrics.gauge("mode", "1 for the equation that made the capacity", ("mode",))
        self._signal = metrics.gauge("signal_multiples", "the capacity signal, eq. 3.3: multiples of typical work")
        self._pods = metrics.gauge("pods", "Pods counted")
        self._usage = metrics.gauge("usage_ratio", "filtered usage", ("dimension",))
        self._parts = metrics.gauge("part_ratio", "raw shares that usage is made of", ("part",))
        self._headroom = metrics.gauge("headroom_ratio", "what is free below the ceiling", ("dimension",))
        self._baseline = metrics.gauge("baseline_ratio", "usage without workload, as learnt", ("dimension",))
        self._cost = metrics.gauge("pod_cost_ratio", "cost of one Pod, as learnt", ("dimension",))
        self._cost_sd = metrics.gauge("pod_cost_sd_ratio", "standard deviation of that cost", ("dimension",))
        self._innovation = metrics.gauge("innovation_ratio", "usage minus what the model predicts", ("dimension",))
        self._surprise = metrics.histogram(
            "innovation_abs_ratio", "size of the innovation of each update", buckets=INNOVATION_BUCKETS,
            labels=("dimension",),
        )  # fmt: skip
        self._metrics = metrics

    def describe(self, *, node: str, estimator: str) -> None:
        """Set the series that identify the agent."""
        self._info.labels(node, estimator).set(1)

    def ask(self, ages: Ages) -> None:
        """Read the ages from `ages` at each scrape."""
        self._metrics.reading("sample_age_seconds", "time since the newest sample", lambda: _alone(ages.sample_age_s()))
        self._metrics.reading(
            "model_age_seconds", "time since the newest model of the cluster", lambda: _alone(ages.model_age_s())
        )

    def show(self, state: pipeline.State, dims: tuple[str, ...], scale: Sequence[float]) -> None:
        """Set the gauges to this state. `scale`: what a share of 1 is, by dimension."""
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
        # The scalar estimators have one dimension of their own, the signal, which is a share already.
        for dim, (mean, sd) in state.estimate.cost.items():
            self._cost.labels(dim).set(mean / full.get(dim, 1.0))
            self._cost_sd.labels(dim).set(sd / full.get(dim, 1.0))


def _alone(value: float | None) -> metric.Readings:
    return [] if value is None else [((), value)]
