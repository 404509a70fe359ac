"""What the scheduler says when it is asked why, and what would fit: the same as it would do."""

import asyncio
import dataclasses
import itertools
import random
import time
import types
from collections.abc import Callable
from typing import Any, NoReturn

import hypothesis
import pytest
from hypothesis import strategies as st

from carico_core.domain import cluster, decision, errors, gangs, messages
from carico_core.runtime.bus import serving
from carico_core.runtime.process import tasks
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_core.wire.kubernetes import api_objects
from carico_scheduler.answers import kinds, queries, questions
from carico_scheduler.answers import node as node_answers
from carico_scheduler.answers import pod as pod_answers
from carico_scheduler.answers import waiting as waiting_answers
from carico_scheduler.decide import turns
from carico_scheduler.nodes import headroom
from carico_scheduler.pods import demand as demands
from carico_scheduler.preempt import nominations
from carico_scheduler.report import decisions, explain
from carico_scheduler.rules import policy
from tests.unit.scheduler import objects
from tests.unit.scheduler.answers import answering

NOW_S = answering.NOW_S
HOSTNAME = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


async def test_a_bound_pod_is_explained_by_its_record_and_the_advertisement_it_acted_on() -> None:
    desk = answering.Desk(objects.make_node("node-0"), objects.make_node("node-1"))
    desk.hear("node-0", 2.0, seq=7)
    desk.hear("node-1", 5.0, seq=9, age_s=0.5)
    desk.state.put_pod(objects.make_pod(), NOW_S)
    desk.decide()
    said = await desk.ask("pod.explain", pod="pod-0")
    assert (said["state"], said["node"], said["covered"]) == ("binding", "node-1", False)
    desk.state.put_pod(objects.make_pod(node_name="node-1", phase="Running"), NOW_S)
    said = await desk.ask("pod.explain", namespace="default", pod="pod-0")
    assert (said["state"], said["node"], said["phase"]) == ("bound", "node-1", "Running")
    assert said["acted_on"] == {
        "node": "node-1", "seq": 9, "age_s": 0.5, "capacity": 5.0, "reserved": 0.0, "free": 5.0, "threshold": 1.0,
    }  # fmt: skip
    assert said["decision"]["outcome"] == "bound"
    assert said["why"] == "node-1 had room for 5.0 Pods (threshold 1)"
    # As things stand now, for one more like it: its own reservation counts.
    assert [(each["node"], each["free"], each["reserved"]) for each in said["candidates"]] == [
        ("node-1", 4.0, 1), ("node-0", 2.0, 0),
    ]  # fmt: skip
    desk.state.remove_pod("uid-pod-0")
    gone = await desk.ask("pod.explain", pod="pod-0")
    assert (gone["state"], gone["node"], gone["decision"]["node"]) == ("ended", "node-1", "node-1")


async def test_a_waiting_pod_names_every_node_with_its_stage_and_detail() -> None:
    tainted = objects.make_node("node-1", taints=(cluster.Taint(key="gpu", value="", effect="NoSchedule"),))
    desk = answering.Desk(
        objects.make_node("node-0"), tainted, objects.make_node("node-2"), objects.make_node("node-3")
    )
    desk.hear("node-0", 0.4)
    desk.hear("node-1", 9.0)
    desk.hear("node-3", 3.0, age_s=6.0)
    desk.state.put_pod(objects.make_pod(), NOW_S)
    assert not desk.decide()
    said = await desk.ask("pod.explain", pod="pod-0")
    assert (said["state"], said["feasible"], said["nodes"], said["attempts"]) == ("waiting", 0, 4, 0)
    assert said["refused"] == {"taint": 1, "capacity": 1, "no_advertisement": 1, "stale": 1}
    stages = {each["node"]: each["rejected_by"]["stage"] for each in said["candidates"]}
    assert stages == {"node-0": "capacity", "node-1": "taint", "node-2": "no_advertisement", "node-3": "stale"}
    by_node = {each["node"]: each for each in said["candidates"]}
    assert by_node["node-0"]["rejected_by"] == {
        "stage": "capacity", "means": "at capacity", "detail": "0.4 free of threshold 1, 0 reserved",
    }  # fmt: skip
    assert (by_node["node-3"]["freshness"], by_node["node-3"]["age_s"]) == ("stale", 6.0)
    assert by_node["node-2"]["freshness"] == "absent" and by_node["node-2"]["capacity"] is None
    assert said["why"].startswith("0/4 nodes fit: ")
    some = await desk.ask("pod.explain", pod="pod-0", limit=1)
    assert (len(some["candidates"]), some["left_off"], some["nodes"]) == (1, 3, 4)


