"""From readings of single Pods to a report by class: what is measured, when, and Pods whose class is not known yet."""

import collections
import dataclasses
from collections.abc import Callable, Mapping

import pytest

from carico_agent import ports
from carico_agent.learning import pod_usage
from carico_core.domain import messages, usage
from carico_core.numerics import distribution
from carico_core.wire import codec, subjects
from carico_core.wire import messages as wire

MIB = 2.0**20
PI = "Job/default/pi"


def amounts(cpu_s: float, mib: float = 10.0) -> ports.PodAmounts:
    return ports.PodAmounts(cpu_s=cpu_s, memory_bytes=mib * MIB)


class PodUsage(pod_usage.PodUsage):
    """Of Pods without templates and names of containers, where a test gives none."""

    def follow(
        self, classes: Mapping[str, str], now_s: float, template_of: pod_usage.TemplateOf = lambda _: None
    ) -> list[str]:
        return super().follow(classes, now_s, template_of)

    def name_ended(
        self, class_of: Callable[[str], str], now_s: float, template_of: pod_usage.TemplateOf = lambda _: None
    ) -> None:
        super().name_ended(class_of, now_s, template_of)

    def take(
        self, uid: str, found: ports.PodAmounts | None, now_s: float, *,
        container: Callable[[str, str], str | None] = lambda uid, folder: None,
    ) -> None:  # fmt: skip
        super().take(uid, found, now_s, container=container)


class Node:
    """Pods that use what the test says, read as the agent reads them."""

    def __init__(self, *, scale: float = 1.0) -> None:
        self.usage = PodUsage(scale=scale)
        self.classes: dict[str, str] = {}
        self.cores: dict[str, float] = {}
        self.used_s: dict[str, float] = collections.defaultdict(float)
        self.mib: dict[str, float] = {}
        self.reads: dict[str, int] = collections.defaultdict(int)
        self.now_s = 100.0

    def run(self, uid: str, pod_class: str = PI, *, cores: float = 0.5, mib: float = 10.0) -> None:
        self.classes[uid], self.cores[uid], self.mib[uid] = pod_class, cores, mib

    def end(self, *uids: str) -> None:
        for uid in uids:
            del self.classes[uid]

    def seconds(self, count: int) -> None:
        for _ in range(count):
            self.now_s += 1.0
            self.usage.follow(self.classes, self.now_s)
            self.usage.name_ended(lambda uid: messages.ANY_CLASS, self.now_s)
            for uid in self.classes:
                self.used_s[uid] += self.cores[uid]
            for uid in self.usage.due(self.now_s):
                self.reads[uid] += 1
                self.usage.take(uid, amounts(self.used_s[uid], self.mib[uid]), self.now_s)

    def report(self) -> dict[str, usage.ClassUsage]:
        return self.usage.report()


def test_a_pod_of_five_seconds_is_measured() -> None:
    node = Node()
    node.run("a", cores=0.5)
    node.seconds(5)
    node.end("a")
    node.seconds(1)
    found = node.report()[PI]
    place = distribution.bucket("cpu", 0.5)
    assert found.seconds["cpu"] == {place: pytest.approx(4.0)}
    assert found.seconds["memory"] == {distribution.bucket("memory", 10 * MIB): pytest.approx(4.0)}
    assert found.peaks == {"cpu": pytest.approx(0.5), "memory": 10 * MIB}
    assert (found.pods, found.running, found.pod_means) == (1, 0, {place: 1.0})


def test_cores_and_bytes_of_an_emulated_node_are_parts_of_real_ones() -> None:
    """Limits and requests of its Pods are in these, too."""
    node = Node(scale=0.125)
    node.run("a", cores=0.125, mib=10.0)
    node.seconds(3)
    assert node.report()[PI].peaks == {"cpu": pytest.approx(1.0), "memory": 80 * MIB}
    assert node.usage.loads()["a"].memory_bytes == 80 * MIB


def test_reports_add_up() -> None:
    node = Node()
    node.run("a")
    node.run("b", "app/shop/web", cores=0.1)
    total = 0.0
    for _ in range(10):
        node.seconds(5)
        total += sum(sum(each.seconds.get("cpu", {}).values()) for each in node.report().values())
    # Each Pod was read for the first time after a second; later intervals are longer and may still be open.
    assert total <= 2 * 49.0
    assert total >= 2 * (49.0 - pod_usage.READ_MOST_S)


