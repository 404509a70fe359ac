"""What a census tells of the Pods it is given: who is where, what changed, and how many a question means."""

import dataclasses
import random

import hypothesis
import pytest
from hypothesis import strategies as st

from carico_core.domain import cluster, constraints, selectors
from carico_scheduler.nodes import lru
from carico_scheduler.pods import pod_counts, pod_questions
from tests.unit.scheduler import objects

WEB = (selectors.Requirement(key="app", operator=selectors.IN, values=("web",)),)
RED = (selectors.Requirement(key="team", operator=selectors.IN, values=("red",)),)
HERE = constraints.PodTerm(topology_key="zone", selector=WEB, namespaces=("default",))
IN_RED = constraints.PodTerm(topology_key="zone", selector=WEB, namespaces=(), namespace_selector=RED)
WEBS = pod_questions.Matching(terms=(HERE,))


class Site:
    """A census over nodes whose slots come later."""

    def __init__(self) -> None:
        self.slots = {"a": 0, "b": 1}
        self.known = pod_counts.PodCounts(self.slots.get)

    def counts(self, question: pod_questions.Question, slots: int = 2) -> list[int]:
        found: list[int] = self.known.per_slot(question, slots).tolist()
        return found


def web(name: str = "web", app: str = "web", **changes: object) -> cluster.Pod:
    return objects.make_pod(name, labels={"app": app}, **changes)


def test_only_what_changes_an_answer_is_reported() -> None:
    known = Site().known
    assert not known.is_asked
    assert known.put(web(), "a")
    assert not known.put(web(phase="Running", resource_version="2"), "a")
    assert known.put(web(), "b")
    assert known.put(web(app="db"), "b")
    assert known.put(web(app="db", deleting=True), "b")
    assert known.remove("uid-web")
    assert not known.remove("uid-web")


def test_pods_are_on_their_nodes() -> None:
    known = Site().known
    first, second = web("first"), web("second")
    known.put(first, "a")
    known.put(second, "a")
    assert list(known.on("a")) == [first, second]
    known.put(first, "b")
    assert (list(known.on("a")), list(known.on("b"))) == ([second], [first])
    known.remove("uid-second")
    assert (list(known.on("a")), list(known.on("nowhere"))) == ([], [])
    # Nothing is kept of nodes on which no Pod is.
    assert list(known._by_node) == ["b"]


def test_counts_follow_pods_as_they_come_move_change_and_go() -> None:
    site = Site()
    found = [site.counts(WEBS)]
    for app, node in (("web", "a"), ("web", "b"), ("db", "b"), ("web", "b"), ("web", "unknown"), ("web", "a")):
        site.known.put(web(app=app), node)
        found.append(site.counts(WEBS))
    site.known.put(web("second"), "a")
    site.known.remove("uid-web")
    assert [*found, site.counts(WEBS)] == [[0, 0], [1, 0], [0, 1], [0, 0], [0, 1], [0, 0], [1, 0], [1, 0]]


def test_counts_follow_nodes_that_the_api_shows_late_or_no_more() -> None:
    site = Site()
    site.known.put(web("late"), "c")
    site.known.put(web("first"), "a")
    assert site.counts(WEBS) == [1, 0]
    assert site.known.is_asked
    site.slots["c"] = 2
    # Before the answer is asked for again it has no entry for the new slot.
    site.known.recount("c", 2)
    site.known.put(web("second"), "c")
    assert site.counts(WEBS, 3) == [1, 0, 2]
    assert site.counts(WEBS) == [1, 0]
    site.known.put(web("third"), "c")
    assert site.counts(WEBS, 3) == [1, 0, 3]
    del site.slots["c"]
    site.known.recount("c", 2)
    site.known.remove("uid-third")
    assert site.counts(WEBS, 3) == [1, 0, 0]
    site.slots["c"] = 2
    site.known.recount("c", 2)
    assert site.counts(WEBS, 3) == [1, 0, 2]


