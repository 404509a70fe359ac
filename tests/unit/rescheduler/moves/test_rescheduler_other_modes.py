"""Moves by eviction and by nodeSelector: what they write, wait for, refuse and undo, and what a crash leaves."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from carico_core.domain import errors
from carico_rescheduler.context import movable
from carico_rescheduler.moves import pin
from carico_rescheduler.moves import record as records
from tests.unit.rescheduler.moves import test_rescheduler_surge as surges
from tests.unit.scheduler import objects

WEB = ("default", "web")


def budget(made: surges.Scene, allowed: int) -> None:
    """A PodDisruptionBudget of the application."""
    body = {
        "metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": allowed},
    }  # fmt: skip
    made.cluster.api.objects.create("poddisruptionbudgets", body, "test")


def test_an_evicted_pod_has_a_successor_where_the_scheduler_puts_it() -> None:
    async def main() -> None:
        async with surges.scene() as made:
            budget(made, 1)
            move = made.move("node-c")
            made.cluster.open.discard("node-a")
            made.cluster.add_node("node-c")
            # The scheduler of the scene prefers the first node.
            ended = await made.process(mode=movable.Mode.EVICT).run(move)
            assert (ended.state, ended.detail) == (records.State.MOVED, "the scheduler chose node-b")
            assert made.cut.writes == [f"POST /api/v1/namespaces/default/pods/{move.pod.pod.name}/eviction"]
            assert len(made.cluster.pods("web")) == 3 and ended.successor != move.pod.pod.name

    objects.run_fast(main())


def test_an_evicted_pod_that_returns_to_its_node_has_not_moved() -> None:
    async def main() -> None:
        async with surges.scene() as made:
            process = made.process(mode=movable.Mode.EVICT)
            ended = await process.run(made.move())
            assert (ended.state, ended.detail) == (records.State.KEPT, "the scheduler chose node-a")
            # Its controller's Pods rest.
            assert list(made.journal.rests()) == [f"default/{made.cluster.replica_set('web')['metadata']['uid']}"]

    objects.run_fast(main())


def test_an_evicted_pod_without_a_ready_successor_ends_the_plan() -> None:
    async def main() -> None:
        async with surges.scene() as made:
            made.cluster.gets_ready = lambda pod: False
            ended = await made.process(mode=movable.Mode.EVICT).run(made.move())
            assert (ended.state, ended.detail) == (records.State.KEPT, "no new Pod was ready within 120 s")

    objects.run_fast(main())


def test_a_budget_refuses_an_eviction_for_now() -> None:
    async def main() -> None:
        async with surges.scene() as made:
            budget(made, 0)
            ended = await made.process(mode=movable.Mode.EVICT).run(made.move())
            assert ended.state is records.State.KEPT and "refused for now" in ended.detail
            assert made.cluster.fewest_ready == 3

    objects.run_fast(main())


def test_an_eviction_that_is_not_sent_moves_nothing() -> None:
    async def main() -> None:
        async with surges.scene() as made:
            with pytest.raises(records.NotLeading):
                await made.process(mode=movable.Mode.EVICT, leads=lambda: False).run(made.move())
            assert len(made.cluster.pods("web")) == 3 and made.cluster.fewest_ready == 3

    objects.run_fast(main())


@contextlib.asynccontextmanager
async def deployed(*, rolls_out: bool = True) -> AsyncIterator[surges.Scene]:
    """A scene whose Deployment has one replica; its controller rolls out what changes, or does not get far."""
    async with surges.scene() as made:
        made.cluster.scale("web", 1)
        put_status(made, replicas=1)
        await asyncio.sleep(1.0)

        async def roll_out() -> None:
            while True:
                await asyncio.sleep(2.0)
                found = deployment(made)
                if rolls_out and found["status"]["observedGeneration"] < found["metadata"]["generation"]:
                    put_status(made, replicas=1)

        rolling = asyncio.create_task(roll_out())
        yield made
        rolling.cancel()
        await asyncio.gather(rolling, return_exceptions=True)


def deployment(made: surges.Scene) -> dict[str, Any]:
    found: dict[str, Any] = made.cluster.api.objects.get("deployments", WEB, "test")
    return found


def put_status(made: surges.Scene, *, replicas: int) -> None:
    """The Deployment is at rest with so many replicas."""
    found = deployment(made)
    found["spec"]["replicas"] = replicas
    found["status"] = {
        "observedGeneration": found["metadata"]["generation"], "replicas": replicas, "updatedReplicas": replicas,
        "availableReplicas": replicas,
    }  # fmt: skip
    made.cluster.api.objects.update("deployments", WEB, found, "test")


async def pin_halfway(made: surges.Scene) -> None:
    """A process pins the Deployment, and ends after its first write."""
    count_generations(made)
    with pytest.raises(surges.Crash):
        await made.process(at=1, is_sent=True, mode=movable.Mode.NODE_SELECTOR).run(made.move())


def count_generations(made: surges.Scene) -> None:
    """A change of a template makes a new generation, as in a real API."""
    update = made.cluster.api.objects.update

    def counted(plural: str, key: tuple[str, str], obj: dict[str, Any], request: str) -> dict[str, Any]:
        if plural == "deployments":
            before = made.cluster.api.objects.get(plural, key, request)
            if before["spec"]["template"] != obj["spec"]["template"]:
                obj["metadata"]["generation"] = before["metadata"]["generation"] + 1
        return update(plural, key, obj, request)

    made.cluster.api.objects.update = counted  # type: ignore[method-assign]


def selector(made: surges.Scene) -> dict[str, str]:
    found: dict[str, str] = deployment(made)["spec"]["template"]["spec"].get("nodeSelector") or {}
    return found


def test_a_deployment_is_pinned_and_the_mark_is_taken_off() -> None:
    async def main() -> None:
        async with deployed() as made:
            count_generations(made)
            ended = await made.process(mode=movable.Mode.NODE_SELECTOR).run(made.move())
            assert (ended.state, ended.detail) == (records.State.MOVED, "the Deployment is pinned")
            assert selector(made) == {movable.HOSTNAME: "node-b"}
            assert not deployment(made)["metadata"]["annotations"]

    objects.run_fast(main())


def test_a_rollout_that_does_not_succeed_is_undone() -> None:
    async def main() -> None:
        async with deployed(rolls_out=False) as made:
            count_generations(made)
            ended = await made.process(mode=movable.Mode.NODE_SELECTOR).run(made.move())
            assert ended.state is records.State.KEPT and "undone: its change is not observed yet" in ended.detail
            assert selector(made) == {} and not deployment(made)["metadata"]["annotations"]

    objects.run_fast(main())


@pytest.mark.parametrize("is_sent", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("write", [1, 2])
def test_a_process_that_dies_while_it_pins_leaves_no_mark(write: int, is_sent: bool) -> None:
    async def main() -> None:
        async with deployed() as made:
            count_generations(made)
            with pytest.raises(surges.Crash):
                await made.process(at=write, is_sent=is_sent, mode=movable.Mode.NODE_SELECTOR).run(made.move())
            await asyncio.sleep(5.0)
            await made.process(mode=movable.Mode.NODE_SELECTOR).recover()
            assert not (deployment(made)["metadata"].get("annotations") or {})
            is_pinned = selector(made) == {movable.HOSTNAME: "node-b"}
            assert is_pinned is (write == 2 or is_sent)

    objects.run_fast(main())


@pytest.mark.parametrize("mode", [movable.Mode.SURGE, movable.Mode.EVICT])
@pytest.mark.parametrize("has_rolled_out", [False, True])
def test_a_process_of_another_mode_leaves_no_pin_half_done(has_rolled_out: bool, mode: movable.Mode) -> None:
    async def main() -> None:
        async with deployed(rolls_out=has_rolled_out) as made:
            await pin_halfway(made)
            await asyncio.sleep(5.0)
            process = made.process(mode=mode)
            assert await process.recover() == 1 and process.stuck_pins == ""
            assert not deployment(made)["metadata"]["annotations"]
            assert selector(made) == ({movable.HOSTNAME: "node-b"} if has_rolled_out else {})
            assert await made.process(mode=mode).recover() == 0

    objects.run_fast(main())


def test_a_pin_that_another_mode_has_no_right_to_undo_is_named_until_it_has() -> None:
    async def main() -> None:
        async with deployed(rolls_out=False) as made:
            await pin_halfway(made)
            await asyncio.sleep(5.0)
            process = made.process()
            refused = errors.Forbidden(status=403, reason="Forbidden", message="no right", request="GET")
            made.cluster.api.fail_next(refused, method="GET", path="/deployments")
            assert await process.recover() == 1
            assert process.stuck_pins.startswith("default/web is half pinned to node-b, and the API refuses: ")
            assert "no right" in process.stuck_pins and not process.ended, "it is tried again in each round"
            assert await process.recover() == 1
            assert process.stuck_pins == "" and selector(made) == {}

    objects.run_fast(main())


def test_a_stop_undoes_a_pin_that_has_not_rolled_out() -> None:
    async def main() -> None:
        async with deployed(rolls_out=False) as made:
            count_generations(made)
            process = made.process(mode=movable.Mode.NODE_SELECTOR)
            moving = asyncio.create_task(process.run(made.move()))
            while process.current is None or process.current.state is not records.State.REPLACING:
                await asyncio.sleep(0.1)
            process.stop()
            async with asyncio.timeout(5.0):
                assert (await moving).state is records.State.KEPT
            assert selector(made) == {} and not deployment(made)["metadata"]["annotations"]

    objects.run_fast(main())


def test_a_refusal_that_lasts_leaves_the_mark_to_a_later_process() -> None:
    async def main() -> None:
        async with deployed() as made:
            count_generations(made)
            process = made.process(mode=movable.Mode.NODE_SELECTOR)
            moving = asyncio.create_task(process.run(made.move()))
            while process.current is None or process.current.state is not records.State.REPLACING:
                await asyncio.sleep(0.1)
            # As a webhook may answer.
            refused = errors.Invalid(status=422, reason="Invalid", message="no changes", request="PATCH")
            for _ in range(100):
                made.cluster.api.fail_next(refused, method="PATCH", path="/deployments")
            async with asyncio.timeout(30.0):
                ended = await moving
            assert ended.state is records.State.KEPT and "no changes" in ended.detail
            assert deployment(made)["metadata"]["annotations"]

    objects.run_fast(main())


def test_a_deployment_that_is_gone_ends_the_move() -> None:
    async def main() -> None:
        async with deployed(rolls_out=False) as made:
            count_generations(made)
            moving = asyncio.create_task(made.process(mode=movable.Mode.NODE_SELECTOR).run(made.move()))
            await asyncio.sleep(3.0)
            made.cluster.api.objects.delete("deployments", WEB, {}, "test")
            ended = await moving
            assert (ended.state, ended.detail) == (records.State.KEPT, "the Deployment is gone")

    objects.run_fast(main())


def test_a_deployment_that_is_gone_before_the_move_begins_keeps_the_pod() -> None:
    async def main() -> None:
        async with deployed() as made:
            move = made.move()
            made.cluster.api.objects.delete("deployments", WEB, {}, "test")
            await asyncio.sleep(1.0)
            ended = await made.process(mode=movable.Mode.NODE_SELECTOR).run(move)
            assert ended.state is records.State.KEPT and "its Deployment" in ended.detail

    objects.run_fast(main())


def test_deployments_whose_pins_have_ended_are_not_noted_any_more() -> None:
    async def main() -> None:
        async with deployed() as made:
            await pin_halfway(made)
            uid = deployment(made)["metadata"]["uid"]
            await asyncio.sleep(5.0)
            assert await made.journal.moving() == {uid}
            await made.process(mode=movable.Mode.NODE_SELECTOR).recover()
            assert await made.journal.moving() == set()
            # One that was refused is left to a later process.
            process = made.process(mode=movable.Mode.NODE_SELECTOR)
            lost = errors.ApiUnavailable("no answer")
            made.cluster.api.fail_next(lost, method="PATCH", path="/deployments")
            assert (await process.run(made.move())).state is records.State.KEPT
            assert await made.journal.moving() == {uid}

    objects.run_fast(main())


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"before": "a"}'])
def test_a_mark_that_cannot_be_read_is_none(text: str) -> None:
    assert pin.parse_mark(text) is None