async def test_an_affinity_of_a_hundred_kilobytes_is_cut_in_what_is_said_and_kept() -> None:
    """Records of 8,192 decisions are kept, each with eight nodes, and an answer names a thousand."""
    nodes = [objects.make_node(f"node-{number}") for number in range(20)]
    desk = answering.Desk(*nodes)
    for node in nodes:
        desk.hear(node.name)
    terms = [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["x" * 100_000]}]}]
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
    obj = objects.pod_object("pod-0", affinity=affinity)
    obj["metadata"]["uid"] = "uid-pod-0"
    desk.state.put_pod(api_objects.parse_pod(obj), NOW_S)
    assert not desk.decide()
    said = await desk.ask("pod.explain", pod="pod-0")
    details = [each["rejected_by"]["detail"] for each in said["candidates"]]
    assert [len(each) for each in details] == [decision.DETAIL_MOST] * 20
    assert details[0].startswith("required: disk In (xxx") and details[0].endswith("...")
    scores = desk.cycle.explain(desk.state.fleet.snapshot(NOW_S), desk.state.queue.parked()[0].demand)
    seen = explain.candidates_of(scores, scores.seen())
    made = desk.log.record(
        desk.state.queue.parked()[0],
        decisions.Facts(
            outcome=decision.Outcome.UNSCHEDULABLE, node=None, free=None, candidates=seen, refused=scores.refused,
            message="",
        ),
    )  # fmt: skip
    payload = wire.encode_decision(made)
    assert len(payload) <= 64 << 10
    assert wire.decode_decision(payload, subject=subjects.decision("default", "pod-0")) == made


async def test_a_pod_of_a_gang_is_explained_by_what_its_gang_lacks() -> None:
    desk = answering.Desk()
    desk.hear()
    member = gangs.PodGang(gangs.Key("default", "train"), gangs.Asks(2))
    desk.state.put_pod(objects.make_pod("train-0", gang=member), NOW_S)
    answer = await desk.ask("pod.explain", pod="train-0")
    assert answer["state"] == "waiting"
    assert (answer["why"], answer["gang"]) == (
        "gang default/train: 1 of the 2 Pods that it needs are there",
        "default/train",
    )


async def test_a_pod_in_backoff_has_the_time_of_its_next_try() -> None:
    desk = answering.Desk()
    desk.hear()
    desk.state.put_pod(objects.make_pod(), NOW_S)
    desk.decide()
    record = desk.state.records.find("uid-pod-0")
    assert record is not None
    desk.state.refuse("uid-pod-0", record.attempt, NOW_S)
    said = await desk.ask("pod.explain", pod="pod-0")
    assert (said["state"], said["attempts"]) == ("waiting", 1)
    assert 0.0 < said["next_try_s"] <= 0.1
    assert "waits for a backoff after a failed bind" in said["why"]


async def test_pods_that_are_not_to_be_placed_say_why() -> None:
    desk = answering.Desk()
    desk.hear()
    desk.state.put_pod(objects.make_pod("gated", scheduling_gates=("quota", "review")), NOW_S)
    desk.state.put_pod(objects.make_pod("theirs", scheduler_name="default-scheduler"), NOW_S)
    desk.state.put_pod(objects.make_pod("there", scheduler_name="other", node_name="node-0"), NOW_S)
    gated = await desk.ask("pod.explain", pod="gated")
    assert (gated["state"], gated["why"].endswith("quota, review")) == ("gated", True)
    theirs = await desk.ask("pod.explain", pod="theirs")
    assert (theirs["state"], theirs["node"]) == ("elsewhere", None)
    assert "'default-scheduler'" in theirs["why"]
    assert theirs["why"].endswith("created with `schedulerName: carico`")
    assert (await desk.ask("pod.explain", pod="there"))["node"] == "node-0"
    desk.state.put_pod(objects.make_pod("mistyped", scheduler_name="caricoo"), NOW_S)
    assert "'caricoo' (did you mean carico?);" in (await desk.ask("pod.explain", pod="mistyped"))["why"]


async def test_a_scheduler_of_several_names_reports_them() -> None:
    desk = answering.Desk(rules=policy.Policy(names=frozenset({"carico", "default-scheduler"})))
    for name in ("default-scheduler", "volcano"):
        desk.state.put_pod(objects.make_pod(name, scheduler_name=name), NOW_S)
    assert (await desk.ask("pod.explain", pod="default-scheduler"))["state"] == "waiting"
    assert "or `schedulerName: default-scheduler`" in (await desk.ask("pod.explain", pod="volcano"))["why"]
    assert (await desk.ask("capacity.list"))["names"] == ["carico", "default-scheduler"]


