"""Victims: only Pods of lower priority, only where it is enough, no more than kube-scheduler chooses."""

import itertools
import math
from typing import Any, NamedTuple

import hypothesis
from hypothesis import strategies as st

from carico_core.domain import cluster, messages, selectors
from carico_core.wire.kubernetes import api_objects
from carico_scheduler.nodes import fleet
from carico_scheduler.pods import demand, reservations
from carico_scheduler.preempt import budgets, victims
from carico_scheduler.rules import policy, registry
from tests.unit.scheduler import objects

NOW_S = 1000.0


class Placed(NamedTuple):
    """A Pod on a node: what it requests and is measured to cost, in cores."""

    name: str
    priority: int
    cores: float
    created_at_s: float = 0.0
    labels: dict[str, str] = {}  # noqa: RUF012  # a default of a named tuple, never changed
    deleting: bool = False
    ends_at_s: float = math.inf
    is_reserved: bool = False


class Site:
    """Nodes whose agents advertise exactly what requests leave."""

    def __init__(self, *, by_requests: bool = True) -> None:
        self.by_requests = by_requests
        self.policy = policy.Policy()
        self.fleet = fleet.Fleet(self.policy)
        self.budgets = budgets.Budgets()
        self.residents: dict[str, list[victims.Resident]] = {}

    def add(self, name: str, cores: float, pods: list[Placed], classes: dict[str, float]) -> None:
        """Add a node; `classes`: the measured cost of each class."""
        table, found = reservations.Reservations(self.policy.release), []
        for each in pods:
            made = self.pod(each.name, each.priority, each.cores)
            made = made._replace(
                node_name=name, created_at_s=each.created_at_s, labels=each.labels, deleting=each.deleting,
                ends_at_s=each.ends_at_s,
            )  # fmt: skip
            booking = reservations.booking_of(made, node=name, now_s=0.0)
            table.place(booking)
            found.append(victims.Resident(made, booking, each.is_reserved))
        table.cover(name, frozenset(each.pod.uid for each in found if not each.is_reserved), 0.0)
        self.residents[name] = found
        self.fleet.put_node(objects.make_node(name, allocatable_cores=cores), table.load(name))
        free = cores - sum(each.cores for each in pods if not each.is_reserved)
        offered = {key: messages.ClassCapacity(cost_plus={"cpu": cost}, pods=0) for key, cost in classes.items()}
        advertised = objects.make_advertisement(name, free, pods=len(pods), headroom={"cpu": free}, classes=offered)
        self.fleet.put_advertisement(advertised, NOW_S)

    def pod(self, name: str, priority: int, cores: float) -> cluster.Pod:
        """Return a Pod whose class names its cost."""
        requests = cores if self.by_requests else 0.0
        return objects.make_pod(name, priority=priority, request_cores=requests, image=f"{cores:g}")

    def choices(self, cores: float, priority: int, **changes: Any) -> list[victims.Choice]:
        """Return what each node would lose for a Pod."""
        wanted = victims.PreemptingPod(
            demand.demand_of(self.pod("wanted", priority, cores)._replace(**changes)), priority
        )
        view, stages = self.fleet.snapshot(NOW_S), registry.by_capacity(self.policy)
        found = []
        for name, residents in self.residents.items():
            slot = self.fleet.slot_of(name)
            assert slot is not None
            found.append(victims.on_node(view.row(slot), wanted, residents, stages, self.budgets))
        return [each for each in found if each is not None]

    def best(self, cores: float, priority: int) -> tuple[str, list[str]] | None:
        """Return the node and the names of the victims."""
        best = victims.best_of(self.choices(cores, priority))
        return None if best is None else (best.node, [pod.name for pod in best.victims])


CLASSES = {f"image/default/{cores:g}": cores for cores in (0.5, 1.0, 2.0, 4.0)}


def test_as_many_as_possible_stay_and_the_important_ones_first() -> None:
    site = Site()
    pods = [Placed("old", 0, 1.0, 1.0), Placed("young", 0, 1.0, 2.0), Placed("mid", 5, 1.0), Placed("high", 9, 1.0)]
    site.add("a", 4.0, pods, CLASSES)
    assert site.best(1.0, 9) == ("a", ["young"])
    assert site.best(2.0, 9) == ("a", ["old", "young"])
    assert site.best(4.0, 9) is None, "`high` is of no lower priority, so that nothing would be gained"
    assert site.best(1.0, 0) is None