def test_a_report_that_was_not_sent_is_part_of_the_next() -> None:
    node = Node()
    node.run("a")
    node.seconds(3)
    lost = node.report()
    node.usage.put_back(lost)
    node.seconds(1)
    found = node.report()[PI]
    assert found.pods == 1 and sum(found.seconds["cpu"].values()) == pytest.approx(3.0)


def made_of(*containers: str, image: str = "a" * 16) -> usage.Template:
    return usage.Template(image=image, containers=containers, requests={})


def test_a_report_with_the_names_of_many_containers_can_be_sent() -> None:
    """Otherwise nothing would be reported of the node, as long as such Pods run there."""
    found, parts = PodUsage(), [f"c{number}".ljust(63, "x") for number in range(32)]
    classes = {f"uid-{number}": f"Job/mean/{number}" for number in range(110)}
    several = made_of(*parts)
    for second in range(30):
        found.follow(classes, float(second), lambda uid: several)
        for uid in found.due(float(second)):
            read = ports.ContainerAmounts(0.1 * second, 10 * MIB / 3.0)
            whole = ports.PodAmounts(0.1 * second, 10 * MIB / 3.0, containers=dict.fromkeys(parts, read))
            found.take(uid, whole, float(second), container=lambda uid, folder: folder)
    report = found.report()
    payload = wire.encode_usage(usage.UsageReport(node="n", boot="0" * 16, seq=1, ts_ns=1, classes=report))
    assert codec.PAYLOAD_MAX_BYTES // 3 < len(payload) <= codec.PAYLOAD_MAX_BYTES


def test_each_container_of_a_pod_with_several_is_measured() -> None:
    found, two = PodUsage(), made_of("main", "proxy")
    names = {"f1": "main", "f2": "proxy"}
    for second in range(1, 5):
        found.follow({"a": PI}, float(second), lambda uid: two)
        assert found.due(float(second)) == ["a"] and found.has_several("a")
        # The runtime's own container has no name; the proxy restarts at the end.
        proxy = ports.ContainerAmounts(0.25 * second if second < 4 else 0.1, second * MIB)
        parts = {"f1": ports.ContainerAmounts(0.5 * second, 10 * MIB), "f2": proxy, "pause": proxy}
        whole = ports.PodAmounts(0.75 * second, 20 * MIB, containers=parts)
        found.take("a", whole, float(second), container=lambda uid, folder: names.get(folder))
    lost = found.report()
    containers = lost[PI].containers
    assert containers.keys() == {"main", "proxy"}
    assert containers["main"] == usage.ContainerUsage(
        cpu={distribution.bucket("cpu", 0.5): 3.0}, peaks={"cpu": 0.5, "memory": 10 * MIB}
    )
    assert containers["proxy"] == usage.ContainerUsage(
        cpu={distribution.bucket("cpu", 0.25): 2.0}, peaks={"cpu": 0.25, "memory": 4 * MIB}
    )
    found.put_back(lost)
    assert found.report()[PI].containers == containers


def test_containers_of_a_class_are_bounded_whatever_each_pod_names_them() -> None:
    # A reader refuses the whole report of a node for one class with too many.
    found = PodUsage()
    made = {f"pod-{pod}": made_of(*(f"c{pod}-{number}" for number in range(16))) for pod in range(4)}
    for second in range(1, 4):
        found.follow(dict.fromkeys(made, PI), float(second), made.get)
        for uid in found.due(float(second)):
            parts = {name: ports.ContainerAmounts(0.1 * second, MIB) for name in made[uid].containers}
            whole = ports.PodAmounts(1.6 * second, MIB, containers=parts)
            found.take(uid, whole, float(second), container=lambda uid, folder: folder)
    report = usage.UsageReport(node="node-1", boot="0" * 16, seq=1, ts_ns=1, classes=found.report())
    read = wire.decode_usage(wire.encode_usage(report), subject=subjects.usage("node-1"))
    assert 2 <= len(read.classes[PI].containers) <= 16


def test_reads_of_containers_count_as_reads() -> None:
    found, many = PodUsage(), made_of(*(f"c{number}" for number in range(5)))
    running = {f"pod-{number}": PI for number in range(20)}
    parts = {f"c{number}": ports.ContainerAmounts(1.0, MIB) for number in range(5)}
    reads: list[int] = []
    for second in range(1, 40):
        found.follow(running, float(second), lambda uid: many)
        due = found.due(float(second))
        reads.append(len(due))
        for uid in due:
            found.take(uid, ports.PodAmounts(float(second), MIB, containers=parts), float(second))
    # What a Pod consists of is known from its first reading on: from then, six reads each.
    assert sum(reads[5:]) * 6 <= pod_usage.READS_MOST * len(reads)


