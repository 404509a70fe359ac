"""Binds through the extender: each answered by what became of it, and nothing promised twice."""

import asyncio
import random
from typing import Any

import pytest

from carico_core.domain import decision, errors
from carico_scheduler.extender import service
from tests.unit.scheduler import objects, world
from tests.unit.scheduler.extender import extender_desk


def test_room_is_held_on_every_node_that_passed_until_the_bind_tells_which() -> None:
    async def main() -> None:
        desk = extender_desk.Desk(wait_s=0.05)
        desk.node("n1", 1.0)
        desk.node("n2", 1.0)
        first, second, third = desk.pod("a"), desk.pod("b"), desk.pod("c")
        assert await desk.passed(first, "n1", "n2") == ["n1", "n2"]
        assert await desk.passed(second, "n1", "n2") == [], "either may be the first one's"
        assert await desk.passed(first, "n1", "n2") == ["n1", "n2"], "what is held for itself is no hindrance"
        assert await desk.bind(first, "n2") == ""
        assert desk.node_of("a") == "n2"
        assert desk.wakes
        assert await desk.passed(second, "n1", "n2") == ["n1"]
        assert await desk.bind(second, "n1") == ""
        answer = await desk.filter(third, "n1", "n2")
        assert answer["FailedNodes"] == dict.fromkeys(["n1", "n2"], "CARICO: at capacity")
        record = desk.log.latest("default", "a")
        assert record is not None
        assert (record.outcome, record.node, record.free) == (decision.Outcome.BOUND, "n2", 1.0)
        assert record.message == "n2 chosen by kube-scheduler, with room for 1.0 Pods"

    objects.run_fast(main())


def test_a_pod_has_waited_since_it_was_asked_for_first() -> None:
    async def main() -> None:
        desk = extender_desk.Desk(hold_s=2.0, wait_s=0.0)
        desk.node("n1", 1.0)
        first, second = desk.pod("a"), desk.pod("b")
        assert await desk.passed(first, "n1") == ["n1"]
        assert await desk.passed(second, "n1") == []
        await asyncio.sleep(3.0)
        desk.extender.forget()
        assert len(desk.extender.waits) == 2, "neither is bound or gone"
        assert await desk.bind(first, "n1") == ""
        record = desk.log.latest("default", "a")
        assert record is not None
        assert 3.0 <= record.waited_s < 3.5
        desk.state.remove_pod("uid-b")
        desk.extender.forget()
        assert len(desk.extender.waits) == 0

    objects.run_fast(main())


def test_a_bind_that_comes_after_its_hold_is_looked_at_again() -> None:
    async def main() -> None:
        desk = extender_desk.Desk(hold_s=1.0, wait_s=0.0)
        desk.node("n1", 1.0)
        late, other = desk.pod("late"), desk.pod("other")
        assert await desk.passed(late, "n1") == ["n1"]
        await asyncio.sleep(2.0)
        assert await desk.passed(other, "n1") == ["n1"]
        assert "n1 no longer has room: capacity: 0 free" in await desk.bind(late, "n1")
        assert desk.node_of("late") is None
        assert await desk.bind(other, "n1") == ""

    objects.run_fast(main())


def test_a_bind_is_answered_by_what_became_of_it() -> None:
    async def main() -> None:
        desk = extender_desk.Desk()
        desk.node("n1", 4.0)
        desk.node("n2", 4.0)
        pod = desk.pod("a")
        await desk.passed(pod, "n1")
        desk.kube.fail_next(errors.Invalid(status=422, reason="Invalid", message="no", request="POST"), path="/binding")
        assert "not bound to n1" in await desk.bind(pod, "n1")
        assert len(desk.state.reservations) == 0
        assert len(desk.state.queue) == 0, "it is kube-scheduler's to try again"
        assert await desk.bind(pod, "n1") == ""
        # Asked twice: the first answer may have been lost.
        desk.show_bound("a", "n1")
        assert await desk.bind(pod, "n1") == ""
        assert await desk.bind(pod, "n2") == "bound to n1 already"
        other = desk.pod("b")
        await desk.passed(other, "n1")
        assert await desk.bind(other, "n1") == ""
        assert (await desk.filter(pod, "n1"))["Error"] == "bound to n1 already"
        gone = desk.pod("gone")
        desk.kube.objects.delete("pods", ("default", "gone"), {}, "test")
        assert "not bound to n1" in await desk.bind(gone, "n1")
        record = desk.state.records.find("uid-gone")
        assert record is not None, "only the watch ends a record"
        assert record.booking is None
        desk.state.remove_pod("uid-gone")
        assert desk.state.records.find("uid-gone") is None

    objects.run_fast(main())


