"""Answers over all nodes by names, labels and taints: right at first, and after nodes have come, changed or gone."""

import random
from typing import Any

import hypothesis
from hypothesis import strategies as st

from carico_core.domain import cluster, constraints, selectors
from carico_scheduler.nodes import lru, node_labels
from tests.unit.scheduler import objects

ZONE = "zone"


def term(*labels: selectors.Requirement, fields: tuple[selectors.Requirement, ...] = ()) -> selectors.NodeTerm:
    return selectors.NodeTerm(labels=labels, fields=fields)


def needs(key: str, operator: str, *values: str) -> selectors.Requirement:
    return selectors.Requirement(key=key, operator=operator, values=values)


def node(name: str, *taints: cluster.Taint, **labels: str) -> cluster.Node:
    return objects.make_node(name, labels=labels, taints=taints)


def labels_of(nodes: list[cluster.Node | None]) -> node_labels.NodeLabels:
    def slot_of(name: str) -> int | None:
        return next((slot for slot, each in enumerate(nodes) if each is not None and each.name == name), None)

    return node_labels.NodeLabels(nodes, slot_of)


def test_a_labels_values_are_numbered_and_summed_over() -> None:
    known = labels_of([node("a", zone="x"), node("b"), None, node("c", zone="y"), node("d", zone="x")])
    domains = known.domains(ZONE)
    assert domains.of.tolist() == [0, node_labels.NO_DOMAIN, node_labels.NO_DOMAIN, 1, 0]
    assert (domains.numbers, domains.count) == ({"x": 0, "y": 1}, 2)
    assert domains.known.tolist() == [True, False, False, True, True]
    # The last entry is read for nodes without the label, by their number -1.
    assert domains.sums(domains.of + 5).tolist() == [10.0, 6.0, 0.0]
    assert known.domains("none").sums(domains.of).tolist() == [0.0]
    assert domains.having(("x",)).tolist() == [True, False, False, False, True]
    assert domains.having(("y", "unknown", "x")).tolist() == [True, False, False, True, True]
    assert not domains.having(("unknown",)).any()
    assert not domains.having(()).any()


def test_what_is_derived_from_all_nodes_is_computed_again_after_a_node_has_changed() -> None:
    nodes: list[cluster.Node | None] = [node("a"), node("b")]
    known, computed = labels_of(nodes), []

    def compute() -> int:
        computed.append(len(nodes))
        return len(nodes)

    assert [known.derived("count", compute) for _ in range(3)] == [2, 2, 2]
    nodes.append(node("c"))
    known.touch(2)
    assert (known.derived("count", compute), computed) == (3, [2, 3])


def test_numbers_of_values_stay_as_nodes_come_and_go() -> None:
    nodes: list[cluster.Node | None] = [node("a", zone="x"), node("b", zone="y")]
    known = labels_of(nodes)
    before = known.domains(ZONE)
    nodes[0] = node("a", zone="z")
    assert known.domains(ZONE).of.tolist() == [0, 1]
    known.touch(0)
    assert known.domains(ZONE).of.tolist() == [2, 1]
    assert not known.domains(ZONE).having(("unknown",)).any()
    nodes.append(node("c", zone="y"))
    nodes[0] = None
    known.touch(0)
    after = known.domains(ZONE)
    assert after.of.tolist() == [node_labels.NO_DOMAIN, 1, 1]
    assert after.numbers is before.numbers
    assert after.sums(after.of).tolist() == [0.0, 2.0, 0.0, 0.0]


def test_no_more_labels_are_numbered_than_answers_are_kept() -> None:
    known = labels_of([node("a", zone="x"), node("b", zone="y")])
    first = known.domains(ZONE)
    known.domains("another")
    assert known.domains(ZONE).numbers is first.numbers
    for index in range(2 * lru.KEPT_MOST):
        known.domains(f"key-{index}")
    assert len(known._numbers) <= lru.KEPT_MOST + 1
    domains = known.domains(ZONE)
    assert (domains.of.tolist(), domains.numbers) == ([0, 1], {"x": 0, "y": 1})


def test_values_of_nodes_that_have_gone_are_not_numbered_for_ever() -> None:
    nodes: list[cluster.Node | None] = [node("a", zone="x"), node("b", zone="y")]
    known = labels_of(nodes)
    most = 0
    for number in range(1000):
        name = f"n{number}"
        nodes[1] = node(name, zone=name)
        known.touch(1)
        domains = known.domains(ZONE)
        most = max(most, domains.count)
        assert domains.having((name,)).tolist() == [False, True]
        assert domains.having(("x", f"n{number - 1}")).tolist() == [True, False]
        assert domains.sums(domains.of * 0 + 1)[domains.of].tolist() == [1.0, 1.0]
    assert most <= 65


