"""PodDisruptionBudgets: each counts the Pods of its own namespace, and those that are being evicted already."""

from collections.abc import Mapping

import pytest

from carico_core.domain import cluster, selectors
from carico_scheduler.preempt import budgets
from tests.unit.scheduler import objects


def pod(name: str, namespace: str = "default") -> cluster.Pod:
    return objects.make_pod(name, namespace=namespace, labels={"app": "a"})


def budget(name: str, allowed: int, namespace: str = "default") -> cluster.DisruptionBudget:
    return cluster.DisruptionBudget(namespace=namespace, name=name, selector=(), allowed=allowed)


def test_a_budget_counts_the_pods_of_its_namespace() -> None:
    kept = budgets.Budgets()
    assert kept.violated_by([pod("a")]) == set()
    kept.put_all([budget("b", 1), budget("b", 0, "other")])
    both = [pod("a"), pod("b"), pod("c", "other")]
    assert kept.violated_by(both) == {both[1].uid, both[2].uid}
    assert kept.violated_by(both[:1], spent=[budgets.Spent(both[1])]) == {both[0].uid}
    kept.put(budget("b", 2))
    kept.remove("other", "b")
    assert kept.violated_by(both) == set()
    kept.remove("default", "b")
    kept.remove("default", "unknown")
    assert kept.violated_by(both, spent=map(budgets.Spent, both)) == set()


def test_a_pod_that_is_deleted_counts_until_its_budget_is_written() -> None:
    kept = budgets.Budgets()
    kept.put(budget("b", 1))
    spent = budgets.Spent(pod("a"), kept.writes)
    assert kept.violated_by([pod("b")], [spent]) == {pod("b").uid}
    kept.put(budget("c", 5))
    kept.put_all([budget("b", 1), budget("c", 5)])
    assert kept.violated_by([pod("b")], [spent]) == {pod("b").uid}, "only another one was written"
    kept.put(budget("b", 1))
    assert kept.violated_by([pod("b")], [spent]) == set()
    assert kept.violated_by([pod("b")], [budgets.Spent(pod("a"))]) == {pod("b").uid}, "it is not deleted yet"
    kept.put_all([budget("b", 2)])
    assert kept.violated_by([pod("b"), pod("c")], [spent]) == set(), "a list shows what was written meanwhile, too"


def test_each_budget_that_selects_a_pod_counts_it() -> None:
    kept = budgets.Budgets()
    kept.put_all([budget("b", 5), budget("c", 1)])
    assert kept.violated_by([pod("a"), pod("b")]) == {pod("b").uid}


def test_pods_of_the_same_labels_are_compared_with_each_budget_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenant may have thousands of budgets: 2 s for a node with 100 Pods of its own."""
    kept = budgets.Budgets()
    kept.put_all(budget(str(number), 1) for number in range(20))
    asked: list[selectors.Selector] = []
    matches = selectors.matches

    def counted(selector: selectors.Selector, labels: Mapping[str, str]) -> bool:
        asked.append(selector)
        return matches(selector, labels)

    monkeypatch.setattr(selectors, "matches", counted)
    # As Pods of a StatefulSet, each has a label of its own.
    pods = [pod(str(number))._replace(labels={"app": "a", "name": str(number)}) for number in range(10)]
    assert kept.violated_by(pods) == {each.uid for each in pods[1:]}
    kept.put(budget("0", 0))
    assert kept.violated_by(pods) == {each.uid for each in pods}
    assert len(asked) == 20
    nothing = selectors.Requirement(key="app", operator=selectors.IN, values=("b",))
    kept.put_all(budget(str(number), 1)._replace(selector=(nothing,)) for number in range(20))
    assert kept.violated_by(pods) == set()
    kept.put(budget("0", 0))
    assert kept.violated_by(pods) == {each.uid for each in pods}
