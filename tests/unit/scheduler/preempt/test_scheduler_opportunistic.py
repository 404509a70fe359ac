"""Opportunistic Pods on the memory API: they run on what is idle, and go when their node fills."""

import asyncio
import types
from collections.abc import Mapping
from typing import Any

import pytest

from carico_core.domain import errors, messages
from carico_core.runtime.process import settings
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_core.wire.kubernetes import instants
from carico_scheduler import settings as setting
from carico_scheduler.rules import policy
from tests.tools.memory import memory_objects
from tests.unit.scheduler import objects, world

IDLE = "idle"
FOREVER = (10_000.0, 10_000.0)


class Idle(world.World):
    """Nodes with room for 6 Pods of a core each, whose other load is `load_cores`."""

    load_cores = 0.0
    # Further load by node.
    own_cores: Mapping[str, float] = types.MappingProxyType({})
    # None: the node has not measured the class.
    held_cores: float | None = 1.0
    # What Pods of an image take; those of others take a core.
    cores: Mapping[str, float] = types.MappingProxyType({})

    def more(self, index: int) -> dict[str, Any]:
        return {"opportunistic": IDLE}

    def advertise(self, node: str, capacity: float, pods: int, covers: frozenset[str]) -> None:
        self._seq += 1
        now_ns = self.clock.wall_ns()
        plain = objects.make_advertisement(
            node, max(capacity, 0.0), seq=self._seq, ts_ns=now_ns, sampled_at_ns=now_ns, pods=pods, covers=covers
        )
        images = {pod["metadata"]["uid"]: pod["spec"]["containers"][0]["image"] for pod in self.pods_now()}
        used = sum(self.cores.get(images.get(uid, ""), 1.0) for uid in covers)
        free = self.room - used - self.load_cores - self.own_cores.get(node, 0.0)
        made = objects.with_headroom(plain, {"cpu": free}, {"cpu": 1.0})
        named = {
            f"image/default/{image}": messages.ClassCapacity(cost_plus={"cpu": cores}, pods=1)
            for image, cores in self.cores.items()
        }
        made = made._replace(classes={**(made.classes or {}), **named})
        if self.held_cores is None and made.classes is not None:
            # Only what an unmeasured Pod may cost is known.
            made = made._replace(classes={"?": made.classes["*"]})
        for one in self.engines:
            one.on_advertisement(subjects.capacity(node), wire.encode_advertisement(made))


async def begin(*names: str, nodes: int = 1, **spec: Any) -> Idle:
    """Nodes with these Pods, each younger than the last; those whose name starts with `idle` are opportunistic."""
    made = Idle(room=6.0)
    made.pod_s = FOREVER
    await made.start(nodes=nodes)
    made._tasks.append(asyncio.create_task(made.engines[0].opportunistic.work_forever()))
    for index, name in enumerate(names):
        own = {"priorityClassName": IDLE, "priority": -10} if name.startswith(IDLE) else {}
        place = {"nodeSelector": {"kubernetes.io/hostname": f"node-{index % nodes}"}}
        made.create_pod(name, **({"priority": 0} | place | own | spec))
        created = made.kube.objects.get("pods", ("default", name), "test")
        created["metadata"] |= {"creationTimestamp": f"2025-01-01T00:00:{index:02d}Z", "labels": {"name": name}}
        made.kube.objects.update("pods", ("default", name), created, "test")
    await asyncio.sleep(6.0)
    assert running(made) == sorted(names)
    return made


def running(made: world.World) -> list[str]:
    return sorted(pod["metadata"]["name"] for pod in made.pods() if pod["status"].get("phase") == "Running")


def count(made: world.World, start: str) -> int:
    return sum(each.startswith(start) for each in made.kube.requests)


def test_pods_that_may_fill_a_node_further_go_only_above_their_own_ceiling() -> None:
    async def main() -> None:
        made = await begin("idle-0", "idle-1")
        profiles: Any = made.engines[0].state.fleet.policy.profiles
        profiles[made.pods()[0]["spec"]["schedulerName"]] = policy.Profile(ceiling_offset=0.5)
        # The agent's ceiling is exceeded by half a core, and theirs is at least a core higher.
        made.load_cores = 4.5
        await asyncio.sleep(30.0)
        assert running(made) == ["idle-0", "idle-1"]
        made.load_cores = 20.0
        await asyncio.sleep(30.0)
        assert running(made) == []
        await made.stop()

    objects.run_fast(main())


