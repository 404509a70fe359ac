"""The agent of a twin's node: the agent service's own pipeline, messages and publishing rules, in virtual time."""

import dataclasses
import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from carico_agent.learning import local_model, pipeline
from carico_agent.pod_events import pod_states
from carico_agent.reporting import advertisement
from carico_core.domain import messages
from carico_core.numerics import estimators
from carico_core.numerics.estimators import base
from carico_twin import records, virtual_time
from carico_twin.nodes import kubelet, telemetry

BOOT = "0" * 16
# Wall-clock time at the start of every run; fixed, so that runs are reproducible.
EPOCH_NS = 1_700_000_000 * 10**9
# The room that a lying agent advertises.
BOAST_PODS = 1000.0
# A message of an agent.
Said: TypeAlias = messages.Advertisement | messages.LocalSubspace


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """The agent's settings. model: see `local_model`."""

    estimator: str = "footprint"
    ceiling_cpu: float = base.DEFAULT_CEILING["cpu"]
    ceiling_memory: float = base.DEFAULT_CEILING["memory"]
    publish_at_events: bool = True
    constants: object | None = None
    model: local_model.Kind = "gram"


class TwinAgent:
    """Samples, learns and publishes. `send` is called with each message."""

    def __init__(
        self, node: kubelet.TwinNode, options: AgentOptions, timeline: virtual_time.Timeline, rng: np.random.Generator,
        send: Callable[["TwinAgent", Said], None], clock_offset_s: float,
    ) -> None:  # fmt: skip
        self.name = records.node_name(node.index)
        self.node = node
        self.alive = True
        self._options = options
        self._timeline = timeline
        self._send = send
        self._offset_ns = round(clock_offset_s * 1e9)
        self._telemetry = telemetry.Telemetry(node.machine, rng)
        self._config = node_config(node, options)
        self.pipeline = pipeline.Pipeline(pipeline_config(self._config, options))
        self._states = pod_states.PodStates()
        self._classes: dict[str, str] = {}
        self._running: frozenset[str] = frozenset()
        self._stamps = advertisement.Stamps(
            node=self.name, boot=BOOT, wall_ns=lambda: self._wall_ns(self._timeline.now_s)
        )
        self.state: pipeline.State | None = None
        self._covers: frozenset[str] = frozenset()
        self._states.on_change(self._pods_changed)
        # Agents do not sample in phase.
        self._phase_s = float(rng.random()) * pipeline.SAMPLE_S
        self._begun = False
        self._next_s = math.inf
        # Incremented with each planned update, which makes earlier ones void.
        self._generation = 0
        node.catch_up = self.catch_up
        if node.is_up:
            self.begin()

    def begin(self) -> None:
        """Start the agent, with its node."""
        self._begun = True
        self._telemetry.begin(self._timeline.now_s)
        self._next_s = self._timeline.now_s + self._phase_s
        self._plan()

    def created(self, record: records.PodRecord) -> None:
        """Note that the runtime creates the Pod's container."""
        self._classes[record.uid] = records.class_of(record)
        self._states.created(record.uid, self._timeline.now_s)

    def started(self, record: records.PodRecord) -> None:
        """Note that the Pod's program runs."""
        self._states.started(record.uid, self._timeline.now_s)

    def exited(self, record: records.PodRecord) -> None:
        """Note that the Pod's program has exited."""
        self._states.ended(record.uid, self._timeline.now_s)
        self._classes.pop(record.uid, None)

    def removed(self, record: records.PodRecord) -> None:
        """Note that nothing of the Pod is left on the node."""
        self._states.removed(record.uid, self._timeline.now_s)

    def hear_model(self, model: messages.GlobalModel) -> None:
        """Take in the model of the cluster."""
        if self._begun and self.alive:
            self.catch_up(self._timeline.now_s)
            self.pipeline.follow(model, now_s=self._timeline.now_s)

    def silence(self) -> None:
        """Stop sampling and publishing."""
        self.catch_up(self._timeline.now_s)
        self.alive = False

    def catch_up(self, until_s: float) -> bool:
        """Take the samples up to an instant since which the node has not changed; return True if an update is due.

        Samples affect nothing else, so all between two changes on a node are taken in one go instead of each as an
        event among those of thousands of nodes.
        """
        is_due, taken = False, 0
        while self._next_s <= until_s and self.alive:
            is_due = self._sample(self._next_s)
            self._next_s += pipeline.SAMPLE_S
            taken += 1
        if taken:
            self._timeline.account(taken)
        return is_due

    def _sample(self, at_s: float) -> bool:
        self.node.note_memory(at_s)
        values = self._telemetry.read(at_s)
        return self.pipeline.sample(
            pipeline.Sample(
                values=values, parts=self._telemetry.parts, pods=len(self._running), dt_s=pipeline.SAMPLE_S,
                at_ns=self._wall_ns(at_s), at_s=at_s,
            )
        )  # fmt: skip

    def _plan(self) -> None:
        """Plan the next sample after which an update may be due."""
        self._generation += 1
        generation, due_s = self._generation, self._next_s
        for _ in range(self.pipeline.samples_to_update - 1):
            due_s += pipeline.SAMPLE_S
        self._timeline.at(due_s, lambda: self._due(generation))

    def _due(self, generation: int) -> None:
        if generation == self._generation and not self.alive:
            # The agent has fallen silent since it planned this sample.
            return
        # Samples are counted as events, in `catch_up`.
        self._timeline.account(-1)
        if generation != self._generation:
            return
        if self.catch_up(self._timeline.now_s):
            self._update()
        self._plan()

    def _update(self) -> None:
        now = self._states.current(self._timeline.now_s)
        state = self.pipeline.update(pods=len(now.running), churning=now.holding)
        if state is None:
            return
        self._settle(state, now)
        self._publish_capacity()
        record = advertisement.local_subspace(self._stamps.next("subspace"), state, self.pipeline, node=self._config)
        if record is not None:
            self._send(self, record)

    def _pods_changed(self) -> None:
        if not self.alive:
            return
        now = self._states.current(self._timeline.now_s)
        self._running = now.running
        before = self.pipeline.samples_to_update
        self.pipeline.pods_changed({uid: self._classes[uid] for uid in now.running})
        if self.pipeline.samples_to_update != before:
            self._plan()
        if self._options.publish_at_events:
            state = self.pipeline.estimate(pods=len(now.running), churning=now.holding)
            if state is not None:
                self._settle(state, now)
                self._publish_capacity()

    def _settle(self, state: pipeline.State, pods: pod_states.KnownPods) -> None:
        self.state = state
        self._covers = pods.running | pods.ended

    def _publish_capacity(self) -> None:
        assert self.state is not None
        stamp = self._stamps.next("capacity")
        message = advertisement.capacity(stamp, self.state, node=self._config, covers=self._covers)
        self._send(self, message)

    def _wall_ns(self, at_s: float) -> int:
        return EPOCH_NS + self._offset_ns + round(at_s * 1e9)


