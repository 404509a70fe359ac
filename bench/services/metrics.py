"""Benchmark of a scrape: the CPU time that /metrics takes of a service, with every series that it can have.

`python -m bench metrics`
"""

import itertools
import statistics
import time
from collections.abc import Callable, Mapping

import numpy as np

from carico_agent.reporting import instruments as agent
from carico_aggregator import instruments as aggregator
from carico_auth import instruments as auth
from carico_core.domain import cluster
from carico_core.runtime.observe import client_metrics, health
from carico_core.runtime.observe import metrics as metric
from carico_core.runtime.process import clock as clocks
from carico_scheduler.nodes import fleet
from carico_scheduler.pods import reservations
from carico_scheduler.report import instruments as scheduler
from carico_scheduler.rules import policy

# (what, value, unit, target in words or empty): see bench/__main__.py.
Row = tuple[str, float, str, str]
# The most values that each label can have.
VALUES = {
    "reason": 20, "outcome": 5, "fate": 6, "kind": 8, "verb": 6, "code": 8, "status": 5, "freshness": 4, "dimension": 6,
    "part": 8, "note": 6, "mode": 4, "stream": 4, "role": 7, "result": 2, "node": 1, "estimator": 1,
}  # fmt: skip
NODES = 5_000
_CLOCK = clocks.SystemClock()
_SERVICES: Mapping[str, Callable[[metric.Metrics], object]] = {
    "agent": lambda metrics: agent.Instruments(metrics),
    "aggregator": lambda metrics: aggregator.Instruments(metrics, clock=_CLOCK),
    "scheduler": lambda metrics: scheduler.Instruments(metrics),
    "auth": lambda metrics: auth.Instruments(metrics, clock=_CLOCK),
}


def run(quick: bool = False) -> list[Row]:
    """The table of this module. `quick` takes fewer repetitions."""
    repetitions = 20 if quick else 200
    rows: list[Row] = []
    for name, make in _SERVICES.items():
        metrics = metric.Metrics(name)
        client_metrics.BusMetrics(metrics)
        health.watched(health.Health({"bus": lambda: None}), metrics)
        if name != "aggregator":
            _fill(client_metrics.KubeMetrics(metrics))
        _fill(make(metrics))
        size = len(metrics.render())
        rows.append((f"{name}: CPU of a scrape, every series there", _cpu_ms(metrics.render, repetitions), "ms",
                     "at most 5"))  # fmt: skip
        rows.append((f"{name}: size of the answer", size / 1e3, "kB", ""))
    return [*rows, _gauges(repetitions)]


def _fill(instruments: object) -> None:
    """Give each metric with labels every series that it can have."""
    for found in vars(instruments).values():
        labels = getattr(found, "_labelnames", ())
        for values in itertools.product(*(range(VALUES[label]) for label in labels)) if labels else ():
            found.labels(*(f"value-{value}" for value in values))


def _gauges(repetitions: int) -> Row:
    """What the scheduler's gauges of nodes cost, which it sets twice a second."""
    nodes = fleet.Fleet(policy.Policy())
    rng = np.random.default_rng(1)
    for index in range(NODES):
        nodes.put_node(_node(index), reservations.Load())
    view = nodes.snapshot(float(rng.uniform(1.0, 2.0)))
    counted = scheduler.Instruments(metric.Metrics("scheduler"))
    took_ms = _cpu_ms(lambda: counted.count_nodes(view), repetitions)
    return (f"scheduler: CPU of its gauges of {NODES} nodes, twice a second", took_ms, "ms", "")


def _node(index: int) -> cluster.Node:
    return cluster.Node(
        name=f"node-{index}", uid=f"uid-{index}", labels={}, taints=(), unschedulable=False,
        ready=True, deleting=False, allocatable_cores=4.0, allocatable_bytes=2.0**33, pod_limit=110,
    )  # fmt: skip


def _cpu_ms(work: Callable[[], object], repetitions: int) -> float:
    times = []
    for _ in range(repetitions):
        began_ns = time.process_time_ns()
        work()
        times.append((time.process_time_ns() - began_ns) / 1e6)
    return statistics.median(times)