def test_soft_taints_are_known_as_long_as_a_node_has_one() -> None:
    soft = cluster.Taint(key="soft", value="", effect="PreferNoSchedule")
    hard = cluster.Taint(key="hard", value="", effect="NoSchedule")
    nodes: list[cluster.Node | None] = [node("a"), None]
    known = labels_of(nodes)
    seen = []
    for slot, found in (
        (0, node("a")), (0, node("a", soft)), (1, node("b", hard, soft)), (0, node("a", hard)), (1, None),
    ):  # fmt: skip
        nodes[slot] = found
        known.touch(slot)
        seen.append(set(known.disliking))
    assert seen == [set(), {0}, {0, 1}, {1}, set()]


def test_each_question_has_an_answer_of_its_own_that_is_kept() -> None:
    dear = cluster.Taint(key="dear", value="", effect="NoSchedule")
    soft = cluster.Taint(key="soft", value="", effect="PreferNoSchedule")
    nodes: list[cluster.Node | None] = [node("a", dear, zone="x"), node("b", soft, zone="y"), None]
    known = labels_of(nodes)
    tolerates = (cluster.Toleration(key="", operator="Exists", value="", effect=""),)
    in_x = term(needs(ZONE, "In", "x"))
    named = term(fields=(needs(selectors.NAME_FIELD, "In", "b"),))
    wishes = (
        constraints.NodePreference(weight=3, term=in_x),
        constraints.NodePreference(weight=4, term=term(needs(ZONE, "Exists"))),
    )
    for _ in range(2):
        assert known.matching((in_x,)).tolist() == [True, False, False]
        assert known.matching((named,)).tolist() == [False, True, False]
        assert known.matching((in_x, named)).tolist() == [True, True, False]
        assert known.matching(()).tolist() == [False, False, False]
        assert known.tolerated(()).tolist() == [False, True, False]
        assert known.tolerated(tolerates).tolist() == [True, True, False]
        assert known.disliked(()).tolist() == [0.0, 1.0, 0.0]
        assert known.disliked(tolerates).tolist() == [0.0, 0.0, 0.0]
        assert known.preferred(wishes).tolist() == [7.0, 4.0, 0.0]
    assert known.matching((in_x,)) is known.matching((in_x,))
    assert known.matching((in_x,)).dtype == bool


@hypothesis.given(seed=st.integers(0, 2**32))
def test_terms_that_few_ask_for_have_the_same_answer_without_being_kept(seed: int) -> None:
    rng = random.Random(seed)

    def label() -> selectors.Requirement:
        return rng.choice(
            [
                needs(ZONE, "In", *rng.sample("xyz", 2)), needs(ZONE, "NotIn", "x"), needs("disk", "Exists"),
                needs("disk", "In", "ssd"), needs("disk", "DoesNotExist"),
            ]
        )  # fmt: skip

    nodes = [
        None if rng.random() < 0.2 else node(
            f"n{index}", **dict(rng.sample([(ZONE, rng.choice("xyz")), ("disk", "ssd")], rng.randrange(3)))
        )
        for index in range(8)
    ]  # fmt: skip
    terms = tuple(
        term(
            *(label() for _ in range(rng.randrange(3))),
            fields=rng.choice(
                [
                    (),
                    (needs(selectors.NAME_FIELD, "NotIn", "n1"),),
                    (needs(selectors.NAME_FIELD, "In", "n1"),),
                    (needs(selectors.NAME_FIELD, "In", "n9"),),
                    (needs(selectors.NAME_FIELD, "In", "n1", "n2"),),
                    (needs("other", "In", "n1"),),
                ]
            ),
        )
        for _ in range(rng.randrange(4))
    )
    known = labels_of(nodes)
    found = [each is not None and selectors.any_matches(terms, each.name, each.labels) for each in nodes]
    assert known.where(terms).tolist() == known.matching(terms).tolist() == found


def test_keys_that_no_node_has_any_more_are_forgotten() -> None:
    nodes: list[cluster.Node | None] = [node("a", zone="x"), None]
    known = labels_of(nodes)
    known.touch(0)
    for number in range(10_000):
        nodes[1] = node(f"b-{number}", **{f"key-{number}": "x"})
        known.touch(1)
    assert known.having_any({ZONE, "key-9999", "none"}) == {ZONE, "key-9999"}
    assert len(known._keys) <= node_labels._KEYS_LEAST


def test_of_pods_that_name_their_node_as_those_of_daemon_sets_do_each_looks_at_that_node_alone() -> None:
    class Counted(list[cluster.Node | None]):
        looks = 0

        def __getitem__(self, slot: Any) -> Any:
            self.looks += 1
            return super().__getitem__(slot)

    nodes = Counted(node(f"n{index}") for index in range(100))
    known = node_labels.NodeLabels(nodes, {each.name: slot for slot, each in enumerate(nodes) if each}.get)
    for slot in range(100):
        (found,) = known.matching((term(fields=(needs(selectors.NAME_FIELD, "In", f"n{slot}"),)),)).nonzero()[0]
        assert found == slot
    assert nodes.looks == 100
    assert len(known._kept) == 0
