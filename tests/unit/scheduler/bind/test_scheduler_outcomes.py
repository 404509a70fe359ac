"""What came of binds: each outcome is taken in, or counted, and no Pod is lost over it."""

import asyncio
from typing import Any

import pytest

from carico_core.domain import decision, errors
from tests.tools.memory import memory_objects
from tests.unit.scheduler import objects, world


def test_a_bind_refused_for_good_backs_off_and_says_so() -> None:
    async def main() -> None:
        made = world.World()
        made.refuse_binds(3)
        await made.start(nodes=1)
        made.create_pod("pod-0")
        await made.until_ended()
        found = made.engines[0]._parts.log.latest("default", "pod-0")
        assert found is not None
        assert (found.outcome, found.attempt) == (decision.Outcome.BOUND, 4)
        await made.stop()

    objects.run_fast(main())


def test_a_pod_whose_binds_are_all_refused_gets_events_that_say_so_as_seldom_as_will_do() -> None:
    async def main() -> None:
        made = world.World()
        refusal = errors.Invalid(status=422, reason="Invalid", message="policy says no", request="POST binding")
        made.refuse_binds(1000, refusal)
        await made.start(nodes=1)
        made.create_pod("pod-0")
        await asyncio.sleep(150.0)
        written = [line for line in made.kube.requests if "/events" in line]
        assert len([line for line in made.kube.requests if line.endswith("/binding")]) > 15
        # At 1 s, and every minute of its failures after that, which are up to 10 s apart.
        assert [line.split()[0] for line in written] in (["POST", "PATCH", "PATCH"], ["POST", "PATCH"])
        (event,) = made.kube.objects.all("events", memory_objects.parse_selector("", {}))
        assert (event["reason"], event["type"], event["regarding"]["name"]) == ("FailedScheduling", "Warning", "pod-0")
        assert event["note"].startswith("not bound to node-0: ") and "policy says no" in event["note"]
        await made.stop()

    objects.run_fast(main())


@pytest.mark.parametrize("is_refused", [False, True])
def test_an_outcome_that_cannot_be_taken_in_is_counted_and_its_pod_is_not_lost(
    monkeypatch: pytest.MonkeyPatch, is_refused: bool
) -> None:
    async def main() -> None:
        made = world.World()
        one = made.engines[0]
        conclude, failures = one.starter.outcomes._message, [LookupError("odd")]

        def fail_once(*args: Any) -> Any:
            if failures:
                raise failures.pop()
            return conclude(*args)

        monkeypatch.setattr(one.starter.outcomes, "_message", fail_once)
        if is_refused:
            made.refuse_binds(1)
        await made.start(nodes=1)
        uids = [made.create_pod(f"pod-{index}") for index in range(3)]
        await made.until_ended()
        await asyncio.sleep(1.0)
        assert made.kube.binds == dict.fromkeys(uids, 1)
        assert one._metrics.lost_outcomes._value.get() == 1
        assert one.binder.fault is None
        world.check_nothing_left(made)
        assert not list(one.state.records)
        await made.stop()

    objects.run_fast(main())


def test_a_pod_whose_bind_is_answered_by_404_is_tried_again_until_the_watch_shows_that_it_is_gone() -> None:
    async def main() -> None:
        made = world.World()
        made.refuse_binds(
            2, errors.NotFound(status=404, reason="NotFound", message="no backend", request="POST binding")
        )
        await made.start(nodes=1)
        uid = made.create_pod("pod-0")
        await made.until_ended()
        await asyncio.sleep(1.0)
        assert made.kube.binds == {uid: 1}
        world.check_nothing_left(made)
        await made.stop()

    objects.run_fast(main())


def test_a_pod_that_goes_and_returns_while_it_is_bound_ends_bound_once() -> None:
    async def main() -> None:
        # A seed with which the bind takes long enough to be seen.
        made = world.World(seed=2, room=9.0)
        await made.start(nodes=1)
        await asyncio.sleep(0.5)
        one = made.engines[0]
        uid = made.create_pod("pod-0")
        while not one.binder.in_flight:
            await asyncio.sleep(0.001)
        pod = one.state.pod(uid)
        assert pod is not None
        one.state.remove_pod(uid)
        one.state.put_pod(pod, made.clock.monotonic_s())
        one.step()
        assert one.binder.in_flight == 1, "an event that is late brings no Pod back"
        # As a list does after a restore of the API's store.
        one.state.put_pods([pod], made.clock.monotonic_s(), 0.0)
        one.step()
        assert one.binder.in_flight == 2
        await made.until_ended()
        await asyncio.sleep(1.0)
        assert made.kube.binds == {uid: 1}
        assert one._metrics.lost_outcomes._value.get() == 0
        world.check_nothing_left(made)
        await made.stop()

    objects.run_fast(main())


def test_the_decision_loop_ends_where_an_outcome_cannot_even_be_revoked(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        made = world.World(engines=0)
        one = made._engine(0)

        def fail(*_: Any) -> None:
            raise LookupError("odd")

        monkeypatch.setattr(one.state, "confirm", fail)
        made.kube.objects.create("nodes", objects.node_object("node-0"), "test")
        made.create_pod("pod-0")
        made.engines.append(one)
        tasks = made.start_engine(one)
        await asyncio.sleep(0.5)
        made.advertise("node-0", 3.0, 0, frozenset())
        await asyncio.sleep(3.0)
        assert isinstance(tasks[0].exception(), LookupError)
        made._tasks.remove(tasks[0])
        await made.stop()

    objects.run_fast(main())
