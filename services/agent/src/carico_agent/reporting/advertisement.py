"""A pipeline's state as the two messages an agent publishes, and what stamps all that it publishes."""

import collections
import math
from collections.abc import Callable
from typing import NamedTuple

from carico_agent import ports
from carico_agent.learning import pipeline
from carico_core.domain import messages
from carico_core.numerics import subspace
from carico_core.numerics.estimators import base

# Maximum number of covered Pods beyond the Pod limit, for those that ended recently.
COVERS_MARGIN = 256
# A lookup in the enumeration itself takes longer than the rest of a field.
_MODES: dict[str, messages.Mode] = {mode.value: mode for mode in messages.Mode}


class Stamp(NamedTuple):
    """The origin of a message: node, start, number and time."""

    node: str
    boot: str
    seq: int
    ts_ns: int


class Stamps:
    """Numbers the messages of one start of a node's agent, each kind from 1."""

    def __init__(self, *, node: str, boot: str, wall_ns: Callable[[], int]) -> None:
        self._node = node
        self._boot = boot
        self._wall_ns = wall_ns
        self._seqs: collections.Counter[str] = collections.Counter()

    def next(self, kind: str) -> Stamp:
        """Return the stamp of the next message of a kind."""
        self._seqs[kind] += 1
        return Stamp(node=self._node, boot=self._boot, seq=self._seqs[kind], ts_ns=self._wall_ns())


def capacity(
    stamp: Stamp, state: pipeline.State, *, node: base.EstimatorConfig, covers: frozenset[str]
) -> messages.Advertisement:
    """Return the advertisement for the scheduler."""
    estimate, dims = state.estimate, node.dims
    return messages.Advertisement(
        node=stamp.node,
        boot=stamp.boot,
        seq=stamp.seq,
        ts_ns=stamp.ts_ns,
        sampled_at_ns=state.sampled_at_ns,
        capacity=estimate.capacity,
        capacity_sd=estimate.capacity_sd,
        bottleneck=estimate.bottleneck,
        signal=state.signal,
        baseline=_estimates(estimate.baseline),
        cost=_estimates(estimate.cost),
        pods=state.pods,
        covers=covers,
        mode=_MODES[estimate.mode],
        usage={dim: min(max(used, 0.0), 1.0) for dim, used in zip(dims, state.usage.tolist(), strict=True)},
        parts=state.parts,
        direction=dict(zip(dims, state.direction.tolist(), strict=True)),
        headroom=estimate.headroom,
        classes=_classes(estimate, state.pods),
        limit=estimate.limit,
        ceiling=dict(zip(dims, node.ceiling.tolist(), strict=True)),
    )


def covers(pods: ports.PodSet, *, pod_limit: int) -> frozenset[str]:
    """Return the UIDs of the Pods that are accounted for: those that run, and those that ended most recently.

    Pods of the baseline are included: their usage is measured, and if the scheduler considers one a workload, its
    reservation ends like any other.
    """
    most = pod_limit + COVERS_MARGIN
    running = [*pods.running, *pods.baseline][:most]
    room = most - len(running)
    return frozenset(running) | frozenset(list(pods.ended)[-room:] if room else ())


def local_subspace(
    stamp: Stamp, state: pipeline.State, source: pipeline.Pipeline, *, node: base.EstimatorConfig
) -> messages.LocalSubspace | None:
    """Return the node's own model and evidence for the aggregator; None before the first batch."""
    if source.local_gram is None:
        return None
    model = subspace.from_gram(source.local_gram)
    return messages.LocalSubspace(
        node=stamp.node,
        boot=stamp.boot,
        seq=stamp.seq,
        ts_ns=stamp.ts_ns,
        sampled_at_ns=state.sampled_at_ns,
        dims=node.dims,
        u=model.u,
        sigma=model.sigma,
        samples=source.samples,
        weight=node.cores,
        scale=node.scale,
        evidence=_evidence(state),
        peak_pods_per_core=source.peak_pods_per_core,
    )


def _estimates(spreads: dict[str, base.Spread]) -> dict[str, messages.Estimate]:
    return {name: messages.Estimate(*spread) for name, spread in spreads.items()}


def _classes(estimate: base.CapacityEstimate, pods: int) -> dict[str, messages.ClassCapacity] | None:
    if estimate.cost_plus is None:
        return None
    return {
        name: messages.ClassCapacity(plus, _pods_of(name, estimate, pods), measured=name not in estimate.guessed)
        for name, plus in estimate.cost_plus.items()
    }


def _evidence(state: pipeline.State) -> dict[str, messages.ClassEvidence]:
    estimate = state.estimate
    lifetimes = _spreads(estimate.lifetimes_s or {})
    return {
        name: messages.ClassEvidence(
            pods=_pods_of(name, estimate, state.pods),
            cost=_spreads(costs),
            lifetime_s=lifetimes.get(name),
        )
        for name, costs in (estimate.evidence or {}).items()
    }


def _pods_of(name: str, estimate: base.CapacityEstimate, pods: int) -> int:
    """Return the running Pods of a class; all Pods if the estimator does not distinguish classes."""
    return pods if estimate.class_pods is None else estimate.class_pods.get(name, 0)


def _spreads(evidence: dict[str, base.Evidence]) -> dict[str, messages.Estimate]:
    return {dim: messages.Estimate(mean=mean, sd=math.sqrt(variance)) for dim, (mean, variance) in evidence.items()}