def test_the_node_that_loses_least_is_chosen() -> None:
    site = Site()
    site.add("dear", 2.0, [Placed("a1", 7, 2.0)], CLASSES)
    site.add("cheap", 2.0, [Placed("b1", 1, 1.0), Placed("b2", 1, 1.0)], CLASSES)
    assert site.best(2.0, 9) == ("cheap", ["b1", "b2"])
    site.add("cheaper", 2.0, [Placed("c1", 1, 2.0)], CLASSES)
    assert site.best(2.0, 9) == ("cheaper", ["c1"])


def test_what_a_pod_is_measured_to_hold_decides_and_not_its_number() -> None:
    site = Site(by_requests=False)
    site.add("a", 4.0, [Placed("big", 1, 2.0), *(Placed(f"s{n}", 0, 0.5) for n in range(4))], CLASSES)
    best = site.best(2.0, 9)
    assert best == ("a", ["s0", "s1", "s2", "s3"]), "as in kube-scheduler, the priority comes before the count"
    site = Site(by_requests=False)
    site.add("a", 4.0, [Placed("big", 0, 2.0, 2.0), *(Placed(f"s{n}", 0, 0.5, 1.0) for n in range(4))], CLASSES)
    assert site.best(2.0, 9) == ("a", ["big"])


def test_a_pod_of_a_class_that_the_node_has_not_measured_frees_only_what_is_reserved_for_it() -> None:
    unmeasured = {"image/default/1": 1.0, messages.NEW_CLASS: 2.0}
    site = Site(by_requests=False)
    site.add("a", 4.0, [Placed("measured", 1, 1.0), Placed("new", 0, 3.0)], unmeasured)
    assert site.best(1.0, 9) == ("a", ["measured"]), "`new` is of lower priority, but may hold nothing"
    site = Site(by_requests=False)
    site.add("a", 3.0, [Placed("measured", 1, 1.0), Placed("new", 0, 3.0, is_reserved=True)], unmeasured)
    assert site.best(1.0, 9) == ("a", ["new"])


def test_a_pod_that_is_leaving_is_waited_for_and_no_other_goes() -> None:
    site = Site()
    site.add("a", 2.0, [Placed("leaving", 0, 1.0, deleting=True), Placed("other", 0, 1.0)], CLASSES)
    (only,) = site.choices(1.0, 9)
    assert only.victims == ()
    assert site.best(2.0, 9) == ("a", ["other"])
    (both,) = site.choices(2.0, 9)
    assert [pod.name for pod in both.awaited] == ["leaving"], "its room is needed, too"


def test_of_pods_that_leave_those_that_end_first_are_waited_for_and_no_more_than_needed() -> None:
    site = Site()
    later, sooner = (Placed(f"ends-{at_s:g}", 0, 1.0, deleting=True, ends_at_s=at_s) for at_s in (90.0, 30.0))
    site.add("a", 3.0, [sooner, later, Placed("other", 0, 1.0)], CLASSES)
    (one,) = site.choices(1.0, 9)
    assert ([pod.name for pod in one.awaited], one.victims) == (["ends-30"], ())
    (two,) = site.choices(2.0, 9)
    assert ({pod.name for pod in two.awaited}, two.victims) == ({"ends-30", "ends-90"}, ())


def test_a_budget_is_kept_where_another_pod_can_go() -> None:
    site = Site()
    guarded = {"app": "guarded"}
    selector = (selectors.Requirement(key="app", operator=selectors.IN, values=("guarded",)),)
    site.budgets.put_all([cluster.DisruptionBudget(namespace="default", name="b", selector=selector, allowed=0)])
    site.add("a", 2.0, [Placed("guarded", 0, 1.0, 2.0, guarded), Placed("free", 5, 1.0)], CLASSES)
    assert site.best(1.0, 9) == ("a", ["free"]), "although it is of higher priority"
    site.add("b", 1.0, [Placed("guarded-too", 0, 1.0, labels=guarded)], CLASSES)
    assert site.best(1.0, 9) == ("a", ["free"])
    assert site.best(2.0, 9) == ("a", ["free", "guarded"]), "where there is no other way, a budget is violated"
    site.budgets.put_all([cluster.DisruptionBudget(namespace="default", name="b", selector=selector, allowed=1)])
    assert site.best(1.0, 9) == ("a", ["guarded"]), "one of them may go, and this one started last"