def test_pods_with_different_images_are_in_different_reports() -> None:
    found = PodUsage()
    images = {"old": made_of("main", image="a" * 16), "new": made_of("main", image="b" * 16)}
    peaks: dict[str, float] = {}
    seconds: dict[str, float] = {"a" * 16: 0.0, "b" * 16: 0.0}
    for second in range(1, 31):
        found.follow(dict.fromkeys(images, PI), float(second), images.get)
        for uid in found.due(float(second)):
            mib = 100.0 if uid == "old" else 10.0
            found.take(uid, amounts(0.5 * second, mib), float(second))
        if second % 5 == 0:
            each = found.report()[PI]
            assert each.template is not None and each.running == 2
            peaks[each.template.image] = max(each.peaks["memory"], peaks.get(each.template.image, 0.0))
            seconds[each.template.image] += sum(each.seconds["cpu"].values())
    assert peaks == {"a" * 16: 100 * MIB, "b" * 16: 10 * MIB}
    assert all(20.0 <= each <= 29.0 for each in seconds.values())


def test_a_report_with_nothing_new_names_the_pods_that_run() -> None:
    node = Node()
    node.run("a")
    node.seconds(2)
    node.report()
    found = node.report()
    assert found[PI].running == 1 and found[PI].seconds == {} and found[PI].pods == 0
    node.end("a")
    node.seconds(1)
    node.report()
    assert node.report() == {}


def test_a_young_pod_is_read_every_second_although_readings_follow_the_begin_of_an_update() -> None:
    pods = PodUsage()
    pods.follow({"a": PI}, 100.0)
    reads = 0
    for second in range(10):
        # Updates come a millisecond early or late.
        began_s = 100.0 + second + 0.001 * (second % 2)
        for uid in pods.due(began_s):
            reads += 1
            pods.take(uid, amounts(0.5 * began_s), began_s + 0.002)
    assert reads == 10


def test_a_pod_that_runs_on_reports_the_mean_of_each_day() -> None:
    found = PodUsage()
    means: collections.Counter[int] = collections.Counter()
    used_s, days = 0.0, 3
    for reading in range(days * 96 + 2):
        # Every 15 minutes; busier by day.
        now_s = 900.0 * reading
        found.follow({"a": PI}, now_s)
        found.take("a", amounts(used_s), now_s)
        used_s += 900.0 * (0.9 if reading % 96 < 48 else 0.1)
        means.update({index: int(count) for index, count in found.report()[PI].pod_means.items()})
    # The first is of what is measured at first, the others are of a day each.
    assert means == {distribution.bucket("cpu", 0.9): 1, distribution.bucket("cpu", 0.5): days}


def test_old_pods_are_read_rarely() -> None:
    node = Node()
    node.run("a")
    node.seconds(600)
    # 10 reads in the first 10 s, then at intervals that grow to 15 s:  about 27 until 150 s, and one each 15 s.
    assert node.reads["a"] < 80


def test_reads_of_one_update_are_bounded_and_every_pod_gets_its_turn() -> None:
    node = Node()
    for number in range(200):
        node.run(f"pod-{number}")
    node.usage.follow(node.classes, node.now_s)
    assert len(node.usage.due(node.now_s)) == pod_usage.READS_MOST
    # Updates may follow each other within a second.
    assert node.usage.due(node.now_s) == []
    assert len(node.usage.due(node.now_s + 0.5)) == pod_usage.READS_MOST // 2
    node.seconds(30)
    assert set(node.reads) == set(node.classes)


def test_what_was_measured_before_the_class_was_known_counts_for_the_class() -> None:
    node = Node()
    node.run("a", messages.ANY_CLASS)
    node.seconds(3)
    assert node.report() == {}
    node.classes["a"] = PI
    node.seconds(1)
    found = node.report()[PI]
    assert found.pods == 1 and sum(found.seconds["cpu"].values()) == pytest.approx(3.0)


def test_a_pod_that_ended_gets_its_class_later_or_is_dropped() -> None:
    node = Node()
    for uid in ("a", "b"):
        node.run(uid, messages.ANY_CLASS)
    node.seconds(4)
    node.end("a", "b")
    node.usage.follow(node.classes, node.now_s)
    node.usage.name_ended({"a": PI, "b": messages.ANY_CLASS}.__getitem__, node.now_s)
    assert node.report()[PI].pods == 1
    node.usage.name_ended(lambda _: messages.ANY_CLASS, node.now_s + pod_usage.UNNAMED_S)
    node.usage.name_ended(lambda _: PI, node.now_s + pod_usage.UNNAMED_S + 1.0)
    assert node.report() == {}


