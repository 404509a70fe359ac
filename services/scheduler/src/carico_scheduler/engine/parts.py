"""What an engine is put together from."""

import dataclasses
import random
from collections.abc import Callable
from typing import Protocol

from carico_core.runtime.kube import api_actions, informer, paged_lists
from carico_core.runtime.process import clock as clocks
from carico_scheduler.report import decisions, events, instruments
from carico_scheduler.report import traces as pod_traces
from carico_scheduler.rules import policy as policies


class Kube(api_actions.BindApi, informer.ListerWatcher, paged_lists.Api, Protocol):
    """The part of the Kubernetes API that an engine uses."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EngineParts:
    """The parts of an engine."""

    policy: policies.Policy
    kube: Kube
    clock: clocks.Clock
    rng: random.Random
    log: decisions.Log
    events: events.Writer
    metrics: instruments.Instruments
    binds_in_flight: int
    bind_timeout_s: float
    event_after_s: float
    conditions_per_s: float = 50.0
    gang_timeout_s: float = 60.0
    # The PriorityClass of the Pods that run on what is idle; empty: there are none.
    opportunistic: str = ""
    # Returns the term in which this scheduler leads, None while it does not. Asked before each cycle and each report of
    # waiting Pods, and at the last moment before each bind, which is sent only in the term of its decision.
    term: Callable[[], int | None] = lambda: 0
    # None: nothing is traced.
    traces: pod_traces.PodTraces | None = None