async def test_an_unknown_pod_gets_the_nearest_names_and_other_namespaces() -> None:
    desk = answering.Desk()
    for index in range(300):
        desk.state.put_pod(objects.make_pod(f"hello-{index}"), NOW_S)
    desk.state.put_pod(objects.make_pod("web", namespace="shop", uid="u-web"), NOW_S)
    said = await desk.ask("pod.explain", pod="helo-17")
    assert said["state"] == "unknown" and "hello-17" in said["nearest"]
    assert (await desk.ask("pod.explain", pod="web"))["namespaces"] == ["shop"]


async def test_a_record_of_an_earlier_pod_of_the_name_is_not_this_pods() -> None:
    desk = answering.Desk()
    desk.hear()
    desk.state.put_pod(objects.make_pod(), NOW_S)
    desk.decide()
    desk.state.remove_pod("uid-pod-0")
    desk.state.put_pod(objects.make_pod(uid="another"), NOW_S)
    said = await desk.ask("pod.explain", pod="pod-0")
    assert (said["state"], said["decision"]) == ("waiting", None)


async def test_score_parts_say_what_wishes_took_off() -> None:
    disliked = objects.make_node("node-1", taints=(cluster.Taint(key="old", value="", effect="PreferNoSchedule"),))
    desk = answering.Desk(objects.make_node("node-0"), disliked)
    desk.hear("node-0", 4.0)
    desk.hear("node-1", 6.0)
    desk.state.put_pod(objects.make_pod(), NOW_S)
    best, other = (await desk.ask("pod.explain", pod="pod-0"))["candidates"]
    assert (best["node"], best["score"], best["parts"]) == (
        "node-0",
        0.875,
        {"room": 0.875, "preferences": {"taints": 1.0}},
    )
    assert (other["node"], other["score"], other["parts"]) == (
        "node-1",
        0.6875,
        {"room": 1.375, "preferences": {"taints": 0.0}},
    )


async def test_a_pod_whose_container_waits_says_why_as_does_its_node() -> None:
    desk = answering.Desk()
    desk.hear()
    for phase, stuck in (("Pending", ""), ("Running", "container main waits: CrashLoopBackOff")):
        desk.state.put_pod(objects.make_pod(node_name="node-0", phase=phase, stuck=stuck), NOW_S)
        assert (await desk.ask("pod.explain", pod="pod-0"))["stuck"] == stuck
        assert [each["stuck"] for each in (await desk.ask("node.explain", node="node-0"))["pods"]] == [stuck]


async def test_a_node_says_who_holds_room_and_what_bounds_it() -> None:
    desk = answering.Desk(objects.make_node("node-0", pod_limit=20))
    desk.hear_cost(
        "node-0", {"cpu": 4.0, "memory": 8e9}, {"*": {"cpu": 1.0, "memory": 1e9}, "Job/default/big": {"cpu": 2.0}},
        capacity=4.0, pods=1, covers=frozenset({"uid-old"}), limit=9,
    )  # fmt: skip
    desk.state.put_pod(objects.make_pod("old", node_name="node-0", phase="Running"), NOW_S)
    desk.state.put_pod(objects.make_pod("new", node_name="node-0"), NOW_S - 3.0)
    said = await desk.ask("node.explain", node="node-0")
    assert (said["known"], said["ready"], said["free"], said["reserved"]) == (True, True, 3.0, 1)
    assert said["bottleneck"] == "cpu"
    assert [each["what"] for each in said["bounds"]] == ["cpu", "limit", "pod_limit", "pods_per_core"]
    assert [round(each["pods"], 1) for each in said["bounds"]] == [3.0, 7.0, 18.0, 62.0]
    assert [each["pod"] for each in said["reserved_by"]] == ["default/new"]
    assert said["reserved_by"][0]["age_s"] == 3.0
    assert said["pods_by_class"] == {"image/default/pi": 2}
    assert {(each["namespace"], each["pod"], each["uid"], each["class"]) for each in said["pods"]} == {
        ("default", "old", "uid-old", "image/default/pi"), ("default", "new", "uid-new", "image/default/pi"),
    }  # fmt: skip
    assert len((await desk.ask("node.explain", node="node-0", limit=1))["pods"]) == 1
    cpu = said["dimensions"][0]
    assert (cpu["name"], cpu["headroom"], cpu["reserved"]) == ("cpu", 4.0, 1.0)
    assert cpu["cost"] == {"mean": 0.9, "sd": 0.1}
    big = next(each for each in said["classes"] if each["class"] == "Job/default/big")
    assert (big["free"], big["bottleneck"]) == (1.5, "cpu")
    assert said["bounds"][0]["detail"] == "capacity 4 advertised, 1 reserved"
    assert said["refused_by"] is None and said["trust"]["is_suspect"] is False


