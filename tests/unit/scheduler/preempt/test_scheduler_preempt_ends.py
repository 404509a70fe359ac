"""Each end of a preemption that is not the usual one is a stated state, with an Event and a count."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from carico_core.domain import errors
from carico_core.wire.kubernetes import api_objects
from carico_scheduler.preempt import nominations
from carico_scheduler.report import notices
from tests.tools.memory import memory_objects
from tests.unit.scheduler import objects, world
from tests.unit.scheduler.preempt import test_scheduler_preemptor as cases


def notes(made: world.World, name: str, reason: str) -> list[str]:
    """The Events about a Pod."""
    found = made.kube.objects.all("events", memory_objects.parse_selector("", {}))
    return [each["note"] for each in found if each["regarding"]["name"] == name and each["reason"] == reason]


def nominated(made: world.World, name: str) -> str:
    (found,) = (pod for pod in made.pods() if pod["metadata"]["name"] == name)
    return found["status"].get("nominatedNodeName") or ""


def ended(made: world.World, end: nominations.End) -> float:
    return float(made.engines[0]._metrics.preemptions.labels(end.value)._value.get())


async def equal_priorities(made: world.World) -> None:
    made.create_pod("high", priority=0)
    await asyncio.sleep(30.0)
    assert cases.count(made, "DELETE") == 0
    assert nominated(made, "high") == ""


async def victim_that_never_ends(made: world.World) -> None:
    made.kube.is_graceful = True
    made.kube.grace_s = 280.0
    made.create_pod("high", priority=10)
    await asyncio.sleep(nominations.EVICTING_FOR_S + 20.0)
    assert ended(made, nominations.End.EXPIRED) == 1
    # Until a minute after its grace period it is waited for again, and no other goes.
    assert cases.count(made, "DELETE") == 1
    assert any(each.endswith("not all have left") for each in notes(made, "high", "FailedScheduling"))


async def room_that_is_not_enough(made: world.World) -> None:
    # As if the node were smaller than its agent has measured: what goes frees nothing.
    made.room = 0.0
    made.create_pod("high", priority=10)
    await asyncio.sleep(nominations.FREED_FOR_S + 4.0)
    assert ended(made, nominations.End.EXPIRED) == 1
    assert nominated(made, "high") == ""
    await asyncio.sleep(notices.CHANGE_EVERY_S)
    why = "1 Pod evicted for it on node-0 without success: what went freed too little"
    assert any(each.endswith(f"; {why}") for each in notes(made, "high", "FailedScheduling"))


async def node_that_goes(made: world.World) -> None:
    made.kube.is_graceful = True
    made.create_pod("high", priority=10)
    await asyncio.sleep(5.0)
    assert nominated(made, "high") == "node-0"
    made.kube.objects.delete("nodes", ("", "node-0"), {}, "test")
    await asyncio.sleep(10.0)
    assert ended(made, nominations.End.GONE) == 1
    assert len(made.engines[0].state.nominations) == 0


@pytest.mark.parametrize(
    "case",
    [equal_priorities, victim_that_never_ends, room_that_is_not_enough, node_that_goes],
    ids=lambda each: each.__name__,
)
def test_the_pod_waits_with_an_event(case: Callable[[world.World], Awaitable[None]]) -> None:
    async def main() -> None:
        made = await cases.full()
        await case(made)
        assert "high" not in cases.running(made)
        (uid,) = (pod["metadata"]["uid"] for pod in made.pods() if pod["metadata"]["name"] == "high")
        assert made.engines[0].state.waits(uid)
        assert notes(made, "high", "FailedScheduling")
        await made.stop()

    objects.run_fast(main())


def test_a_budget_that_allows_nothing_is_violated_only_if_nothing_else_helps() -> None:
    async def main() -> None:
        made = await cases.full()
        state = made.engines[0].state
        for pod in made.pods():
            pod["metadata"]["labels"] = {"app": "guarded"} if pod["metadata"]["name"] != "low-1" else {"app": "free"}
            made.kube.objects.update("pods", ("default", pod["metadata"]["name"]), pod, "test")
        budget = {
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"namespace": "default", "name": "guard"},
            "spec": {"selector": {"matchLabels": {"app": "guarded"}}}, "status": {"disruptionsAllowed": 0},
        }  # fmt: skip
        state.budgets.put(api_objects.parse_disruption_budget(budget))
        made.create_pod("high", priority=10)
        await asyncio.sleep(15.0)
        assert cases.running(made) == ["high", "low-0", "low-2"]
        # Now only guarded Pods have a lower priority: one goes, as with kube-scheduler.
        made.create_pod("next", priority=10)
        await asyncio.sleep(15.0)
        assert "next" in cases.running(made)
        assert cases.count(made, "DELETE") == 2
        assert all(
            len(notes(made, name, "Preempted")) == 1 for name in {"low-0", "low-1", "low-2"} - set(cases.running(made))
        )
        await made.stop()

    objects.run_fast(main())


@pytest.mark.parametrize(
    "spec",
    [
        {"priority": 10, "nodeSelector": {"disk": "none"}},
        # Others have taken the room meanwhile, and none may go.
        {"priority": 0},
        {"priority": 10, "preemptionPolicy": "Never"},
    ],
    ids=["no node", "priority", "policy"],
)
def test_a_nominated_node_that_another_leader_left_is_removed_once_no_node_gives_way(spec: dict[str, Any]) -> None:
    async def main() -> None:
        made = await cases.full()
        for name in ("high-0", "high-1"):
            left = objects.pod_object(name, **spec)
            made.kube.objects.create("pods", left | {"status": {"nominatedNodeName": "node-0"}}, "test")
        # The first request is lost: it is repeated.
        made.kube.fail_next(errors.ApiUnavailable("503"), method="PATCH", path="/high-0/status")
        await asyncio.sleep(60.0)
        assert (nominated(made, "high-0"), nominated(made, "high-1")) == ("", "")
        assert cases.count(made, "DELETE") == 0
        await made.stop()

    objects.run_fast(main())


def test_the_name_of_a_node_that_is_not_there_yet_stays() -> None:
    """An autoscaler names the node that it has started for a Pod."""

    async def main() -> None:
        made = await cases.full()
        left = objects.pod_object("high", priority=10, nodeSelector={"disk": "none"})
        made.kube.objects.create("pods", left | {"status": {"nominatedNodeName": "coming"}}, "test")
        await asyncio.sleep(60.0)
        assert nominated(made, "high") == "coming"
        await made.stop()

    objects.run_fast(main())