@pytest.mark.parametrize("named", [True, False])
def test_a_pod_whose_containers_restart_is_one_pod(*, named: bool) -> None:
    node = Node()
    found: list[usage.ClassUsage] = []
    for _ in range(4):
        node.run("a", PI if named else messages.ANY_CLASS)
        node.used_s["a"] = 0.0
        node.seconds(20)
        node.end("a")
        # The kubelet waits.
        node.seconds(40)
        found += node.report().values()
    if not named:
        node.usage.name_ended(lambda _: PI, node.now_s)
        found += node.report().values()
    assert sum(each.pods for each in found) == 1
    assert sum(sum(each.pod_means.values()) for each in found) == 1.0
    # What it did not run for is not measured, but for the first second of each run.
    assert sum(sum(each.seconds["cpu"].values()) for each in found) == pytest.approx(4 * 19.0)


def test_pods_that_ended_without_a_class_are_bounded() -> None:
    node = Node()
    for number in range(2 * pod_usage.ENDED_MOST):
        node.usage.follow({f"pod-{number}": messages.ANY_CLASS}, float(number))
        node.usage.take(f"pod-{number}", amounts(1.0), float(number))
    node.usage.follow({}, 1e4)
    node.usage.name_ended(lambda _: PI, 1e4)
    assert node.report()[PI].pods <= pod_usage.ENDED_MOST


def test_a_counter_that_starts_again_is_no_usage() -> None:
    node = Node()
    node.run("a")
    node.seconds(3)
    node.used_s["a"] = 0.0
    node.seconds(2)
    found = node.report()[PI]
    assert sum(found.seconds["cpu"].values()) == pytest.approx(3.0)
    assert found.pods == 1 and found.peaks["cpu"] == pytest.approx(0.5)


def test_a_pod_that_cannot_be_read_is_not_measured() -> None:
    found = PodUsage()
    found.follow({"a": PI}, 1.0)
    found.take("a", None, 1.0)
    assert found.due(1.5) == []
    assert found.report()[PI].pods == 0


def test_failures_of_pods_that_were_measured_are_reported_once() -> None:
    node = Node()
    node.run("a")
    node.run("b")
    # Of the first its failure is known before it is read. A full kubelet refuses the last: it never runs.
    node.usage.failed(["a", "refused"], node.now_s)
    node.seconds(3)
    node.end("a")
    node.usage.failed(["b"], node.now_s)
    found = node.report()[PI]
    assert (found.pods, found.failed) == (2, 2)
    node.seconds(int(pod_usage.UNNAMED_S))
    node.usage.failed([], node.now_s)
    node.run("refused")
    node.seconds(3)
    node.usage.failed([], node.now_s)
    assert node.report()[PI].failed == 0


def test_what_little_was_measured_with_an_image_waits_for_no_other_to_be_measured_less() -> None:
    found = PodUsage()
    made = {f"old-{number}": made_of("main", image="a" * 16) for number in range(5)}
    made["canary"] = made_of("main", image="b" * 16)
    images: list[str] = []
    for second in range(1, 31):
        found.follow({uid: PI for uid in made if uid != "canary" or second <= 3}, float(second), made.get)
        for uid in found.due(float(second)):
            found.take(uid, amounts(0.5 * second), float(second))
        if second % 5 == 0:
            template = found.report()[PI].template
            assert template is not None
            images.append(template.image[0])
    assert "b" in images[:2] and images.count("a") == 5


def test_a_failure_counts_for_the_images_of_the_pod() -> None:
    found = PodUsage()
    images = {"old": made_of("main", image="a" * 16), "new": made_of("main", image="b" * 16)}
    found.follow(dict.fromkeys(images, PI), 1.0, images.get)
    for uid in images:
        found.take(uid, amounts(1.0), 1.0)
    found.follow({"old": PI}, 2.0, images.get)
    found.failed(["new"], 2.0)
    reports = [found.report()[PI] for _ in images]
    assert {each.template.image: each.failed for each in reports if each.template} == {"a" * 16: 0, "b" * 16: 1}


def test_a_pod_that_ended_before_the_report_is_reported_with_what_it_was_made_of() -> None:
    found = PodUsage()
    made = made_of("main")
    for second in range(1, 4):
        found.follow({"a": PI}, float(second), {"a": made}.get)
        found.take("a", amounts(0.5 * second), float(second))
    found.follow({}, 4.0)
    assert found.report()[PI].template == made


