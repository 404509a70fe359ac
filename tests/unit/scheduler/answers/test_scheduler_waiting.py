"""The Pods that wait, by reason and by class: every Pod once, the longest wait first, few of each named."""

import pytest

from carico_cli.explain import pod_text
from carico_core.domain import decision
from carico_core.runtime.bus import serving
from carico_scheduler.answers import waiting
from carico_scheduler.report import notices
from tests.unit.scheduler import objects
from tests.unit.scheduler.answers import answering

NOW_S = answering.NOW_S


def refuse(desk: answering.Desk, uid: str, *reasons: str) -> None:
    """The Pod was reported with these reasons."""
    found = desk.state.queue.find(uid)
    assert found is not None
    found.reported["record"] = (frozenset(reasons), NOW_S)


async def test_pods_are_grouped_by_reason_and_by_class_with_the_longest_wait_first() -> None:
    desk = answering.Desk()
    for number in range(15):
        desk.state.put_pod(objects.make_pod(f"small-{number:02}", image="small"), NOW_S - 20.0 + number)
        refuse(desk, f"uid-small-{number:02}", decision.Reason.CAPACITY)
    desk.state.put_pod(objects.make_pod("old", image="gpu", namespace="shop"), NOW_S - 90.0)
    refuse(desk, "uid-old", decision.Reason.TAINT, decision.Reason.NODE_SELECTOR)
    desk.state.put_pod(objects.make_pod("new", image="small"), NOW_S - 1.0)
    said = await desk.ask("waiting.list")
    assert said["pods"] == 17
    assert [(each["reason"], each["pods"], each["oldest_s"]) for each in said["reasons"]] == [
        ("tainted, without the required labels", 1, 90.0), ("at capacity", 15, 20.0), (waiting.NEW, 1, 1.0),
    ]  # fmt: skip
    assert said["reasons"][0]["named"] == [
        {"namespace": "shop", "pod": "old", "class": "image/shop/gpu", "waited_s": 90.0}
    ]  # fmt: skip
    assert len(said["reasons"][1]["named"]) == waiting.NAMED
    assert [(each["namespace"], each["class"], each["pods"], each["oldest_s"]) for each in said["classes"]] == [
        ("shop", "image/shop/gpu", 1, 90.0), ("default", "image/default/small", 16, 20.0),
    ]  # fmt: skip
    few = await desk.ask("waiting.list", limit=2)
    assert [each["pod"] for each in few["reasons"][1]["named"]] == ["small-00", "small-01"]


async def test_a_pod_for_which_others_were_evicted_in_vain_waits_for_what_refuses_it() -> None:
    desk = answering.Desk()
    for name in ("plain", "in-vain"):
        desk.state.put_pod(objects.make_pod(name), NOW_S)
    refuse(desk, "uid-plain", decision.Reason.CAPACITY)
    refuse(desk, "uid-in-vain", decision.Reason.CAPACITY, notices.PREEMPTION)
    said = await desk.ask("waiting.list")
    assert [(each["reason"], each["pods"]) for each in said["reasons"]] == [("at capacity", 2)]


async def test_no_pod_waits() -> None:
    said = await answering.Desk().ask("waiting.list")
    assert (said["pods"], said["reasons"], said["classes"]) == (0, [], [])


async def test_a_pod_in_backoff_is_named_as_such() -> None:
    desk = answering.Desk()
    desk.hear()
    desk.state.put_pod(objects.make_pod(), NOW_S)
    desk.decide()
    desk.state.refuse("uid-pod-0", 1, NOW_S)
    said = await desk.ask("waiting.list")
    assert [each["reason"] for each in said["reasons"]] == [waiting.BACKOFF]


async def test_groups_and_named_pods_are_bounded() -> None:
    desk = answering.Desk()
    for number in range(2 * waiting.GROUPS_MAX):
        desk.state.put_pod(objects.make_pod(f"p-{number}", image=f"i{number}"), NOW_S - number)
    said = await desk.ask("waiting.list", limit=0)
    assert len(said["classes"]) == waiting.GROUPS_MAX
    assert said["classes"][0]["oldest_s"] == 2 * waiting.GROUPS_MAX - 1
    assert said["reasons"][0]["named"] == []
    with pytest.raises(serving.BadQuestion, match="limit"):
        await desk.ask("waiting.list", limit=10_000_000)


@pytest.mark.parametrize("is_shared", [False, True])
async def test_pods_that_wait_for_schedulers_that_share_the_work_are_counted(is_shared: bool) -> None:
    desk = answering.Desk(is_shared=is_shared)
    desk.state.is_mine = lambda pod: pod.name.startswith("own")
    created_s = desk.clock.wall_ns() / 1e9 - 50.0
    desk.state.put_pod(objects.make_pod("own", image="a", created_at_s=created_s), NOW_S - 40.0)
    refuse(desk, "uid-own", decision.Reason.CAPACITY)
    for name, image in (("like", "a"), ("other", "b")):
        desk.state.put_pod(objects.make_pod(name, image=image, created_at_s=created_s), NOW_S - 45.0)
    desk.state.put_pod(objects.make_pod("theirs", scheduler_name="default-scheduler"), NOW_S)
    said = await desk.ask("waiting.list")
    found = {each["reason"]: ([one["pod"] for one in each["named"]], each["oldest_s"]) for each in said["reasons"]}
    explained = await desk.ask("pod.explain", pod="other")
    if not is_shared:
        assert (said["pods"], found) == (1, {"at capacity": (["own"], 40.0)})
        return
    assert said["pods"] == 3
    assert found == {"at capacity": (["like", "own"], 50.0), waiting.ELSEWHERE: (["other"], 50.0)}
    assert (explained["state"], explained["waited_s"], explained["before"]) == ("waiting", 50.0, None)
    text = pod_text.text({**explained, "note": None}, now_ns=0)
    assert "\n  for 50.0 s; another scheduler decides on it\n" in text