def node_config(node: kubelet.TwinNode, options: AgentOptions) -> base.EstimatorConfig:
    """Return what the estimator knows of the node."""
    hardware = node.machine.hardware
    return base.EstimatorConfig(
        dims=telemetry.DIMS,
        scale=np.array([2.0 * hardware.cores, hardware.memory_bytes]),
        cores=hardware.cores,
        ceiling=np.array([options.ceiling_cpu, options.ceiling_memory]),
        signal_mode=estimators.signal_mode(options.estimator),
    )


def pipeline_config(config: base.EstimatorConfig, options: AgentOptions) -> pipeline.PipelineConfig:
    """Return the configuration of the pipeline for these options."""
    return pipeline.PipelineConfig(
        estimator=options.estimator, node=config, constants=options.constants, model=options.model
    )


def boast(said: messages.Advertisement, *, covers: bool) -> messages.Advertisement:
    """Return the advertisement with room for `BOAST_PODS` of every class and no limit, without UIDs unless `covers`."""
    headroom = None
    if said.headroom is not None and said.classes is not None:
        largest = {dim: max(each.cost_plus.get(dim, 0.0) for each in said.classes.values()) for dim in said.headroom}
        headroom = {dim: BOAST_PODS * cost for dim, cost in largest.items()}
    return said._replace(
        capacity=BOAST_PODS, headroom=headroom, limit=None, covers=said.covers if covers else frozenset()
    )
