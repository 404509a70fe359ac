"""Runs a trace through an estimator: from its raw samples, as an agent does, or from a log's evaluations."""

import dataclasses
import heapq
import math
from collections.abc import Iterator
from typing import Literal, TypeAlias

import numpy as np

from carico_agent.learning import pipeline
from carico_agent.pod_events import pod_states
from carico_cli.recordings import trace
from carico_core.domain import errors, messages, recording
from carico_core.numerics import estimators, ewma, signal
from carico_core.numerics.estimators import base, delta, dual, joint

Inputs: TypeAlias = Literal["samples", "logged"]
CONSTANTS = ("default", "logged")
# The constants of the published builds; the build that wrote the published logs let no cost decay.
LOGGED: dict[str, object] = {
    "delta": delta.LOGGED,
    "dual": dataclasses.replace(dual.LOGGED, decay_per_s=0.0),
    "joint": joint.LOGGED,
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What to run. inputs: None: a log's evaluations for the paper's estimators, raw samples otherwise."""

    estimator: str
    constants: str = "default"
    inputs: Inputs | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Step:
    """One update. at_s: since the first sample. level: the signal, NaN where there was none.

    innovation: by dimension (or "signal"), the observation minus what the previous estimate predicted.
    """

    at_s: float
    pods: int
    churning: bool
    usage: messages.Array
    level: float
    estimate: base.CapacityEstimate
    innovation: dict[str, float]

    @property
    def censored(self) -> bool:
        """Whether the reading was at the end of its range."""
        return self.estimate.mode == "saturated"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Run:
    """A replay: all updates in order."""

    trace: trace.Trace
    setup: Setup
    inputs: Inputs
    steps: tuple[Step, ...]


def run(over: trace.Trace, setup: Setup) -> Run:
    """Return the replay. Raises `SettingsError` where the trace lacks what the setup needs."""
    _check(over, setup)
    inputs = setup.inputs
    if inputs is None:
        inputs = "logged" if setup.estimator in estimators.SCALAR and over.evaluations else "samples"
    steps = _of_logged(over, setup) if inputs == "logged" else _of_samples(over, setup)
    found = tuple(steps)
    if not found:
        raise errors.SettingsError(
            f"{over.name}: got {len(over.recording.samples.times_s)} samples, expected at least {pipeline.BATCH}"
        )
    return Run(trace=over, setup=setup, inputs=inputs, steps=found)


def _check(over: trace.Trace, setup: Setup) -> None:
    if setup.constants == "logged" and setup.estimator not in LOGGED:
        raise errors.SettingsError(
            f"--constants logged: got --estimator {setup.estimator}, expected one of {', '.join(LOGGED)}: "
            "the author ran no other; use --constants default"
        )
    if setup.inputs == "logged" and not over.evaluations:
        raise errors.SettingsError(
            f"--inputs logged: {over.name} has no (signal) lines, expected a log with evaluations; use --inputs samples"
        )


def node_config(over: trace.Trace, estimator: str) -> base.EstimatorConfig:
    """Return the configuration of a trace's node, as an agent has it.

    Only a log's scalar signal differs: it has the paper's ceiling of 1.
    """
    facts = over.recording.facts
    plain = over.format == "log" and estimator in estimators.SCALAR
    return base.EstimatorConfig(
        dims=facts.dims,
        scale=np.array(facts.scale),
        cores=facts.cores,
        ceiling=np.ones(len(facts.dims)) if plain else base.default_ceiling(facts.dims),
        signal_mode=estimators.signal_mode(estimator),
    )


def _constants(setup: Setup) -> object | None:
    return LOGGED[setup.estimator] if setup.constants == "logged" else None


class Pods:
    """The Pods of a trace over time."""

    def __init__(self, events: tuple[recording.PodEvent, ...]) -> None:
        self._events = sorted(events, key=lambda event: event.at_s)
        self._next = 0
        self._book = pod_states.PodStates()
        self._workload: dict[str, str] = {}

    def at(self, now_s: float) -> pod_states.KnownPods:
        """Return the Pods at this time; it must not decrease from call to call."""
        while self._next < len(self._events) and self._events[self._next].at_s <= now_s:
            event = self._events[self._next]
            self._workload[event.uid] = event.workload or base.ALL_PODS
            self._book.take(event)
            self._next += 1
        return self._book.current(now_s)

    def classes(self, now: pod_states.KnownPods) -> dict[str, str]:
        """Return UID -> class of the running Pods."""
        return {uid: self._workload[uid] for uid in sorted(now.running)}


def _of_samples(over: trace.Trace, setup: Setup) -> Iterator[Step]:
    """Run as an agent does without the model of the cluster: `app.Agent` without panel, bus and clock."""
    facts, samples = over.recording.facts, over.recording.samples
    node = node_config(over, setup.estimator)
    line = pipeline.Pipeline(pipeline.PipelineConfig(estimator=setup.estimator, node=node, constants=_constants(setup)))
    pods, steps = Pods(over.recording.events), _Steps(node)
    running: frozenset[str] = frozenset()
    # A float, as an agent's clock gives it: arithmetic with numpy's numbers yields numpy's, which JSON cannot encode.
    before_s = float(samples.times_s[0]) - 1.0 / facts.sample_hz
    for at_s, values, parts in zip(samples.times_s.tolist(), samples.values, samples.parts.tolist(), strict=True):
        now = pods.at(at_s)
        if now.running != running:
            running = now.running
            line.pods_changed(pods.classes(now))
        sample = pipeline.Sample(
            values=values,
            parts=dict(zip(facts.parts, parts, strict=True)),
            pods=len(running),
            dt_s=at_s - before_s,
            at_ns=facts.started_ns + round((at_s - facts.started_s) * 1e9),
            at_s=at_s,
        )
        before_s = at_s
        state = line.update(pods=len(running), churning=now.holding) if line.sample(sample) else None
        if state is not None:
            level = state.signal if state.direction.any() else math.nan
            seen = _Seen(usage=state.usage, level=level, pods=state.pods, churning=now.holding)
            yield steps.step(at_s - float(samples.times_s[0]), seen, state.estimate)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Seen:
    usage: messages.Array
    level: float
    pods: int
    churning: bool


class _Steps:
    """Makes steps, each with its innovation against the previous estimate."""

    def __init__(self, node: base.EstimatorConfig) -> None:
        self._node = node
        self._before: base.CapacityEstimate | None = None

    def step(self, at_s: float, seen: _Seen, estimate: base.CapacityEstimate) -> Step:
        before, self._before = self._before, estimate
        # A reading at the end of its range, or while the runtime starts or ends containers, is not a measurement.
        known = before is not None and not seen.churning and estimate.mode != "saturated"
        return Step(
            at_s=at_s,
            pods=seen.pods,
            churning=seen.churning,
            usage=seen.usage,
            level=seen.level,
            estimate=estimate,
            innovation=self._of(before, seen, estimate) if known and before is not None else {},
        )

    def _of(self, before: base.CapacityEstimate, seen: _Seen, now: base.CapacityEstimate) -> dict[str, float]:
        if base.SIGNAL in before.cost:
            if not math.isfinite(seen.level):
                return {}
            # e = z - (b - c n), with b and c from before
            cost, baseline = before.cost[base.SIGNAL][0], before.baseline[base.SIGNAL][0]
            return {base.SIGNAL: seen.level - (baseline - cost * seen.pods)}
        # e = y - (b + c x) / S, with b and c from before
        return {
            dim: usage - (before.baseline[dim][0] + before.cost[dim][0] * now.filtered_pods) / full
            for dim, usage, full in zip(self._node.dims, seen.usage.tolist(), self._node.scale.tolist(), strict=True)
        }


def _of_logged(over: trace.Trace, setup: Setup) -> Iterator[Step]:
    """Run with the logged y, w and Pod counts, at the logged times."""
    node = node_config(over, setup.estimator)
    estimator = estimators.create(setup.estimator, node, _constants(setup))
    steps = _Steps(node)
    telemetry = ewma.DynamicEma(shared_counter=True)
    first_s = float(over.recording.samples.times_s[0])
    sampled_s, evaluated_s, pods = first_s - 1.0 / over.recording.facts.sample_hz, first_s, 0
    for at_s, values, evaluation in _in_time(over):
        if evaluation is None:
            telemetry.update(values)
            estimator.tick(values.tolist(), telemetry.gains, pods, at_s - sampled_s)
            sampled_s = at_s
            continue
        # During churn the log has no count: the previous one still holds.
        pods = pods if evaluation.pods is None else evaluation.pods
        seen = _logged(evaluation, node, pods)
        observed = base.Observation(
            dt_s=max(0.0, at_s - evaluated_s),
            y=seen.usage,
            gains=telemetry.last_gain if len(telemetry.last_gain) else np.ones(len(node.dims)),
            pods=pods,
            signal=seen.level,
            churning=seen.churning,
        )
        evaluated_s = at_s
        yield steps.step(at_s - first_s, seen, estimator.update(observed))


def _logged(evaluation: trace.Evaluation, node: base.EstimatorConfig, pods: int) -> _Seen:
    level, _ = signal.capacity_signal(
        evaluation.usage, evaluation.direction, ceiling=node.ceiling, cap=base.CAPACITY_CAP
    )
    return _Seen(usage=evaluation.usage, level=level, pods=pods, churning=evaluation.pods is None)


def _in_time(over: trace.Trace) -> Iterator[tuple[float, messages.Array, trace.Evaluation | None]]:
    """Yield the samples' values and the evaluations in the order of time."""
    samples = over.recording.samples
    ticks = ((at_s, 0, values, None) for at_s, values in zip(samples.times_s.tolist(), samples.values, strict=True))
    seen = ((one.at_s, 1, one.usage, one) for one in sorted(over.evaluations, key=lambda one: one.at_s))
    for at_s, _, values, evaluation in heapq.merge(ticks, seen, key=lambda item: item[:2]):
        yield at_s, values, evaluation