def test_a_bind_that_the_api_calls_a_conflict_is_recorded_as_one() -> None:
    async def main() -> None:
        desk = extender_desk.Desk()
        desk.node("n1", 4.0)
        pod = desk.pod("a")
        for error, outcome in (
            (errors.Conflict(status=409, reason="Conflict", message="no", request="POST"), "bind_conflict"),
            (errors.Invalid(status=422, reason="Invalid", message="no", request="POST"), "bind_failed"),
        ):
            desk.kube.fail_next(error, path="/binding")
            assert "not bound to n1" in await desk.bind(pod, "n1")
            record = desk.log.latest("default", "a")
            assert record is not None
            assert (record.outcome.value, record.node) == (outcome, None)

    objects.run_fast(main())


def test_while_a_bind_is_in_doubt_nothing_else_is_done_with_the_pod() -> None:
    async def main() -> None:
        desk = extender_desk.Desk()
        desk.node("n1", 4.0)
        pod = desk.pod("a")
        await desk.passed(pod, "n1")
        desk.kube.go_away()
        asking = asyncio.create_task(desk.bind(pod, "n1"))
        await asyncio.sleep(3.0)
        assert not asking.done()
        assert (await desk.filter(pod, "n1"))["Error"] == "a bind to n1 is under way"
        # Who asked gives up; the bind does not.
        asking.cancel()
        desk.kube.come_back()
        await asyncio.sleep(3.0)
        assert desk.node_of("a") == "n1"
        assert len(desk.state.reservations) == 1
        # kube-scheduler asks again, and gets the outcome.
        assert await desk.bind(pod, "n1") == ""

    objects.run_fast(main())


def test_a_pod_that_the_watch_has_not_shown_yet_is_bound_as_the_filter_or_the_api_showed_it() -> None:
    async def main() -> None:
        desk = extender_desk.Desk()
        desk.node("n1", 4.0)
        body = objects.pod_object("a", schedulerName="kube-carico")
        made = desk.kube.objects.create("pods", body, "test")
        await desk.passed(made, "n1")
        assert await desk.bind(made, "n1") == ""
        other = desk.kube.objects.create("pods", objects.pod_object("b", schedulerName="kube-carico"), "test")
        assert await desk.bind(other, "n1") == ""
        other["metadata"]["uid"] = "another"
        assert "another Pod now" in await desk.bind(other, "n1")
        other["metadata"]["name"] = "nobody"
        assert "cannot be read" in await desk.bind(other, "n1")

    objects.run_fast(main())


def test_a_bound_pod_counts_before_the_watch_shows_it() -> None:
    async def main() -> None:
        desk = extender_desk.Desk(wait_s=0.0)
        desk.node("n1", 1.0)
        assert await desk.bind(desk.unshown_pod("a"), "n1") == ""
        second = desk.pod("b")
        assert await desk.passed(second, "n1") == []
        assert "no longer has room" in await desk.bind(second, "n1")

    objects.run_fast(main())


@pytest.mark.parametrize(
    "answers",
    [
        [errors.Conflict(status=409, reason="Conflict", message="no", request="POST")],
        [errors.ApiUnavailable("no answer in time"), world.NO_RIGHTS],
    ],
)
def test_a_failed_bind_of_a_pod_that_the_watch_has_not_shown_is_no_success(answers: list[errors.CaricoError]) -> None:
    async def main() -> None:
        desk = extender_desk.Desk()
        desk.node("n1", 1.0)
        made = desk.unshown_pod("a")
        for error in answers:
            desk.kube.fail_next(error, path="/binding")
        assert "not bound to n1" in await desk.bind(made, "n1")
        assert desk.node_of("a") is None
        assert not list(desk.state.records)
        assert await desk.bind(made, "n1") == "", "it may be tried again"

    objects.run_fast(main())


