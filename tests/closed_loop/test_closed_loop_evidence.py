"""A node whose reports to the aggregators are wrong changes neither the others' capacity nor their load."""

import dataclasses

import pytest

from carico_core.domain import messages
from carico_twin import catalogue, records, scenario, world
from carico_twin.nodes import machine, work
from tests.closed_loop import clusters

LIAR, NEWCOMER = 0, 6
JOINS_S, LOOKED_S, SECOND_S, ENDS_S = 30.0, 44.0, 45.0, 75.0
SEED = 1


def plan() -> scenario.Scenario:
    """A class that some nodes have measured, one that joins and has seen no work, then more of the class than fits."""
    first = catalogue.job(work.PI, 14, name="pi-28391040")
    second = catalogue.job(work.PI, 80, at_s=SECOND_S, name="pi-28391050")
    joins = ((NEWCOMER, JOINS_S),)
    return scenario.Scenario(
        name="lie", hardware=(machine.Hardware(),) * 7, jobs=(first, second), nodes_join_at_s=joins
    )


def lied(said: messages.LocalSubspace) -> messages.LocalSubspace:
    """Pods cost a millionth, which is certain; the node has carried a million a core, and has a million cores."""
    if said.node != records.node_name(LIAR):
        return said
    evidence = {
        name: dataclasses.replace(
            each,
            cost={dim: messages.Estimate(mean=found.mean * 1e-6, sd=0.0) for dim, found in each.cost.items()},
        )
        for name, each in said.evidence.items()
    }
    return dataclasses.replace(said, evidence=evidence, peak_pods_per_core=1e6, weight=1e6)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What came of a run: CPU cost of a Pod and Pods that fit on the newcomer, most Pods on a node, last Pod's end."""

    newcomers_cost: float
    newcomers_room: float
    most_pods: int
    ended_s: float


def seen(monkeypatch: pytest.MonkeyPatch, *, lying: bool) -> Seen:
    watched = clusters.Watched(plan(), clusters.options(), SEED)
    aggregator = watched.world.aggregator
    assert aggregator is not None
    if lying:
        hear = aggregator.hear
        monkeypatch.setattr(aggregator, "hear", lambda said: hear(lied(said)))
    watched.world.run_until(LOOKED_S)
    newest = watched.said(NEWCOMER)
    assert newest.classes is not None
    (pi,) = newest.classes.keys() - {messages.NEW_CLASS}
    room = clusters.free_pods(newest._replace(limit=None), pi, ())
    watched.world.run_until(ENDS_S)
    assert watched.done()
    return Seen(
        newcomers_cost=newest.classes[pi].cost_plus["cpu"],
        newcomers_room=room,
        most_pods=max(most_beside(watched.world, node) for node in range(len(watched.world.nodes)) if node != LIAR),
        ended_s=max(pod.ended_s for pod in watched.world.pods),
    )


def most_beside(found: world.World, node: int) -> int:
    """Most Pods that ran on a node at once."""
    pods = [pod for pod in found.pods if pod.node == node]
    return max([sum(each.started_s <= pod.started_s < each.ended_s for each in pods) for pod in pods], default=0)


def test_one_nodes_lies_change_neither_what_the_others_say_nor_what_they_carry(monkeypatch: pytest.MonkeyPatch) -> None:
    honest, with_liar = seen(monkeypatch, lying=False), seen(monkeypatch, lying=True)
    assert with_liar.newcomers_cost == pytest.approx(honest.newcomers_cost, rel=0.05)
    assert with_liar.newcomers_room == pytest.approx(honest.newcomers_room, rel=0.05)
    # Nodes of four cores: believed, the lie brings 15 Pods to one of them.
    assert max(honest.most_pods, with_liar.most_pods) <= 12
    assert with_liar.ended_s <= 1.05 * honest.ended_s
