"""CARICO finds feasible exactly the nodes that kube-scheduler finds feasible, by the constraints alone.

A real kube-scheduler is asked about random Pods on random clusters; differences are bugs, or stand in
docs/scheduling.md.
"""

import collections
import itertools
import json
import random
from collections.abc import Iterator, Mapping, Sequence

import pytest

from carico_core.domain import cluster
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import settings
from carico_core.wire.kubernetes import api_objects
from carico_local.control_plane import commands, standalone
from carico_scheduler.decide import cycle
from carico_scheduler.intake import api_collections
from carico_scheduler.rules import policy
from carico_scheduler.state import state
from tests.integration.scheduler import feasibility_oracle as oracles
from tests.tools import kubernetes as programs
from tests.tools.api import feasibility_cases as cases

pytestmark = [pytest.mark.real_programs]
PODS = 100
# A difference that goes was none: kube-scheduler had not heard of everything yet, or it chose by chance, as it does
# among volumes of one size, of which another claim of the Pod can only use some (the cluster of seed 3589583794).
AGAIN = 40
# Random clusters in `make test`, and in `make test-upstream`.
CLUSTERS, MANY_CLUSTERS = 12, 150


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[oracles.Oracle]:
    """kube-scheduler on a control plane of its own: that of other tests has Pods of theirs."""
    found = programs.programs(commands.ETCD, commands.API, commands.SCHEDULER)
    environ = {**settings.environment(), **programs.LASTING}
    plane = standalone.Standalone(
        tmp_path_factory.mktemp("oracle"), environ=environ, clock=clocks.SystemClock(), found=found,
        parts=(commands.ETCD, commands.API), name="oracle",
    ).start()  # fmt: skip
    try:
        made = oracles.Oracle(plane, found[commands.SCHEDULER].path, environ)
        yield made
        made.close()
    finally:
        plane.stop()


class Ours:
    """The scheduler's own state and cycle on the same objects; no node advertises, and requests alone decide."""

    def __init__(self, oracle: oracles.Oracle) -> None:
        rules = policy.Policy(fallback=policy.Fallback.REQUESTS)
        self.state = state.State(rules, random.Random(0))
        self.cycle = cycle.Cycle(rules)
        for each in api_collections.all_of(self.state, clocks.SystemClock()):
            each.put_all(map(each.parse, oracle.objects(each.path)))
            if each.lacks is not None:
                each.lacks(None)

    def feasible(self, pod: cluster.Pod) -> tuple[frozenset[str], dict[str, int]]:
        """The nodes, and why the others are not."""
        board = self.cycle.explain(self.state.fleet.snapshot(0.0), self.state.demand_of(pod))
        slots = (board.values > float("-inf")).nonzero()[0].tolist()
        return frozenset(board.view.row(slot).node.name for slot in slots), dict(board.refused)


_numbers = itertools.count()
_reasons: collections.Counter[str] = collections.Counter()
_answers: collections.Counter[str] = collections.Counter()


def test_kube_scheduler_agrees_on_every_node(oracle: oracles.Oracle) -> None:
    _compare(oracle, random.Random(1).sample(range(2**32), CLUSTERS))


@pytest.mark.upstream
@pytest.mark.timeout(3600)
def test_kube_scheduler_agrees_on_many_more_clusters(oracle: oracles.Oracle) -> None:
    _compare(oracle, random.Random(2).sample(range(2**32, 2**33), MANY_CLUSTERS))


def _compare(oracle: oracles.Oracle, seeds: Sequence[int]) -> None:
    for seed in seeds:
        assert _differing(oracle, seed) == [], f"the cluster of seed {seed}"


def _differing(oracle: oracles.Oracle, seed: int) -> list[str]:
    """Return a line for each Pod of a drawn cluster for which our nodes and kube-scheduler's differ."""
    case = cases.draw(seed, name=f"c{next(_numbers)}", pods=PODS)
    oracle.make(case)
    try:
        found = _differences(oracle, case, oracle.ask(case))
        for _ in range(AGAIN):
            if found:
                found = _differences(oracle, case, oracle.ask_again(case, found.keys()))
        return list(found.values())
    finally:
        oracle.clear(case)


def _differences(oracle: oracles.Oracle, case: cases.Case, theirs: Mapping[str, frozenset[str]]) -> dict[str, str]:
    """What differs, by the name of the Pod, of those that kube-scheduler was asked about."""
    ours = Ours(oracle)
    differences = {}
    for obj in oracle.objects("/api/v1/pods"):
        name = obj["metadata"]["name"]
        if name not in theirs:
            continue
        found, refused = ours.feasible(api_objects.parse_pod(obj))
        _reasons.update(refused.keys())
        _answers["none" if not found else "all" if len(found) == len(case.nodes) else "some"] += 1
        if found != theirs[name]:
            differences[name] = _difference(obj, ours=found, theirs=theirs[name], refused=refused)
    return differences


def test_the_cases_said_something() -> None:
    """Every reason was met, and no kind of answer is rare: it runs after the comparison."""
    expected = {
        "unschedulable", "taint", "node_selector", "node_affinity", "requests", "pod_limit", "pod_affinity",
        "pod_anti_affinity", "topology_spread", "host_ports", "disk", "volume", "volume_limit", "unsupported",
    }  # fmt: skip
    assert set(_reasons) == expected, _reasons
    total = sum(_answers.values())
    assert total >= 100 * CLUSTERS
    assert min(_answers[kind] for kind in ("none", "some")) > 0.15 * total, _answers


def _difference(pod: cases.Object, *, ours: frozenset[str], theirs: frozenset[str], refused: dict[str, int]) -> str:
    return (
        f"{pod['metadata']['name']} {pod['metadata']['labels']}: we alone {sorted(ours - theirs)}, "
        f"kube-scheduler alone {sorted(theirs - ours)}; ours refused {refused}; "
        f"kube said {pod['status'].get('conditions')}\n{json.dumps(pod['spec'])}"
    )