def test_as_many_go_as_hold_what_is_lacking_the_youngest_first() -> None:
    async def main() -> None:
        made = await begin("own-0", "own-1", "idle-0", "idle-1", "idle-2")
        made.load_cores = 2.5
        await asyncio.sleep(30.0)
        # Of 6 cores 2.5 are other load: 5 Pods need 1.5 more than there is.
        assert running(made) == ["idle-0", "own-0", "own-1"]
        assert count(made, "DELETE") == 2
        events = made.kube.objects.all("events", memory_objects.parse_selector("", {}))
        told = {each["regarding"]["name"]: each["note"] for each in events if each["reason"] == "Preempted"}
        assert told == dict.fromkeys(["idle-1", "idle-2"], "Evicted: node-0 is full, and idle Pods run on what is idle")
        evicting = list(made.engines[0].state.nominations.evicting(lambda _: "node-0"))
        assert not evicting, "those that are gone are forgotten"
        await made.stop()

    objects.run_fast(main())


def test_none_goes_whose_room_another_one_frees() -> None:
    async def main() -> None:
        made = await begin("idle-burn")
        made.cores = {"nap": 0.01}
        naps = [f"idle-nap-{index}" for index in range(5)]
        for name in naps:
            containers = [{"name": "main", "image": "nap"}]
            made.create_pod(name, containers=containers, priorityClassName=IDLE, priority=-10)
        await asyncio.sleep(6.0)
        made.load_cores = 5.5
        await asyncio.sleep(30.0)
        assert running(made) == naps
        assert count(made, "DELETE") == 1
        await made.stop()

    objects.run_fast(main())


def leave(made: Idle, name: str, ends_in_s: float) -> None:
    """Somebody deletes this Pod, which has a grace period."""
    pod = made.kube.objects.get("pods", ("default", name), "test")
    ends_at_ns = made.clock.wall_ns() + round(ends_in_s * 1e9)
    pod["metadata"]["deletionTimestamp"] = instants.format_time(ends_at_ns)
    made.kube.objects.update("pods", ("default", name), pod, "test")


@pytest.mark.parametrize(
    ("lacking", "ends_in_s", "left"),
    [
        (0.5, 60.0, ["idle-0", "idle-1", "own-0"]),
        (1.5, 60.0, ["idle-0", "own-0"]),
        (0.5, 3600.0, ["idle-0", "own-0"]),
    ],
)
def test_a_pod_that_leaves_keeps_others_only_if_it_frees_enough_in_time(
    lacking: float, ends_in_s: float, left: list[str]
) -> None:
    async def main() -> None:
        made = await begin("own-0", "idle-0", "idle-1")
        leave(made, "own-0", ends_in_s)
        made.load_cores = 3.0 + lacking
        await asyncio.sleep(30.0)
        assert running(made) == left
        await made.stop()

    objects.run_fast(main())


def guard(made: Idle, *names: str, allowed: int) -> None:
    """A budget allows some of these Pods to go."""
    named = {"matchExpressions": [{"key": "name", "operator": "In", "values": list(names)}]}
    metadata, spec = {"namespace": "default", "name": "guard"}, {"selector": named}
    budget = {"metadata": metadata, "spec": spec, "status": {"disruptionsAllowed": allowed}}
    made.kube.objects.create("poddisruptionbudgets", budget, "test")


@pytest.mark.parametrize(
    ("allowed", "left"),
    [(0, ["idle-1", "idle-2"]), (1, ["idle-0", "idle-1"]), (2, ["idle-0", "idle-1"])],
)
def test_of_those_that_a_budget_allows_to_go_the_youngest_goes(allowed: int, left: list[str]) -> None:
    async def main() -> None:
        made = await begin("idle-0", "idle-1", "idle-2")
        guard(made, "idle-1", "idle-2", allowed=allowed)
        made.load_cores = 3.5
        await asyncio.sleep(30.0)
        assert running(made) == left
        await made.stop()

    objects.run_fast(main())


def test_pods_that_go_from_several_nodes_at_the_same_time_count_together_for_a_budget() -> None:
    async def main() -> None:
        made = await begin("idle-0", "idle-1", "idle-2", "idle-3", nodes=2)
        guard(made, "idle-2", "idle-3", allowed=1)
        made.load_cores = 4.5
        await asyncio.sleep(30.0)
        assert len(running(made)) == 2
        assert len({"idle-2", "idle-3"} & set(running(made))) == 1, "the budget allows one of them to go"
        await made.stop()

    objects.run_fast(main())


