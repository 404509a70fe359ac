"""Selectors match as https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/ says."""

import pytest

from carico_core.domain import constraints, selectors

LABELS = {"zone": "a", "cores": "8", "odd": "x8"}


def requirement(key: str, operator: str, *values: str) -> selectors.Requirement:
    return selectors.Requirement(key=key, operator=operator, values=values)


@pytest.mark.parametrize(
    ("key", "operator", "values", "expected"),
    [
        ("zone", "In", ("a", "b"), True),
        ("zone", "In", ("b",), False),
        ("absent", "In", ("",), False),
        ("zone", "NotIn", ("b",), True),
        ("zone", "NotIn", ("a",), False),
        ("absent", "NotIn", ("a",), True),
        ("zone", "Exists", (), True),
        ("absent", "Exists", (), False),
        ("zone", "DoesNotExist", (), False),
        ("absent", "DoesNotExist", (), True),
        ("cores", "Gt", ("7",), True),
        ("cores", "Gt", ("8",), False),
        ("cores", "Lt", ("9",), True),
        ("cores", "Lt", ("8",), False),
        ("cores", "Gt", ("-1",), True),
        ("odd", "Gt", ("1",), False),
        ("cores", "Gt", ("1.5",), False),
        ("cores", "Gt", ("٧",), False),
        ("cores", "Lt", (str(2**63 - 1),), True),
        ("cores", "Lt", (str(2**63),), False),
        ("cores", "Gt", (str(-(2**63)),), True),
        ("cores", "Gt", (str(-(2**63) - 1),), False),
        ("absent", "Lt", ("9",), False),
        ("cores", "Gt", (), False),
        # More digits than Python reads: the API does not check the values of a preferred term.
        ("cores", "Gt", ("9" * 5000,), False),
        ("cores", "Gt", ("-" + "9" * 5000,), False),
        ("cores", "Gt", ("0" * 5000 + "7",), True),
        ("cores", "Lt", ("-" + "0" * 5000,), False),
        ("zone", "Near", ("a",), False),
    ],
)
def test_one_requirement(key: str, operator: str, values: tuple[str, ...], expected: bool) -> None:
    assert requirement(key, operator, *values).matches(LABELS) is expected


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (selectors.NodeTerm(), False),
        (selectors.NodeTerm(labels=(requirement("zone", "In", "a"), requirement("absent", "Exists"))), False),
        (selectors.NodeTerm(fields=(requirement("metadata.name", "In", "n1"),)), True),
        (selectors.NodeTerm(fields=(requirement("metadata.name", "NotIn", "n1"),)), False),
        (selectors.NodeTerm(fields=(requirement("metadata.name", "In", "n1", "n2"),)), False),
        (
            selectors.NodeTerm(
                fields=(requirement("metadata.name", "In", "n1"), requirement("metadata.name", "In", "n2"))
            ),
            False,
        ),
        (selectors.NodeTerm(fields=(requirement("metadata.name", "Exists"),)), False),
        (selectors.NodeTerm(fields=(requirement("metadata.name", "Gt", "n2"),)), False),
        (selectors.NodeTerm(fields=(requirement("metadata.uid", "In", "n1"),)), False),
        (
            selectors.NodeTerm(
                labels=(requirement("zone", "In", "b"),), fields=(requirement("metadata.name", "In", "n1"),)
            ),
            False,
        ),
    ],
)
def test_one_term_of_a_node_selector(term: selectors.NodeTerm, expected: bool) -> None:
    assert term.matches("n1", LABELS) is expected
    # Terms are alternatives.
    assert selectors.any_matches((selectors.NodeTerm(), term), "n1", LABELS) is expected


def test_a_selector_wants_all_it_says_and_none_at_all_matches_nothing() -> None:
    assert selectors.matches((), {})
    assert not selectors.matches(None, LABELS)
    assert not selectors.matches((requirement("zone", "Exists"), requirement("zone", "In", "b")), LABELS)


def test_terms_in_words() -> None:
    term = selectors.NodeTerm(
        labels=(requirement("zone", "In", "a", "b"),), fields=(requirement("metadata.name", "Exists"),)
    )
    assert str(term) == "zone In (a, b) and metadata.name Exists"
    assert str(selectors.NodeTerm()) == "nothing"


@pytest.mark.parametrize(
    ("one", "other", "is_conflict"),
    [
        (("0.0.0.0", "TCP", 80), ("10.0.0.1", "TCP", 80), True),
        (("10.0.0.1", "TCP", 80), ("10.0.0.2", "TCP", 80), False),
        (("10.0.0.1", "TCP", 80), ("10.0.0.1", "UDP", 80), False),
        (("10.0.0.1", "TCP", 80), ("10.0.0.1", "TCP", 81), False),
        (("10.0.0.1", "TCP", 80), ("10.0.0.1", "TCP", 80), True),
    ],
)
def test_host_ports(one: tuple[str, str, int], other: tuple[str, str, int], is_conflict: bool) -> None:
    ports = [constraints.HostPort(address=each[0], protocol=each[1], port=each[2]) for each in (one, other)]
    assert constraints.Occupied(ports[:1]).conflicts(ports[1:]) is is_conflict
    assert constraints.Occupied(ports[1:]).conflicts(ports[:1]) is is_conflict
