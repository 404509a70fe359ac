"""What a census tells of the Pods it is given: who is where, what changed, and how many a question means."""

from carico_core.domain import cluster, constraints, selectors
from carico_scheduler.pods import pod_counts
from tests.unit.scheduler import objects

WEB = (selectors.Requirement(key="app", operator=selectors.IN, values=("web",)),)
RED = (selectors.Requirement(key="team", operator=selectors.IN, values=("red",)),)
HERE = constraints.PodTerm(topology_key="zone", selector=WEB, namespaces=("default",))
IN_RED = constraints.PodTerm(topology_key="zone", selector=WEB, namespaces=(), namespace_selector=RED)
WEBS = pod_counts.Matching(terms=(HERE,))


class Site:
    """A census over nodes whose slots come later."""

    def __init__(self) -> None:
        self.slots = {"a": 0, "b": 1}
        self.known = pod_counts.PodCounts(self.slots.get)

    def counts(self, question: pod_counts.Question, slots: int = 2) -> list[int]:
        found: list[int] = self.known.per_slot(question, slots).tolist()
        return found


def web(name: str = "web", app: str = "web", **changes: object) -> cluster.Pod:
    return objects.make_pod(name, labels={"app": app}, **changes)


def test_what_changes_an_answer_is_told_and_nothing_else() -> None:
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
    both = pod_counts.Matching(terms=(HERE, IN_RED))
    assert (site.counts(WEBS), site.counts(both)) == ([1, 0], [0, 0])
    assert site.known.put_namespaces({"default": {"team": "red"}, "other": {"team": "red"}})
    assert (site.counts(WEBS), site.counts(both)) == ([1, 0], [1, 0])
    assert site.counts(pod_counts.Matching(terms=(IN_RED,))) == [1, 1]
    kept = site.known.per_slot(both, 2)
    assert not site.known.put_namespaces({"other": {"team": "red"}, "default": {"team": "red"}})
    assert site.known.per_slot(both, 2).base is kept.base


def test_a_namespace_selector_that_no_label_meets_means_all_namespaces() -> None:
    """As kube-scheduler 1.36 reads it of a Pod that is to be placed, and of no other."""
    not_red = (selectors.Requirement(key="team", operator=selectors.NOT_IN, values=("red",)),)
    term = constraints.PodTerm(topology_key="zone", selector=WEB, namespaces=(), namespace_selector=not_red)
    assert pod_counts.selects(term, "x", {"team": "red"}, {"app": "web"})
    assert not term.matches("x", {"team": "red"}, {"app": "web"})
    assert not pod_counts.selects(term, "x", {"team": "red"}, {"app": "db"})


def test_spreading_counts_pods_of_its_namespace_that_stay() -> None:
    site = Site()
    site.known.put(web(), "a")
    site.known.put(web("leaving", deleting=True), "a")
    site.known.put(web("other", namespace="other"), "b")
    assert site.counts(pod_counts.Spreading(namespace="default", selector=WEB)) == [1, 0]
    assert site.counts(pod_counts.Spreading(namespace="default", selector=())) == [0, 0]
    assert site.counts(pod_counts.Spreading(namespace="default", selector=None)) == [0, 0]


def test_ports_disks_claims_and_terms_of_pods_are_counted_where_they_are() -> None:
    site = Site()
    port = constraints.HostPort(address="0.0.0.0", protocol="TCP", port=80)
    disk = constraints.Disk(kind="gce", names=("d",), read_only=False)
    use = constraints.VolumeClaimUse(namespace="default", name="disk")
    held = constraints.Constraints(host_ports=(port,), disks=(disk,), volume_claims=(use,), anti_affinity=(HERE,))
    questions: list[pod_counts.Question] = [
        pod_counts.Occupying(ports=(port,)), pod_counts.Occupying(disks=(disk,)), pod_counts.Using(claim=use),
        pod_counts.Repelling(term=HERE),
    ]  # fmt: skip
    site.known.put(web("holds", constraints=held), "a")
    site.known.put(web("plain"), "b")
    site.known.put(web("other", constraints=constraints.Constraints(namespace="default")), "b")
    assert [site.counts(each) for each in questions] == [[1, 0]] * 4
    free = constraints.HostPort(address="0.0.0.0", protocol="TCP", port=81)
    assert site.counts(pod_counts.Occupying(ports=(free, port))) == [1, 0]
    assert site.counts(pod_counts.Occupying(ports=(free,))) == [0, 0]


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