def test_no_victim_is_a_pod_that_the_new_one_must_be_near() -> None:
    site = Site()
    site.add("a", 2.0, [Placed("peer", 0, 1.0, labels={"app": "db"}), Placed("other", 5, 1.0)], CLASSES)
    obj = objects.pod_object("wanted")
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "db"}}}
    obj["spec"]["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    obj["metadata"] |= {"uid": "u", "creationTimestamp": "2025-01-01T00:00:00Z"}
    near = api_objects.parse_pod(obj).constraints
    (only,) = site.choices(1.0, 9, constraints=near)
    assert [pod.name for pod in only.victims] == ["other"]


def reference(
    nodes: list[tuple[float, list[Placed]]], cores: float, priority: int, allowed: dict[frozenset[str], int]
) -> tuple[int, list[str]] | None:  # fmt: skip
    """Return kube-scheduler's choice by requests: written from its documentation, without our code.

    `allowed`: budgets by the values of the label that they select.
    """
    best: tuple[tuple[int, int, int, int, float], int, list[str]] | None = None
    for index, (size, pods) in enumerate(nodes):
        lower = sorted((each for each in pods if each.priority < priority), key=lambda p: (-p.priority, p.created_at_s))
        used = sum(each.cores for each in pods if each.priority >= priority)
        if not lower or used + cores > size:
            continue
        left, violating = dict(allowed), []
        for each in lower:
            mine = [values for values in left if each.labels.get("app") in values]
            for values in mine:
                left[values] -= 1
            violating += [each] if any(left[values] < 0 for values in mine) else []
        gone = []
        for each in (*violating, *(each for each in lower if each not in violating)):
            if used + each.cores + cores <= size:
                used += each.cores
            else:
                gone.append(each)
        gone.sort(key=lambda p: (-p.priority, p.created_at_s))
        first = min(each.created_at_s for each in gone if each.priority == gone[0].priority)
        broken = sum(each in violating for each in gone)
        cost = (broken, gone[0].priority, sum(each.priority + 2**31 for each in gone), len(gone), -first)
        if best is None or cost < best[0]:
            best = (cost, index, [each.name for each in gone])
    return None if best is None else best[1:]


@hypothesis.given(
    nodes=st.lists(
        st.lists(
            st.tuples(st.integers(-2, 3), st.sampled_from([0.5, 1.0, 2.0]), st.sampled_from(["", "x", "y"])), max_size=6
        ),
        min_size=1,
        max_size=4,
    ),
    cores=st.sampled_from([0.5, 1.0, 2.0, 4.0]),
    priority=st.integers(-1, 4),
    allowed=st.dictionaries(st.sampled_from([frozenset("x"), frozenset("y"), frozenset("xy")]), st.integers(0, 2)),
    by_requests=st.booleans(),
)
@hypothesis.settings(max_examples=150, deadline=None)
def test_the_choice_is_kube_schedulers_where_cost_equals_request(
    nodes: list[list[tuple[int, float, str]]], cores: float, priority: int, allowed: dict[frozenset[str], int],
    by_requests: bool,
) -> None:  # fmt: skip
    number = itertools.count()
    site, plain = Site(by_requests=by_requests), []
    for values, count in allowed.items():
        selector = (selectors.Requirement(key="app", operator=selectors.IN, values=tuple(values)),)
        name = "-".join(sorted(values))
        site.budgets.put(cluster.DisruptionBudget(namespace="default", name=name, selector=selector, allowed=count))
    for index, drawn in enumerate(nodes):
        pods = [
            Placed(f"p{(n := next(number)):03}", level, size, float(n), {"app": app} if app else {})
            for level, size, app in drawn
        ]
        # Full, but for less than the smallest Pod.
        size = sum(each.cores for each in pods) + 0.25
        plain.append((size, pods))
        site.add(f"node-{index}", size, pods, CLASSES)
    wanted = reference(plain, cores, priority, allowed)
    found = site.best(cores, priority)
    assert found == (None if wanted is None else (f"node-{wanted[0]}", wanted[1]))