async def test_a_node_that_is_not_there_is_said_to_be_so() -> None:
    desk = answering.Desk(objects.make_node("worker-1"))
    desk.state.early.store(subjects.capacity("worker-9"), b"{}", answering.NOW_S)
    assert (await desk.ask("node.explain", node="worker-2"))["nearest"] == ["worker-1"]
    assert "advertises, but" in (await desk.ask("node.explain", node="worker-9"))["why"]
    silent = await desk.ask("node.explain", node="worker-1")
    assert (silent["advertisement"], silent["dimensions"]) == (None, [])
    assert silent["refused_by"]["stage"] == "no_advertisement"


async def test_fit_names_the_dimension_that_stops_the_next_pod() -> None:
    desk = answering.Desk(*(objects.make_node(f"node-{index}") for index in range(4)))
    costs = {"*": {"cpu": 1.0, "memory": 1e9}, "Job/default/fat": {"cpu": 0.1, "memory": 4e9}}
    desk.hear_cost("node-0", {"cpu": 5.5, "memory": 64e9}, costs, capacity=5.5, pods=1)
    desk.hear_cost("node-1", {"cpu": 50.0, "memory": 9.5e9}, costs, capacity=9.5, bottleneck="memory", pods=1)
    desk.hear_cost("node-2", {"cpu": 50.0, "memory": 90e9}, costs, capacity=50.0, pods=2, limit=4)
    said = await desk.ask("capacity.fit")
    assert (said["total"], said["nodes"], said["at_least"]) == (5 + 9 + 2, 4, False)
    assert said["stopped_by"] == {"cpu": 1, "memory": 1, "limit": 1, "no_advertisement": 1}
    assert [(each["node"], each["fits"], each["stopped_by"]) for each in said["per_node"]] == [
        ("node-1", 9, "memory"), ("node-0", 5, "cpu"), ("node-2", 2, "limit"), ("node-3", 0, "no_advertisement"),
    ]  # fmt: skip
    assert [(each["class"], each["total"]) for each in said["kinds"]] == [("Job/default/fat", 20), ("*", 16)]
    fat = await desk.ask("capacity.fit", **{"class": "fat"})
    assert (fat["class"], fat["is_measured"], fat["total"]) == ("Job/default/fat", True, 16 + 2 + 2)


async def test_a_full_node_says_which_dimension_is_full_of_what() -> None:
    desk = answering.Desk()
    desk.hear_cost("node-0", {"cpu": 0.5, "memory": 8e9}, {"*": {"cpu": 1.0, "memory": 1e9}}, capacity=0.5, pods=3)
    said = await desk.ask("node.explain", node="node-0")
    assert said["refused_by"] == {"stage": "capacity", "means": "at capacity", "detail": "cpu: capacity 0.5 advertised"}
    assert (await desk.ask("capacity.fit"))["per_node"][0]["detail"] == "capacity 0.5 advertised"


async def test_what_fits_of_a_class_without_measurements_is_stated_separately() -> None:
    desk = answering.Desk()
    costs = {"Job/default/a": {"cpu": 0.5}, "?": {"cpu": 3.0}, "*": {"cpu": 0.5}}
    desk.hear_cost("node-0", {"cpu": 6.0}, costs, pods=1)
    del costs["*"]
    made = {name: messages.ClassCapacity(cost_plus=cost, pods=1) for name, cost in costs.items()}
    desk.hear(headroom={"cpu": 6.0}, classes=made, pods=1, seq=2, capacity=12.0)
    said = await desk.ask("capacity.fit")
    assert said["total"] == 12
    assert [(each["class"], each["pods"], each["total"]) for each in said["kinds"]] == [
        ("Job/default/a", 1, 12), ("?", 0, 2),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ({"Job/default/a": 0.5, "?": 3.0, "*": 0.1}, ("?", 2)), ({"?": 3.0, "*": 0.1}, ("*", 60)),
        ({"*": 0.1}, ("*", 60)), ({"?": 3.0}, ("?", 2)),
    ],
)  # fmt: skip
async def test_a_new_class_costs_what_all_pods_do_only_where_classes_are_not_distinguished(
    named: dict[str, float], expected: tuple[str, int]
) -> None:
    desk = answering.Desk()
    costs = {name: messages.ClassCapacity(cost_plus={"cpu": cost}, pods=1) for name, cost in named.items()}
    desk.hear(headroom={"cpu": 6.0}, classes=costs, pods=1, capacity=12.0)
    last = (await desk.ask("capacity.fit"))["kinds"][-1]
    assert (last["class"], last["total"]) == expected
    new = {"containers": [{"name": "main", "image": "new"}]}
    assert (await desk.ask("capacity.fit", pod=new))["total"] == expected[1]