@pytest.mark.parametrize(
    ("before", "after", "second"), [(1, None, "idle-1"), (1, 0, "idle-1"), (2, None, "idle-3"), (2, 1, "idle-3")]
)
def test_a_pod_counts_for_its_budget_until_the_budget_counts_it(before: int, after: int | None, second: str) -> None:
    """The API takes a moment to count a Pod that was deleted, and another node may fill in it."""

    async def main() -> None:
        made = await begin("idle-0", "idle-1", "idle-2", "idle-3", nodes=2)
        guard(made, "idle-2", "idle-3", allowed=before)
        made.kube.is_graceful = True
        made.own_cores = {"node-0": 4.5}
        await asyncio.sleep(6.0)
        assert count(made, "DELETE") == 1
        if after is not None:
            budget = made.kube.objects.get("poddisruptionbudgets", ("default", "guard"), "test")
            written = budget | {"status": {"disruptionsAllowed": after}}
            made.kube.objects.update("poddisruptionbudgets", ("default", "guard"), written, "test")
        made.own_cores = {"node-0": 4.5, "node-1": 4.5}
        await asyncio.sleep(6.0)
        gone = [each.rpartition("/")[2] for each in made.kube.requests if each.startswith("DELETE")]
        assert gone == ["idle-2", second]
        await made.stop()

    objects.run_fast(main())


def test_none_goes_while_another_pod_is_evicted_from_its_node_for_another_reason() -> None:
    async def main() -> None:
        made = await begin("own-0", "idle-0")
        state = made.engines[0].state
        (own,) = (pod for pod in state.pods() if pod.name == "own-0")
        state.nominations.note_evicted(own)
        made.load_cores = 4.5
        await asyncio.sleep(10.0)
        assert running(made) == ["idle-0", "own-0"]
        state.nominations.note_stays(own.uid)
        await asyncio.sleep(10.0)
        assert running(made) == ["own-0"]
        await made.stop()

    objects.run_fast(main())


def test_a_short_peak_evicts_nothing() -> None:
    async def main() -> None:
        made = await begin("idle-0", "idle-1")
        for _ in range(5):
            made.load_cores = 6.0
            await asyncio.sleep(2.0)
            made.load_cores = 0.0
            await asyncio.sleep(2.0)
        assert running(made) == ["idle-0", "idle-1"]
        await made.stop()

    objects.run_fast(main())


def test_other_pods_never_go_however_full_the_node_is() -> None:
    async def main() -> None:
        made = await begin("own-0", "own-1", "idle-0")
        made.load_cores = 50.0
        await asyncio.sleep(60.0)
        assert running(made) == ["own-0", "own-1"]
        assert count(made, "DELETE") == 1
        await made.stop()

    objects.run_fast(main())


def test_pods_whose_class_is_not_measured_go_one_by_one() -> None:
    async def main() -> None:
        made = await begin("idle-0", "idle-1", "idle-2")
        made.held_cores = None
        made.load_cores = 3.5
        await asyncio.sleep(30.0)
        assert running(made) == ["idle-0", "idle-1"]
        await made.stop()

    objects.run_fast(main())


def test_while_a_victim_ends_no_other_goes() -> None:
    async def main() -> None:
        made = await begin("idle-0", "idle-1", "idle-2")
        made.kube.is_graceful = True
        made.load_cores = 3.5
        await asyncio.sleep(20.0)
        # Its kubelet still ends it, so that the node stays full.
        assert count(made, "DELETE") == 1
        await made.stop()

    objects.run_fast(main())


def test_a_pod_of_higher_priority_takes_the_place_of_an_opportunistic_one() -> None:
    async def main() -> None:
        made = await begin(*(f"idle-{index}" for index in range(6)))
        made.create_pod("own", priority=0)
        await asyncio.sleep(15.0)
        assert "own" in running(made)
        assert count(made, "DELETE") == 1
        await made.stop()

    objects.run_fast(main())


def test_a_refused_eviction_is_tried_again_later_and_counted() -> None:
    async def main() -> None:
        made = await begin("idle-0")
        made.kube.fail_next(
            errors.Forbidden(status=403, reason="Forbidden", message="no", request="DELETE"), path="/status"
        )
        made.load_cores = 9.0
        await asyncio.sleep(30.0)
        assert running(made) == []
        await made.stop()

    objects.run_fast(main())


@pytest.mark.parametrize("text", ["system-node-critical", "Idle", "a b"])
def test_a_class_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(errors.SettingsError, match=r"--opportunistic: got .* expected the name of a PriorityClass"):
        settings.load(
            setting.SchedulerSettings, prefix="scheduler", argv=["--opportunistic", text], environ={}, program="test"
        )
