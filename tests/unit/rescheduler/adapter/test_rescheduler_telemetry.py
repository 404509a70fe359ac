"""What one node may claim of its Pods and of itself."""

import pytest

from carico_core.domain import pod_telemetry
from carico_core.runtime.observe import metrics as metric
from carico_core.runtime.process import clock as clocks
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_rescheduler import instruments
from carico_rescheduler.adapter import telemetry
from carico_rescheduler.context import cluster as clusters
from tests.unit.rescheduler import cluster_objects as world
from tests.unit.rescheduler.plan import test_rescheduler_plan as plans


def overloaded() -> clusters.Cluster:
    """Three tasks too many on one node, room on another, and a Pod on a third."""
    known = world.make({"node-a": 0.0, "node-b": 8.0, "node-c": 0.0})
    world.deploy(known, "web", ["node-a"] * 9, tasks=1.0)
    world.deploy(known, "other", ["node-c"], tasks=1.0)
    return known


def targets(known: clusters.Cluster) -> list[str]:
    """Where the Pods of the overloaded node move."""
    return [each.target for each in plans.plan(known).moves if each.source == "node-a"]


@pytest.mark.parametrize(
    "claimed", [pod_telemetry.PodLoad("*", 1e18, 1.0, 1e18), pod_telemetry.PodLoad("*", 0, 1e18, 0)]
)
def test_a_node_that_states_endless_load_stops_no_move_of_others(claimed: pod_telemetry.PodLoad) -> None:
    known = overloaded()
    taken = telemetry.Telemetry(
        known, lease_s=10.0, clock=clocks.FakeClock(), metrics=instruments.Instruments(metric.Metrics("rescheduler"))
    )
    said = pod_telemetry.PodLoads(node="node-c", boot="0" * 16, seq=1, ts_ns=1, loads={"uid-other-0": claimed})
    known.loads.pop(("node-c", "uid-other-0"))
    taken.on_loads(subjects.pods("node-c"), wire.encode_loads(said))
    # Four cores, and a task that waits.
    assert known.loads["node-c", "uid-other-0"].tasks == 5.0
    assert known.loads["node-c", "uid-other-0"].memory_bytes <= known.nodes.found["", "node-c"].allocatable_bytes
    assert targets(known) == targets(overloaded()) == ["node-b"] * 3


@pytest.mark.parametrize(("cost", "baseline"), [(1e18, 0.0), (1.0, 1e18)])
def test_nor_does_one_that_advertises_it(cost: float, baseline: float) -> None:
    known = overloaded()
    known.loads.pop(("node-c", "uid-other-0"))
    world.measured(known, "node-c", {"*": {"cpu": cost, "memory": cost}}, baseline=baseline)
    assert targets(known) == ["node-b"] * 3
