"""Which Pods a term of inter-Pod affinity means, and which disks and spread constraints go together."""

import pytest

from carico_core.domain import constraints, selectors

WEB = (selectors.Requirement(key="app", operator=selectors.IN, values=("web",)),)
RED = (selectors.Requirement(key="team", operator=selectors.IN, values=("red",)),)


@pytest.mark.parametrize(
    ("listed", "selector", "namespace", "labels", "expected"),
    [
        (("a",), None, "a", {"app": "web"}, True),
        (("a",), None, "b", {"app": "web"}, False),
        (("a",), RED, "a", {"app": "web"}, True),
        (("a",), RED, "b", {"app": "web"}, True),
        ((), (), "b", {"app": "web"}, True),
        (("a",), RED, "b", {"app": "db"}, False),
        (("a",), None, "a", {}, False),
    ],
)
def test_a_term_means_pods_of_its_namespaces_or_of_those_selected(
    listed: tuple[str, ...], selector: selectors.Selector, namespace: str, labels: dict[str, str], expected: bool
) -> None:
    term = constraints.PodTerm(topology_key="zone", selector=WEB, namespaces=listed, namespace_selector=selector)
    assert term.matches(namespace, {"team": "red"}, labels) is expected
    if selector:
        assert term.matches(namespace, {}, labels) is (expected and namespace in listed)


def disk(*names: str, kind: str = "ebs", read_only: bool = False) -> constraints.ExclusiveDisk:
    return constraints.ExclusiveDisk(kind=kind, names=names, read_only=read_only)


@pytest.mark.parametrize(
    ("one", "other", "is_conflict"),
    [
        (disk("x"), disk("x"), True),
        (disk("x", "y"), disk("z", "y"), True),
        (disk("x"), disk("y"), False),
        (disk("x"), disk("x", kind="gce"), False),
        (disk("x", read_only=True), disk("x"), True),
        (disk("x", read_only=True), disk("x", read_only=True), False),
    ],
)
def test_disks(one: constraints.ExclusiveDisk, other: constraints.ExclusiveDisk, is_conflict: bool) -> None:
    assert constraints.Occupied(disks=[one]).conflicts(disks=[other]) is is_conflict
    assert constraints.Occupied(disks=[other]).conflicts(disks=[one]) is is_conflict
    assert constraints.Occupied(disks=[disk("w"), one, disk("z")]).conflicts(disks=[disk("q"), other]) is is_conflict


def test_thousands_of_ports_and_disks_are_not_compared_one_by_one() -> None:
    """A Pod of 1.5 MB has 35,000 of them: two such Pods took the scheduler two minutes."""
    looked: list[str] = []

    class Counted(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            looked.append(str(self))
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    def port(number: int) -> constraints.HostPort:
        return constraints.HostPort(address=Counted(f"10.0.{number // 250}.{number % 250}"), protocol="TCP", port=80)

    def read(number: int) -> constraints.ExclusiveDisk:
        return constraints.ExclusiveDisk(kind="ebs", names=(Counted(number), Counted("shared")), read_only=True)

    occupied = constraints.Occupied(map(port, range(1000)), map(read, range(1000)))
    assert not occupied.conflicts(map(port, range(1000, 2000)), map(read, range(1000, 2000)))
    assert len(looked) <= 5000


def test_spreads_are_required_or_preferred() -> None:
    hard, soft = (
        constraints.Spread(namespace="d", topology_key="zone", selector=WEB, max_skew=1, is_soft=is_soft)
        for is_soft in (False, True)
    )
    found = constraints.Constraints(spreads=(soft, hard))
    assert (found.hard_spreads, found.soft_spreads) == ((hard,), (soft,))
    # As Kubernetes has them by default: node affinity is honoured, taints are not.
    assert (hard.min_domains, hard.honours_affinity, hard.honours_taints) == (1, True, False)