def test_of_two_binds_of_one_pod_that_the_watch_has_not_shown_one_is_refused() -> None:
    async def main() -> None:
        desk = extender_desk.Desk()
        desk.node("n1", 1.0)
        desk.node("n2", 1.0)
        made = desk.unshown_pod("a")
        async with asyncio.timeout(60.0):
            answers = await asyncio.gather(desk.bind(made, "n1"), desk.bind(made, "n2"))
        node = desk.node_of("a")
        assert sorted(answers) == ["", f"a bind to {node} is under way"]
        assert node == ("n1" if answers[0] == "" else "n2")
        await desk.unit.binder.drain(1.0)
        assert desk.unit.binder.fault is None

    objects.run_fast(main())


def test_a_pod_that_is_shown_bound_while_it_is_read_is_not_bound_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        desk = extender_desk.Desk()
        desk.node("n1", 4.0)
        made = desk.unshown_pod("a")
        uid, request = made["metadata"]["uid"], desk.kube.request

        async def slow(method: str, path: str, **more: Any) -> Any:
            answer = await request(method, path, **more)
            await asyncio.sleep(1.0)
            return answer

        monkeypatch.setattr(desk.kube, "request", slow)
        asking = asyncio.create_task(desk.bind(made, "n1"))
        await asyncio.sleep(0.5)
        shown = objects.make_pod("a", uid=uid, scheduler_name="kube-carico", node_name="n2")
        desk.state.put_pod(shown, desk.clock.monotonic_s())
        assert await asking == "bound to n2 already"

    objects.run_fast(main())


def test_a_term_that_ends_while_a_pod_is_read_sends_kube_scheduler_to_the_next_leader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        desk = extender_desk.Desk()
        desk.node("n1", 4.0)
        made, request = desk.unshown_pod("a"), desk.kube.request

        async def slow(method: str, path: str, **more: Any) -> Any:
            answer = await request(method, path, **more)
            desk.term = 2
            return answer

        monkeypatch.setattr(desk.kube, "request", slow)
        with pytest.raises(service.NotServing):
            await desk.bind(made, "n1")
        assert (desk.node_of("a"), list(desk.state.records)) == (None, [])

    objects.run_fast(main())


@pytest.mark.parametrize("is_deleted", [True, False])
def test_the_api_is_asked_for_a_bound_pod_that_the_watch_does_not_show(is_deleted: bool) -> None:
    async def main() -> None:
        desk = extender_desk.Desk()
        desk.node("n1", 1.0)
        made = desk.unshown_pod("a")
        assert await desk.bind(made, "n1") == ""
        # A list that is older than the Pod does not say that it is gone.
        desk.state.put_pods([], desk.clock.monotonic_s(), 0.0)
        assert len(desk.state.reservations) == 1
        if is_deleted:
            desk.kube.objects.delete("pods", ("default", "a"), {}, "test")
        await desk.extender.verify_unshown()
        assert len(desk.state.reservations) == 1, "it may be shown yet"
        await asyncio.sleep(service.UNSHOWN_S)
        await desk.extender.verify_unshown()
        assert len(desk.state.reservations) == (0 if is_deleted else 1)

    objects.run_fast(main())


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("binds", ["ours", "its own"])
def test_however_filters_and_binds_fall_no_node_gets_more_than_it_said(seed: int, binds: str) -> None:
    async def main() -> None:
        rng = random.Random(seed)
        desk = extender_desk.Desk(wait_s=0.01, hold_s=1000.0)
        room = {f"n{index}": rng.randrange(4) for index in range(3)}
        for name, capacity in room.items():
            desk.node(name, float(capacity))

        async def schedule(name: str) -> None:
            pod = desk.pod(name)
            for _ in range(20):
                await asyncio.sleep(rng.uniform(0.0, 0.2))
                passed = await desk.passed(pod, *room)
                if not passed or rng.random() < 0.1:
                    continue
                node = rng.choice(passed)
                await asyncio.sleep(rng.uniform(0.0, 0.3))
                if binds == "ours":
                    if await desk.bind(pod, node) == "":
                        return
                else:
                    path = f"/api/v1/namespaces/default/pods/{name}/binding"
                    await desk.kube.request("POST", path, body={"metadata": {}, "target": {"name": node}})
                    await asyncio.sleep(rng.uniform(0.0, 0.1))
                    desk.show_bound(name, node)
                    return

        async with asyncio.TaskGroup() as group:
            for index in range(12):
                group.create_task(schedule(f"pod-{index}"))
        placed = [desk.node_of(f"pod-{index}") for index in range(12)]
        for name, capacity in room.items():
            assert placed.count(name) <= capacity
        assert sum(each is not None for each in placed) == sum(room.values()), "all room is found in the end"

    objects.run_fast(main())
