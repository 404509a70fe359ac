"""What no node has of what a Pod asks for, and which names are probably meant."""

from typing import Any

import pytest

from carico_cli.explain import judgement, pod_text, words


def node(name: str, *, taints: tuple[str, ...] = (), **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "spec": {"taints": [{"key": key, "effect": "NoSchedule"} for key in taints]},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi"}},
    }


NODES = [node("node-1", disk="ssd"), node("node-2", taints=("example.com/gpu",))]


def pod(requests: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "spec": {"containers": [{"resources": {"requests": requests or {}}}], **spec}}


def required(*expressions: dict[str, Any]) -> dict[str, Any]:
    terms = [{"matchExpressions": [each]} for each in expressions]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


@pytest.mark.parametrize(
    ("asked", "never", "hints"),
    [
        (pod(), (), ()),
        (pod({"cpu": "4", "memory": "8Gi"}), (), ()),
        (
            pod({"cpu": "100", "memory": "1Ti"}),
            ("100 cores (node-1 has the most: 4 cores)", "1 Ti of memory (node-1 has the most: 8 Gi)"), (),
        ),
        (pod({"nvidia.com/gpu": "1"}), ("1 nvidia.com/gpu (none has any)",), ()),
        (pod({"cpu": "no number"}), (), ()),
        (
            pod(nodeSelector={"kubernetes.io/hostnam": "node-1"}), ("the label kubernetes.io/hostnam",),
            ("did you mean kubernetes.io/hostname?",),
        ),
        (
            pod(nodeSelector={"kubernetes.io/hostname": "node1"}), ("the label kubernetes.io/hostname=node1",),
            ("did you mean kubernetes.io/hostname=node-1?",),
        ),
        (pod(nodeSelector={"disk": "ssd", "zone": "a"}), ("the label zone",), ()),
        (
            pod(affinity=required({"key": "disk", "operator": "In", "values": ["sdd", "nvme"]})),
            ("the label disk in (sdd, nvme)",), (),
        ),
        # Terms are alternatives: one that a node may meet is enough.
        (pod(affinity=required({"key": "disc", "operator": "Exists"}, {"key": "disk", "operator": "Exists"})), (), ()),
        (pod(affinity=required({"key": "disc", "operator": "DoesNotExist"})), (), ()),
        (
            pod(affinity=required({"key": "disc", "operator": "Exists"})), ("the label disc",),
            ("did you mean disk?",),
        ),
        (
            pod(topologySpreadConstraints=[{"topologyKey": "kubernetes.io/host"}]),
            ("the topology's label kubernetes.io/host",), ("did you mean kubernetes.io/hostname?",),
        ),
        (pod(topologySpreadConstraints=[{"topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]), (), ()),
        (
            pod(tolerations=[{"key": "example.com/gpus"}, {"key": "node.kubernetes.io/not-ready"}]), (),
            ("toleration example.com/gpus: did you mean example.com/gpu?",),
        ),
    ],
)  # fmt: skip
def test_everything_that_no_node_has_is_named(
    asked: dict[str, Any], never: tuple[str, ...], hints: tuple[str, ...]
) -> None:
    assert judgement.judge(asked, NODES) == judgement.Judgement(never=never, hints=hints)
    assert judgement.judge(asked, []) == judgement.Judgement(never=(), hints=())


def test_resources_that_no_node_has_together() -> None:
    small, large = node("cpus"), node("memories")
    small["status"]["allocatable"] = {"cpu": "64", "memory": "8Gi"}
    large["status"]["allocatable"] = {"cpu": "4", "memory": "256Gi"}
    asked = pod({"cpu": "32", "memory": "128Gi"})
    assert judgement.judge(asked, [small, large]).never == ("32 cores together with 128 Gi of memory",)


def test_the_answer_begins_with_the_judgement() -> None:
    judged = judgement.judge(pod({"memory": "1Ti"}, nodeSelector={"disc": "ssd"}), NODES).as_json()
    answer = {
        "namespace": "default", "pod": "huge", "state": "waiting", "why": "0/2 nodes fit", "judgement": judged,
        "waited_s": 12.0, "attempts": 0, "next_try_s": None, "before": 84,
    }  # fmt: skip
    lines = pod_text.text(answer, now_ns=0).splitlines()
    assert lines == [
        "Pod default/huge waits, and can never fit as it is",
        "  no node has 1 Ti of memory (node-1 has the most: 8 Gi), nor the label disc",
        "  did you mean disk?",
        "  0/2 nodes fit",
        "  for 12.0 s; 84 Pods wait before it; 0 binds tried; next try when something",
        "    changes that could help",
    ]
    assert max(map(len, lines)) <= words.WIDTH


def test_the_events_of_a_pod_that_its_node_does_not_start_are_quoted() -> None:
    event = {"type": "Warning", "reason": "Failed", "message": "no such image", "lastTimestamp": "2026-11-21T10:00:00Z"}
    answer = {
        "namespace": "default", "pod": "bad", "state": "bound", "node": "node-1", "phase": "Pending", "why": "room",
        "containers": [{"name": "a", "state": "waits", "exit_code": None, "reason": "ErrImagePull", "message": ""}],
        "events": [{**event, "reason": "Scheduled"}, {**event, "count": 3}],
    }  # fmt: skip
    text = pod_text.text(answer, now_ns=0)
    assert "  its last Events:\n    2026-11-21T10:00:00  Warning  Failed (3 times): no such image\n" in text
    assert "Scheduled" not in text
    many = [{**event, "message": f"number {number}"} for number in range(100_000)]
    text = pod_text.text({**answer, "events": many}, now_ns=0)
    assert "number 99999" in text
    assert len(text.splitlines()) < 20
    away = {name: value for name, value in answer.items() if name != "events"}
    text = pod_text.text({**away, "events_trouble": "the Kubernetes API does not answer"}, now_ns=0)
    assert "  its Events are not known: the Kubernetes API does not answer\n" in text