def test_a_pod_is_meant_by_all_terms_or_not_at_all() -> None:
    site = Site()
    site.known.put(web(), "a")
    site.known.put(web("other", namespace="other"), "b")
    both = pod_questions.Matching(terms=(HERE, IN_RED))
    assert (site.counts(WEBS), site.counts(both)) == ([1, 0], [0, 0])
    changed = site.known.put_namespaces({"default": {"team": "red"}, "other": {"team": "red"}})
    assert changed == ({"default", "other"}, True)
    assert (site.counts(WEBS), site.counts(both)) == ([1, 0], [1, 0])
    assert site.counts(pod_questions.Matching(terms=(IN_RED,))) == [1, 1]
    kept = site.known.per_slot(both, 2)
    assert site.known.put_namespaces({"other": {"team": "red"}, "default": {"team": "red"}}) == (set(), False)
    assert site.known.per_slot(both, 2).base is kept.base


def test_a_namespace_selector_that_no_label_meets_means_all_namespaces() -> None:
    """As kube-scheduler 1.36 reads it of a Pod that is to be placed, and of no other."""
    not_red = (selectors.Requirement(key="team", operator=selectors.NOT_IN, values=("red",)),)
    term = constraints.PodTerm(topology_key="zone", selector=WEB, namespaces=(), namespace_selector=not_red)
    assert pod_questions.selects(term, "x", {"team": "red"}, {"app": "web"})
    assert not term.matches("x", {"team": "red"}, {"app": "web"})
    assert not pod_questions.selects(term, "x", {"team": "red"}, {"app": "db"})


def test_spreading_counts_pods_of_its_namespace_that_stay() -> None:
    site = Site()
    site.known.put(web(), "a")
    site.known.put(web("leaving", deleting=True), "a")
    site.known.put(web("other", namespace="other"), "b")
    assert site.counts(pod_questions.Spreading(namespace="default", selector=WEB)) == [1, 0]
    assert site.counts(pod_questions.Spreading(namespace="default", selector=())) == [0, 0]
    assert site.counts(pod_questions.Spreading(namespace="default", selector=None)) == [0, 0]


def test_ports_disks_claims_and_terms_of_pods_are_counted_where_they_are() -> None:
    site = Site()
    port = constraints.HostPort(address="0.0.0.0", protocol="TCP", port=80)
    disk = constraints.ExclusiveDisk(kind="gce", names=("d",), read_only=False)
    use = constraints.VolumeClaimUse(namespace="default", name="disk")
    held = constraints.Constraints(host_ports=(port,), disks=(disk,), volume_claims=(use,), anti_affinity=(HERE,))
    questions: list[pod_questions.Question] = [
        pod_questions.Occupying(ports=(port,)), pod_questions.Occupying(disks=(disk,)), pod_questions.Using(claim=use),
        pod_questions.Repelling(topology_key=HERE.topology_key, terms=pod_questions.TermSet([HERE])),
    ]  # fmt: skip
    site.known.put(web("holds", constraints=held), "a")
    site.known.put(web("plain"), "b")
    site.known.put(web("other", constraints=constraints.Constraints(namespace="default")), "b")
    assert [site.counts(each) for each in questions] == [[1, 0]] * 4
    free = constraints.HostPort(address="0.0.0.0", protocol="TCP", port=81)
    assert site.counts(pod_questions.Occupying(ports=(free, port))) == [1, 0]
    assert site.counts(pod_questions.Occupying(ports=(free,))) == [0, 0]


def test_terms_that_select_namespaces_are_in_doubt_while_their_labels_are_not_known() -> None:
    known = Site().known
    assert not known.is_unsure_of((IN_RED,))
    known.lacking = "403 Forbidden"
    assert known.is_unsure_of((HERE, IN_RED))
    assert not known.is_unsure_of((HERE,))
    assert not known.is_unsure_of(())
    known.put_namespaces({"default": {"team": "red"}})
    assert known.namespaces == {"default": {"team": "red"}}
    assert (known.namespace_labels("default"), known.namespace_labels("none")) == ({"team": "red"}, {})


