"""Subjects are built and taken apart in one place, and only of valid names."""

import pytest

from carico_core.domain import errors
from carico_core.wire import subjects


def test_names_with_dots_are_one_token_and_come_back() -> None:
    node = "ip-10-0-0-1.ec2.internal"
    for build in (subjects.capacity, subjects.subspace, subjects.partial):
        assert build(node).count(".") == 3
        assert subjects.node_of(build(node)) == node


def test_decisions_name_namespace_and_pod() -> None:
    assert subjects.decision("default", "pi-0.a") == "carico.v1.decision.default.pi-0_a"
    assert subjects.pod_of("carico.v1.decision.default.pi-0_a") == ("default", "pi-0.a")
    assert subjects.decisions("default", None) == "carico.v1.decision.default.*"
    assert subjects.decisions(None, None) == subjects.DECISION_ALL


def test_queries_name_service_node_and_verb() -> None:
    assert subjects.query("aggregator", "model.get") == "carico.v1.query.aggregator.model.get"
    assert subjects.query("agent", "state.get", "a.b") == "carico.v1.query.agent.a_b.state.get"


@pytest.mark.parametrize("name", ["", "*", ">", "a b", "A", "a_b", "-a", "a\n", "a" * 254, "a..b"])
def test_invalid_names_make_no_subject(name: str) -> None:
    for build in (subjects.capacity, subjects.subspace, subjects.partial, lambda bad: subjects.decision("a", bad)):
        with pytest.raises(errors.BadName):
            build(name)
    with pytest.raises(errors.BadName):
        subjects.decision(name, "pod")
    with pytest.raises(errors.BadName):
        subjects.query(name, "get")


@pytest.mark.parametrize(
    "subject", ["", "carico.v1.capacity.", "carico.v1.capacity.a.b", "carico.v2.capacity.a", "carico.v1.model", "x"]
)
def test_other_subjects_have_no_node(subject: str) -> None:
    with pytest.raises(errors.BadName):
        subjects.node_of(subject)


@pytest.mark.parametrize("subject", ["carico.v1.decision.a", "carico.v1.decision.a.b.c", "carico.v1.decision.A.b", ""])
def test_other_subjects_have_no_pod(subject: str) -> None:
    with pytest.raises(errors.BadName):
        subjects.pod_of(subject)


@pytest.mark.parametrize("verb", ["", "Get", "get.", "get.*", "a" * 40, "a b"])
def test_invalid_verbs_make_no_query(verb: str) -> None:
    with pytest.raises(errors.BadName):
        subjects.query("agent", verb)
