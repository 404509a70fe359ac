"""The agent: takes samples, learns, follows the cluster's model, and prepares what is to be published next.

Everything here is synchronous and fast; `reporting.publishers` sends, `service` connects the parts.
"""

import collections
import dataclasses
from collections.abc import Callable
from typing import Any

from carico_agent import ports, settings
from carico_agent.learning import cluster_model, configuration, pipeline
from carico_agent.reporting import advertisement, instruments, usage_reports, views
from carico_agent.telemetry import panel, port
from carico_core.domain import messages, recording
from carico_core.numerics import estimators
from carico_core.runtime.observe import logs
from carico_core.runtime.observe import metrics as metric
from carico_core.runtime.process import clock as clocks
from carico_core.wire import messages as wire

# Seconds of history in the answer to a state query.
HISTORY_S = 180
# The canonical line is logged each second at debug and each minute at info.
INFO_EVERY = 60
# Not ready after this time without a sample.
SAMPLE_STALE_S = 3.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of an agent."""

    settings: settings.AgentSettings
    panel: panel.Panel
    pods: ports.PodEvents
    clock: clocks.Clock
    metrics: metric.Metrics
    boot: str
    # Receives each sample, as the pipeline does.
    witness: Callable[[pipeline.Sample], None] | None = None
    # None: every Pod is in the general class.
    classes: ports.PodClasses | None = None
    # None: usage of single Pods is not measured.
    ledger: ports.PodLedger | None = None
    # None: nothing is traced.
    traces: ports.PodTraces | None = None


class Agent:
    """Learns about one node, and prepares its messages."""

    def __init__(self, parts: Parts) -> None:
        self._settings = parts.settings
        self._panel = parts.panel
        self._pods = parts.pods
        self._clock = parts.clock
        self._boot = parts.boot
        self._witness = parts.witness
        self._traces = parts.traces
        self._log = logs.get("agent", node=parts.settings.node)
        self._limited = logs.RateLimited(self._log, clock=parts.clock)
        self._instruments = instruments.Instruments(parts.metrics)
        self._node = configuration.node_config(parts.settings, parts.panel.facts)
        self.pipeline = pipeline.Pipeline(configuration.pipeline_config(parts.settings, self._node))
        self.state: pipeline.State | None = None
        self._cluster = cluster_model.Intake(
            self.pipeline, self._instruments,
            lease_s=parts.settings.bus.lease_s, clock=parts.clock, log=self._limited,
        )  # fmt: skip
        self._history: collections.deque[tuple[Any, ...]] = collections.deque(maxlen=HISTORY_S)
        self._last_sample_s: float | None = None
        self._started_s = parts.clock.monotonic_s()
        self._stamps = advertisement.Stamps(node=parts.settings.node, boot=parts.boot, wall_ns=parts.clock.wall_ns)
        self._updates = 0
        self._counted: frozenset[str] = frozenset()
        self._held = False
        self._covers: frozenset[str] = frozenset()
        self._on_capacity: Callable[[], None] = _nothing
        self._on_subspace: Callable[[], None] = _nothing
        self._instruments.describe(node=parts.settings.node, estimator=parts.settings.estimator)
        self._instruments.read_ages(self)
        for note in parts.panel.facts.notes:
            self._instruments.degraded.labels(note[:80]).set(1)
            self._log.warning("degraded", note=note)
        self._classes = parts.classes
        self.usage_reports = _usage_reports(parts)
        self._named: dict[str, str] = {}
        parts.pods.on_change(self.pods_changed)
        parts.pods.on_event(self._on_pod_event)
        if parts.classes is not None:
            parts.classes.on_change(self.pods_changed)

    def when_due(self, *, capacity: Callable[[], None], subspace: Callable[[], None]) -> None:
        """Register publish callbacks."""
        self._on_capacity = capacity
        self._on_subspace = subspace

    def tick(self, late_s: float, missed: int) -> None:
        """Take one sample, and update the model if it fills a batch."""
        self._instruments.lateness_s.observe(late_s)
        if self._held:  # a hold ends after a time, without an event
            self.pods_changed()
        if missed:
            self._instruments.samples_missed.inc(missed)
        try:
            reading = self._panel.read()
        except port.Broken as error:
            self._instruments.sources_broken.inc()
            self._limited.warning(error.what, "source broken: sample skipped", error=str(error))
            return
        if reading is None:
            self._instruments.samples_empty.inc()
            self._last_sample_s = self._clock.monotonic_s() if self._last_sample_s is None else self._last_sample_s
            return
        if self._take(reading):
            self.update()

    def update(self) -> None:
        """Learn from the batch, and request publishing."""
        begun_s = self._clock.monotonic_s()
        now = self._pods.current()
        self._counted, self._held = frozenset(now.running), now.holding
        self._name_pods()
        if self.usage_reports is not None:
            self.usage_reports.read(self._named, begun_s)
        state = self.pipeline.update(pods=len(now.running), churning=now.holding)
        if state is None:
            return
        self._settle(state, now)
        self._updates += 1
        self._instruments.update_s.observe(self._clock.monotonic_s() - begun_s)
        self._instruments.show(state, self._node.dims, self._node.scale.tolist())
        self._history.append(views.history_row(state))
        self._log_update(state)
        self._on_capacity()
        self._on_subspace()

    def pods_changed(self) -> None:
        """Estimate again and publish at once; with the paper's estimators when the hold ends."""
        now = self._pods.current()
        counted, hold_ended = frozenset(now.running), self._held and not now.holding
        changed = counted != self._counted
        self._counted, self._held = counted, now.holding
        if changed:
            self._panel.pods_changed()
        changed = self._name_pods() or changed
        if hold_ended if self._settings.estimator in estimators.SCALAR else changed:
            state = self.pipeline.estimate(pods=len(counted), churning=now.holding)
            if state is not None:
                self._settle(state, now)
                self._on_capacity()

    def _on_pod_event(self, kind: recording.EventKind, uid: str, at_s: float) -> None:
        self._instruments.pod_events.labels(kind.value).inc()
        if self._traces is not None:
            self._traces.happened(kind, uid, at_s)

    def on_model(self, _subject: str, payload: bytes) -> None:
        """Use the cluster's model, or drop and count a message that cannot be used."""
        self._cluster.take(payload)

    def next_capacity(self) -> bytes | None:
        """Return the next advertisement; None before the first update."""
        if self.state is None:
            return None
        self._instruments.published.labels("capacity").inc()
        stamp = self._stamps.next("capacity")
        if self._traces is not None:
            self._traces.advertised(self._covers, seq=stamp.seq, capacity=self.state.estimate.capacity)
        return wire.encode_advertisement(
            advertisement.capacity(stamp, self.state, node=self._node, covers=self._covers)
        )

    def next_subspace(self) -> bytes | None:
        """Return the next local subspace; None before the first batch."""
        if self.state is None:
            return None
        stamp = self._stamps.next("subspace")
        record = advertisement.local_subspace(stamp, self.state, self.pipeline, node=self._node)
        if record is None:
            return None
        self._instruments.published.labels("subspace").inc()
        return wire.encode_subspace(record)

    def sent(self, kind: str) -> None:
        """Count a message that others have prepared."""
        self._instruments.published.labels(kind).inc()

    def not_taken(self, kind: str, error: Exception) -> None:
        """Count a message that the bus did not accept. It is not kept, as the next one is newer."""
        self._instruments.publish_errors.labels(kind).inc()
        self._limited.warning(("publish", kind), "not published", kind=kind, error=str(error))

    def not_sampling(self) -> str | None:
        """Return why the node is not being measured; None if it is."""
        if self.state is None:
            return "less than a second of samples so far"
        since_s = self._started_s if self._last_sample_s is None else self._last_sample_s
        age_s = self._clock.monotonic_s() - since_s
        return None if age_s <= SAMPLE_STALE_S else f"no sample for {age_s:.1f} s"

    def sample_age_s(self) -> float | None:
        """Return the age of the newest sample; None before the first."""
        return None if self._last_sample_s is None else self._clock.monotonic_s() - self._last_sample_s

    def model_age_s(self) -> float | None:
        """Return the age of the cluster's newest model; None before the first."""
        return self._cluster.age_s()

    def view(self) -> dict[str, Any]:
        """Return the state for a query: what is advertised, why, and the last minutes."""
        model = self._cluster.newest
        return {
            "node": self._settings.node,
            "boot": self._boot,
            "estimator": self._settings.estimator,
            "model": None if model is None else {"replica": model.replica, "epoch": model.epoch},
            **views.of_source(self._panel.facts, ceiling=self._node.ceiling.tolist()),
            "samples": self.pipeline.samples,
            "peak_pods_per_core": self.pipeline.peak_pods_per_core,
            "now": None if self.state is None else views.of_state(self.state, self._panel.facts.dims),
            "history": views.of_history(self._history, self._panel.facts.dims),
        }

    def _take(self, reading: panel.Reading) -> bool:
        now_s = self._clock.monotonic_s()
        dt_s = pipeline.SAMPLE_S if self._last_sample_s is None else now_s - self._last_sample_s
        self._last_sample_s = now_s
        self._instruments.samples.inc()
        sample = pipeline.Sample(
            values=reading.values,
            parts=dict(reading.parts),
            pods=len(self._counted),
            dt_s=dt_s,
            at_ns=self._clock.wall_ns(),
            at_s=now_s,
        )
        if self._witness is not None:
            self._witness(sample)
        return self.pipeline.sample(sample)

    def _settle(self, state: pipeline.State, pods: ports.PodSet) -> None:
        """Publish this state, with the UIDs that its count includes, from now on.

        They change together: a message that covers a UID but does not count it would free its reservation too early.
        """
        self.state = state
        self._covers = advertisement.covers(pods, pod_limit=self._settings.pod_limit)

    def _name_pods(self) -> bool:
        """Pass Pods and classes to the estimator; return whether they have changed."""
        classes = self._classes
        named = {uid: messages.ANY_CLASS if classes is None else classes.of(uid) for uid in self._counted}
        if named == self._named:
            return False
        self._named = named
        self.pipeline.pods_changed(named)
        return True

    def _log_update(self, state: pipeline.State) -> None:
        log = self._log.info if self._updates % INFO_EVERY == 1 else self._log.debug
        log("update", **views.log_line(state))


def _usage_reports(parts: Parts) -> usage_reports.UsageReports | None:
    """Return the reports of what Pods use; None if that is not measured."""
    if parts.classes is None or parts.ledger is None:
        # Without classes all Pods are of one, and what they use together recommends nothing.
        return None
    return usage_reports.UsageReports(
        node=parts.settings.node, boot=parts.boot, scale=parts.settings.scale, classes=parts.classes,
        ledger=parts.ledger, clock=parts.clock,
    )  # fmt: skip


def _nothing() -> None:
    return None