def equals(key: str, value: str) -> selectors.Requirement:
    return selectors.Requirement(key=key, operator=selectors.IN, values=(value,))


@dataclasses.dataclass(frozen=True, slots=True)
class Noted(pod_questions.Spreading):
    """A spread that notes the Pods that it is compared with."""

    seen: list[str] = dataclasses.field(default_factory=list, compare=False)

    def counts(self, pod: cluster.Pod, namespace_labels: pod_questions.Labels) -> bool:
        self.seen.append(pod.name)
        return pod_questions.Spreading.counts(self, pod, namespace_labels)


def test_a_spread_is_compared_only_with_pods_that_have_its_label_in_its_namespace() -> None:
    site = Site()
    asked = Noted(namespace="default", selector=(equals("app", "web"), equals("pod-template-hash", "h1")))
    for index in range(4):
        labels = {"app": "web", "pod-template-hash": f"h{index}"}
        site.known.put(objects.make_pod(f"before-{index}", labels=labels), "a")
        site.known.put(objects.make_pod(f"far-{index}", namespace="other", labels=labels), "a")
    assert site.counts(asked) == [1, 0]
    for index in range(4):
        site.known.put(objects.make_pod(f"after-{index}", labels={"pod-template-hash": f"h{index}"}), "b")
        site.known.remove(f"uid-before-{index}")
    assert asked.seen == ["before-1", "after-1", "before-1"]
    assert site.counts(asked) == [0, 0]


def test_answers_that_are_dropped_are_no_longer_kept_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lru, "KEPT_LEAST", 2)
    monkeypatch.setattr(lru, "KEPT_MOST", 2)
    site = Site()
    asked = [Noted(namespace="default", selector=(equals("app", name),)) for name in ("web", "db", "job")]
    for each in asked:
        site.counts(each)
    site.known.put(web(), "a")
    assert [each.seen for each in asked] == [[], [], []]
    assert [site.counts(each) for each in asked] == [[1, 0], [0, 0], [0, 0]]


QUESTIONS: tuple[pod_questions.Question, ...] = (
    WEBS,
    *(
        pod_questions.Spreading(namespace=namespace, selector=selector)
        for namespace in ("default", "other")
        for selector in (
            WEB, (), None, (equals("app", "web"), equals("tier", "x")), (equals("tier", "x"), equals("tier", "y")),
            (selectors.Requirement(key="tier", operator=selectors.NOT_IN, values=("x",)),),
            (selectors.Requirement(key="app", operator=selectors.IN, values=("web", "db")),),
        )
    ),
)  # fmt: skip


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(seed=st.integers(0, 2**32))
def test_counts_are_those_of_all_pods_whatever_happens(seed: int) -> None:
    rng, site, placed = random.Random(seed), Site(), dict[str, tuple[cluster.Pod, str]]()
    for _ in range(40):
        name, node = f"p{rng.randrange(6)}", rng.choice("abc")
        labels = rng.choice([{}, {"app": "web"}, {"app": "web", "tier": "x"}, {"app": "db", "tier": "y"}])
        if rng.random() < 0.3:
            placed.pop(name, None)
            site.known.remove(f"uid-{name}")
        else:
            old = placed.get(name)
            namespace = rng.choice(["default", "other"]) if old is None else old[0].namespace
            pod = objects.make_pod(name, namespace=namespace, labels=labels, deleting=rng.random() < 0.2)
            placed[name] = (pod, node)
            site.known.put(pod, node)
        if rng.random() < 0.2:
            site.slots.pop("b", None) if rng.random() < 0.5 else site.slots.update(b=1)
            site.known.recount("b", 1)
        for question in rng.sample(QUESTIONS, 4):
            expected = [
                sum(question.counts(pod, {}) for pod, on in placed.values() if site.slots.get(on) == slot)
                for slot in range(2)
            ]
            assert site.counts(question) == expected