async def test_where_no_node_advertises_and_requests_decide_answers_go_by_requests() -> None:
    rules = policy.Policy(fallback=policy.Fallback.REQUESTS)
    desk = answering.Desk(objects.make_node("node-0", pod_limit=3), rules=rules)
    desk.state.put_pod(objects.make_pod("there", node_name="node-0", request_cores=1.0), NOW_S)
    desk.state.put_pod(objects.make_pod("waits"), NOW_S)
    said = await desk.ask("pod.explain", pod="waits")
    assert (said["feasible"], said["candidates"][0]["free"], said["candidates"][0]["score"]) == (1, None, 0.75)
    spec = {"containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "2"}}}]}
    fit = await desk.ask("capacity.fit", pod=spec)
    assert (fit["total"], fit["stopped_by"]) == (1, {"requests.cpu": 1})
    assert (await desk.ask("capacity.fit"))["per_node"][0]["stopped_by"] == "pod_limit"
    node = await desk.ask("node.explain", node="node-0")
    assert (node["free"], node["bottleneck"], node["refused_by"]) == (None, "pod_limit", None)


async def test_fit_of_a_described_pod_looks_at_its_requests_and_constraints() -> None:
    desk = answering.Desk(objects.make_node("node-0", labels={"disk": "ssd"}), objects.make_node("node-1"))
    desk.hear("node-0", 20.0)
    desk.hear("node-1", 20.0)
    spec = {
        "nodeSelector": {"disk": "ssd"},
        "containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "1500m"}}}],
    }
    said = await desk.ask("capacity.fit", pod=spec)
    assert (said["total"], said["is_measured"]) == (2, False)
    assert said["stopped_by"] == {"requests.cpu": 1, "node_selector": 1}
    assert await desk.ask("capacity.fit", pod={"metadata": {"name": "x"}, "spec": spec}) == said | {
        "of": "the Pod default/x as described"
    }


async def test_fit_names_the_node_that_is_asked_for_first() -> None:
    desk = answering.Desk(*(objects.make_node(f"node-{number}") for number in range(3)))
    for number, capacity in enumerate((4.0, 0.0, 2.0)):
        desk.hear(f"node-{number}", capacity)
    named = {"pod": {"containers": [{"name": "main", "image": "x"}]}, "node": "node-1"}
    found = await desk.ask("capacity.fit", **named)
    assert [each["node"] for each in found["per_node"]] == ["node-1", "node-0", "node-2"]
    (full,) = (await desk.ask("capacity.fit", **named, limit=1))["per_node"]
    assert (full["node"], full["fits"], full["stopped_by"]) == ("node-1", 0, "pods")
    found = await desk.ask("capacity.fit", **{**named, "node": "no-such"})
    assert [each["node"] for each in found["per_node"]] == ["node-0", "node-2", "node-1"]
    with pytest.raises(errors.CaricoError, match="node"):
        await desk.ask("capacity.fit", **{**named, "node": 7})


async def test_fit_does_not_keep_made_up_classes() -> None:
    desk = answering.Desk()
    desk.hear_cost("node-0", {"cpu": 4.0}, {"*": {"cpu": 1.0}})
    for index in range(20):
        await desk.ask("capacity.fit", pod={"containers": [{"name": "main", "image": f"image-{index}"}]})
    assert set(desk.state.fleet._free) == {(headroom.UNNAMED, 0.0)}


@pytest.mark.parametrize(
    ("verb", "question", "expected"),
    [
        ("pod.explain", {}, '"pod": "NAME"'),
        ("pod.explain", {"pod": 3}, '"pod": "NAME"'),
        ("pod.explain", {"pod": "x", "limit": -1}, "expected 0 to 1000"),
        ("pod.explain", {"pod": "x", "limit": True}, "expected 0 to 1000"),
        ("node.explain", {}, '"node": "NAME"'),
        ("capacity.fit", {"like": "a", "class": "b"}, "got like and class"),
        ("capacity.fit", {"like": "pod-1"}, "known: default/pod-0"),
        ("capacity.fit", {"class": "nothing"}, "got 'nothing', expected a class"),
        ("capacity.fit", {"pod": [1]}, "got list"),
        ("capacity.fit", {"pod": {"spec": 3}}, "spec"),
        ("capacity.fit", {"pod": {"containers": [{"resources": {"requests": {"cpu": "x"}}}]}}, "cpu"),
    ],
)
async def test_bad_questions_are_answered_with_what_is_wrong(
    verb: str, question: dict[str, Any], expected: str
) -> None:  # fmt: skip
    desk = answering.Desk()
    desk.state.put_pod(objects.make_pod(), NOW_S)
    with pytest.raises(serving.BadQuestion, match=expected.replace("(", r"\(")):
        await desk.ask(verb, **question)


@pytest.mark.parametrize("payload", [b"{", b"[]", b"3"])
async def test_what_is_no_question_is_refused(payload: bytes) -> None:
    for handler in list(answering.Desk().answers.endpoints().values())[3:]:
        with pytest.raises(serving.BadQuestion):
            await handler(payload)


async def test_a_standby_does_not_answer() -> None:
    desk = answering.Desk()
    desk.leader = "another-1"
    for handler in desk.answers.endpoints().values():
        with pytest.raises(errors.CaricoError, match="another-1 leads"):
            await handler(b"{}")


async def test_what_is_lacking_of_the_api_is_said() -> None:
    desk = answering.Desk()
    desk.away = {"pods": "no answer"}
    assert (await desk.ask("capacity.fit"))["away"] == {"pods": "no answer"}


def test_every_stage_has_words() -> None:
    assert all(explain.phrase(reason) for reason in decision.Reason)


KIND: dict[str, dict[str, Any]] = {
    "plain": {},
    "asking": {"containers": [{"name": "main", "image": "pi", "resources": {"requests": {"cpu": "700m"}}}]},
    "apart": {
        "affinity": {
            "podAntiAffinity": {
                REQUIRED: [{"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "what-if"}}}]
            }
        }
    },
    "spread": {
        "topologySpreadConstraints": [
            {
                "maxSkew": 2, "topologyKey": HOSTNAME, "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "what-if"}},
            }
        ]
    },
}  # fmt: skip


def described(name: str, kind: str) -> dict[str, Any]:
    obj = objects.pod_object(name, **KIND[kind])
    obj["metadata"] |= {"uid": f"uid-{name}", "labels": {"app": "what-if"}}
    return obj


@hypothesis.settings(max_examples=40, deadline=None, derandomize=True)
@hypothesis.given(seed=st.integers(0, 10**6), kind=st.sampled_from(sorted(KIND)))
async def test_what_is_said_to_fit_is_what_a_cycle_places(seed: int, kind: str) -> None:
    rng = random.Random(seed)
    names = [f"node-{index}" for index in range(rng.randint(1, 6))]
    desk = answering.Desk(*(_node(name, rng) for name in names))
    for name in names:
        room = {"cpu": rng.uniform(0.0, 6.0), "memory": rng.uniform(0.0, 6e9)}
        costs = {"*": {"cpu": rng.uniform(0.2, 2.0), "memory": rng.uniform(1e8, 1e9)}}
        limit = rng.choice([None, rng.randint(1, 6)])
        desk.hear_cost(name, room, costs, capacity=rng.uniform(0.0, 4.0), pods=rng.randint(0, 1), limit=limit)
    said = await desk.ask("capacity.fit", pod=described("what-if", kind))
    for index in range(60):
        desk.state.put_pod(api_objects.parse_pod(described(f"pod-{index}", kind)), NOW_S)
    placed = desk.decide()
    assert {each["node"]: each["fits"] for each in said["per_node"] if each["fits"]} == dict(placed)
    assert said["total"] == sum(placed.values()) and not said["at_least"]


def _node(name: str, rng: random.Random) -> cluster.Node:
    taints = (cluster.Taint(key="x", value="", effect="NoSchedule"),) if rng.random() < 0.2 else ()
    return objects.make_node(
        name, labels={HOSTNAME: name}, taints=taints, pod_limit=rng.choice([3, 110]), ready=rng.random() < 0.9
    )


def test_the_dimensions_of_an_offer_have_names() -> None:
    plain = objects.make_advertisement()
    full = objects.with_headroom(plain, {"cpu": 1.0, "memory": 2.0, "disk": 3.0}, {"cpu": 1.0, "memory": 1.0})
    for made in (plain, full):
        assert len(headroom.offer_of(made).dimensions) == len(headroom.offer_of(made).headroom)
    assert headroom.offer_of(full).dimensions == ("cpu", "memory")


async def test_a_pod_for_which_others_are_evicted_or_awaited_says_so() -> None:
    desk = answering.Desk()
    pod = objects.make_pod("high", priority=9)
    desk.state.put_pod(pod, NOW_S)
    low, leaving = objects.make_pod("low"), objects.make_pod("leaves", deleting=True)
    nomination = nominations.Nomination(
        pod=pod, demand=desk.state.demand_of(pod), node="node-0", victims=(low,), since_s=NOW_S
    )
    desk.state.nominations.add(nomination)
    evicted, awaited = "1 Pod of lower priority evicted for it", "1 Pod awaited"
    for victims, why in (((low,), evicted), ((low, leaving), f"{evicted}, {awaited}"), ((leaving,), awaited)):
        nomination.victims = victims
        said = await desk.ask("pod.explain", pod="high")
        assert (said["state"], said["why"]) == ("waiting", f"room is being made on node-0: {why}")


async def test_a_pod_for_which_others_were_evicted_in_vain_says_so() -> None:
    desk = answering.Desk()
    desk.hear(capacity=0.5)
    pod = objects.make_pod("high", priority=9)
    desk.state.put_pod(pod, NOW_S)
    waiting = desk.state.queue.find(pod.uid)
    assert waiting is not None
    ended = nominations.Nomination(
        pod=pod, demand=waiting.demand, node="node-0", victims=(objects.make_pod("low"),), since_s=NOW_S,
        state=nominations.State.FREED,
    )  # fmt: skip
    waiting.in_vain = nominations.in_vain(ended, nominations.End.EXPIRED)
    said = await desk.ask("pod.explain", pod="high")
    assert said["why"].startswith("0/1 nodes fit: 1 at capacity")
    assert said["why"].endswith("; 1 Pod evicted for it on node-0 without success: what went freed too little")


def test_why_an_eviction_was_in_vain() -> None:
    pods = [objects.make_pod("low"), objects.make_pod("other"), objects.make_pod("leaves", deleting=True)]
    ended = nominations.Nomination(
        pod=objects.make_pod(), demand=demands.Demand(), node="node-0", victims=tuple(pods), since_s=NOW_S
    )
    evicted = "2 Pods evicted for it on node-0 without success: "
    assert nominations.in_vain(ended, nominations.End.EXPIRED) == f"{evicted}not all have left"
    assert nominations.in_vain(ended, nominations.End.GONE) == f"{evicted}the node is gone"
    assert nominations.in_vain(ended, nominations.End.FAILED) == f"{evicted}not all that had to go could be evicted"
    ended.victims = (pods[2],)
    assert (
        nominations.in_vain(ended, nominations.End.GONE) == "Pods awaited on node-0 without success: the node is gone"
    )


async def test_a_pod_for_which_a_node_is_held_names_it_and_others_learn_why_room_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "AFTER_S", 60.0)
    desk = answering.Desk()
    held = turns.Turns(desk.state.fleet, desk.state.queue)
    desk.answers = dataclasses.replace(desk.answers, known=dataclasses.replace(desk.answers.known, turns=held))
    desk.hear(capacity=0.5)
    desk.state.put_pod(objects.make_pod("runs", node_name="node-0", phase="Running"), NOW_S)
    desk.state.put_pod(objects.make_pod("old"), NOW_S - 61.0)
    desk.decide()
    held.refresh(NOW_S)
    said = await desk.ask("pod.explain", pod="old")
    assert said["why"].startswith(
        "it has waited for long: room on node-0 is held for it, as Pods end there; 0/1 nodes fit"
    )
    listed = await desk.ask("waiting.list")
    assert [each["reason"] for each in listed["reasons"]] == ["room on a node is held for it, as Pods end there"]
    desk.hear(capacity=1.5, covers=frozenset({"uid-runs"}))
    desk.state.put_pod(objects.make_pod("later", image="other"), NOW_S)
    said = await desk.ask("pod.explain", pod="later")
    assert said["why"] == "what room there is may be held for Pods that have waited longer, one node for each"


@pytest.mark.parametrize("how", ["pod", "like"])
async def test_a_question_about_a_pod_with_many_terms_is_refused(how: str) -> None:
    """For each of them all Pods are looked at: a reader could keep the leader from deciding."""
    terms = [
        {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": str(number)}}}
        for number in range(kinds.TERMS_MOST + 1)
    ]

    def spec(count: int) -> dict[str, Any]:
        required = {"requiredDuringSchedulingIgnoredDuringExecution": terms[:count]}
        return {"containers": [{"name": "main", "image": "pi"}], "affinity": {"podAntiAffinity": required}}

    desk = answering.Desk()
    desk.hear()

    def question(count: int) -> dict[str, Any]:
        if how == "pod":
            return {"pod": spec(count)}
        obj = objects.pod_object("a", **spec(count))
        obj["metadata"] |= {"uid": f"a-{count}", "name": f"a-{count}"}
        desk.state.put_pod(api_objects.parse_pod(obj), answering.NOW_S)
        return {"like": f"a-{count}"}

    assert (await desk.ask("capacity.fit", **question(kinds.TERMS_MOST)))["nodes"] == 1
    with pytest.raises(serving.BadQuestion, match=r"has 9 terms about other Pods.*at most 8"):
        await desk.ask("capacity.fit", **question(kinds.TERMS_MOST + 1))


def preferring(count: int) -> dict[str, Any]:
    """A Pod that prefers nodes with any of these labels."""
    preferred = [
        {"weight": 1, "preference": {"matchExpressions": [{"key": f"key-{number}", "operator": "Exists"}]}}
        for number in range(count)
    ]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    return {"containers": [{"name": "main", "image": "pi"}], "affinity": affinity}


def selecting(count: int) -> dict[str, Any]:
    """A Pod that keeps away from Pods without these labels: each Pod is compared with all of them."""
    absent = [{"key": f"key-{number}", "operator": "DoesNotExist"} for number in range(count)]
    required = [{"topologyKey": "zone", "labelSelector": {"matchExpressions": absent}}]
    affinity = {"podAntiAffinity": {REQUIRED: required}}
    return {"containers": [{"name": "main", "image": "pi"}], "affinity": affinity}


def tolerating(count: int) -> dict[str, Any]:
    tolerations = [{"key": f"key-{number}", "operator": "Exists"} for number in range(count)]
    return {"containers": [{"name": "main", "image": "pi"}], "tolerations": tolerations}


@pytest.mark.parametrize("spec_of", [preferring, selecting, tolerating])
async def test_a_question_about_a_pod_of_many_words_is_refused(spec_of: Callable[[int], dict[str, Any]]) -> None:
    """Each node, or each Pod, is compared with all of them: a reader could keep the leader from deciding."""
    desk = answering.Desk()
    desk.hear()
    assert (await desk.ask("capacity.fit", pod=spec_of(20)))["nodes"] == 1
    with pytest.raises(serving.BadQuestion, match=r"words and terms in affinity, .*at most 128"):
        await desk.ask("capacity.fit", pod=spec_of(100))


def test_who_asks_without_end_gets_a_tenth_of_the_time() -> None:
    async def main() -> list[float]:
        clock, turns = objects.LoopClock(asyncio.get_running_loop()), tasks.OneAtATime(rest=queries.REST)
        began_s, at_s = clock.monotonic_s(), list[float]()

        async def answer() -> dict[str, Any]:
            at_s.append(round(clock.monotonic_s() - began_s, 2))
            await asyncio.sleep(1.0)
            if len(at_s) == 2:
                raise serving.BadQuestion("no")
            return {}

        await asyncio.gather(*(turns.take(answer) for _ in range(4)), return_exceptions=True)
        return at_s

    assert objects.run_fast(main()) == [0.0, 10.0, 20.0, 30.0]


@pytest.mark.parametrize(
    ("verb", "looks", "of"),
    [
        ("pod.explain", pod_answers, "answer"), ("node.explain", node_answers, "answer"),
        ("waiting.list", waiting_answers, "answer"), ("capacity.list", questions, "finite_column"),
    ],
)  # fmt: skip
async def test_questions_about_all_nodes_or_pods_take_turns(
    monkeypatch: pytest.MonkeyPatch, verb: str, looks: types.ModuleType, of: str
) -> None:
    """Each is answered in the loop in which Pods are decided on."""
    took_s, at_s = 0.01, list[float]()

    def look(*_: object) -> NoReturn:
        at_s.append(asyncio.get_running_loop().time())
        time.sleep(took_s)
        raise serving.BadQuestion("")

    monkeypatch.setattr(looks, of, look)
    desk = answering.Desk()
    await asyncio.gather(*(desk.ask(verb, pod="a", node="a") for _ in range(3)), return_exceptions=True)
    assert len(at_s) == 3
    assert all(after - before >= queries.REST * took_s for before, after in itertools.pairwise(at_s))