def test_a_report_is_bounded_and_the_rest_follows() -> None:
    found = PodUsage()
    names = {f"pod-{number}": f"Job/default/{'x' * 400}-{number}" for number in range(100)}
    found.follow(names, 1.0)
    found.follow({}, 2.0)
    reported: list[str] = []
    while part := found.report():
        assert len(part) < 40
        reported += part
    assert sorted(reported) == sorted(names.values())


def test_a_pod_that_is_resized_in_place_or_gets_another_image_is_reported_as_it_is_now() -> None:
    found = PodUsage()
    made = {"a": made_of("main")}
    for second in range(1, 10):
        if second == 5:
            made["a"] = dataclasses.replace(made["a"], requests={"cpu": 1.0})
        found.follow({"a": PI}, float(second), made.get)
        found.take("a", amounts(0.5 * second), float(second))
    resized = found.report()[PI]
    assert resized.template == made["a"]
    assert sum(resized.seconds["cpu"].values()) == 8.0
    made["a"] = made_of("main", "proxy", image="b" * 16)
    found.follow({"a": PI}, 10.0, made.get)
    found.take("a", amounts(5.0), 10.0)
    assert found.has_several("a")
    before, changed = (found.report()[PI] for _ in range(2))
    assert not any(before.seconds.values())
    assert changed.template == made["a"]
    assert (changed.pods, sum(changed.seconds["cpu"].values())) == (0, 1.0)


def test_the_load_of_a_pod_is_its_mean_since_the_last_report() -> None:
    node = Node(scale=0.5)
    node.run("a", cores=0.25, mib=7.0)
    node.seconds(1)
    assert node.usage.loads() == {}, "one reading has no rate"
    node.seconds(3)
    load = node.usage.loads()["a"]
    assert load.cores == pytest.approx(0.5)
    assert (load.pod_class, load.waiting, load.memory_bytes) == (PI, 0.0, 14.0 * MIB)
    node.cores["a"] = 0.5
    node.seconds(4)
    assert node.usage.loads()["a"].cores == pytest.approx(1.0)
    assert node.usage.loads()["a"].cores == pytest.approx(1.0), "without a new reading the last load stays"
    node.end("a")
    node.seconds(1)
    assert node.usage.loads() == {}


def test_what_pods_use_can_be_asked_between_two_reports_and_does_not_change_them() -> None:
    node = Node()
    node.run("a", cores=0.25, mib=7.0)
    assert node.usage.known_loads() == {}
    node.seconds(4)
    assert node.usage.known_loads()["a"].cores == pytest.approx(0.25), "in no report yet"
    assert node.usage.loads()["a"].cores == pytest.approx(0.25)
    node.cores["a"] = 1.0
    node.run("b", cores=0.5)
    node.seconds(2)
    known = node.usage.known_loads()
    assert known["a"].cores == pytest.approx(0.25), "as in the last report"
    assert known["b"].cores == pytest.approx(0.5)
    node.seconds(2)
    reported = node.usage.loads()
    assert reported["a"].cores == pytest.approx(1.0), "the mean of four seconds, not of two"
    assert node.usage.known_loads() == reported


def test_a_pod_without_a_class_has_a_load() -> None:
    node = Node()
    node.run("a", messages.ANY_CLASS, cores=0.25)
    node.seconds(4)
    assert node.usage.loads()["a"].pod_class == messages.ANY_CLASS


@pytest.mark.parametrize(
    ("waited", "expected"), [((0.0, 1.0), 0.25), ((1.0, 0.5), 0.0), ((0.0, 9.0), 1.0), ((None, 1.0), 0.0)]
)
def test_waiting_is_at_most_one_task_and_never_negative(
    waited: tuple[float | None, float], expected: float
) -> None:  # fmt: skip
    found = PodUsage()
    found.follow({"a": PI}, 100.0)
    for now_s, waiting_s in zip((100.0, 104.0), waited, strict=True):
        found.take("a", ports.PodAmounts(cpu_s=0.5 * now_s, memory_bytes=MIB, waiting_s=waiting_s), now_s)
    load = found.loads()["a"]
    assert load.waiting == pytest.approx(expected)
    assert load.tasks == pytest.approx(0.5 + expected)


def test_a_cgroup_that_was_made_again_gives_no_negative_load() -> None:
    found = PodUsage()
    found.follow({"a": PI}, 100.0)
    for now_s, cpu_s in ((100.0, 50.0), (102.0, 51.0), (104.0, 0.25), (106.0, 0.75)):
        found.take("a", amounts(cpu_s), now_s)
    assert found.loads()["a"].cores == pytest.approx(0.25)
