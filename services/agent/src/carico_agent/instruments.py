"""The agent's metrics, by subject."""

from carico_agent import pipeline
from carico_core.runtime import metrics as metric

LATENESS_BUCKETS_S = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0)


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
        self._capacity = metrics.gauge("capacity_pods", "Pods that the node can take")
        self._capacity_sd = metrics.gauge("capacity_sd_pods", "standard deviation of the capacity")
        self._signal = metrics.gauge("signal", "the capacity signal, eq. 3.3 on the merged model")
        self._pods = metrics.gauge("pods", "Pods counted")
        self._usage = metrics.gauge("usage_ratio", "filtered usage", ("dimension",))
        self._parts = metrics.gauge("part_ratio", "raw shares that usage is made of", ("part",))
        self._cost = metrics.gauge("cost", "learnt cost of a Pod, physical units", ("dimension",))
        self._innovation = metrics.gauge("innovation_ratio", "usage minus what the model predicts", ("dimension",))

    def show(self, state: pipeline.State, dims: tuple[str, ...]) -> None:
        """Nothing; the gauges stand at this state."""
        self._capacity.set(state.estimate.capacity)
        self._capacity_sd.set(state.estimate.capacity_sd)
        self._signal.set(state.signal)
        self._pods.set(state.pods)
        for dim, usage in zip(dims, state.usage.tolist(), strict=True):
            self._usage.labels(dim).set(usage)
        for part, share in state.parts.items():
            self._parts.labels(part).set(share)
        for dim, (mean, _) in state.estimate.cost.items():
            self._cost.labels(dim).set(mean)
        for dim, value in state.innovation.items():
            self._innovation.labels(dim).set(value)
