"""Extenders of several schedulers that share the work: they claim what they bind, so that they agree."""

import asyncio
import json
import random
from typing import Any

import pytest

from carico_scheduler.extender import extender_settings, messages, server, service
from carico_scheduler.report import decisions
from carico_scheduler.sharing.claims import stream
from tests.tools.memory import memory_objects
from tests.unit.scheduler import objects
from tests.unit.scheduler.sharing import shared_world

NAME = "kube-carico"
READY_S = 4.0


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Binds take 2 s at most here."""
    monkeypatch.setattr(stream, "SETTLE_S", 3.0)


class Desk:
    """The extender of one member, asked as kube-scheduler does."""

    def __init__(self, made: shared_world.SharedWorld, index: int) -> None:
        one = made.engines[index]
        assert one.member is not None
        log = decisions.Log(
            boot="0" * 16, threshold=1.0, clock=made.clock, on_record=lambda _: None, on_drop=lambda: None
        )
        self.unit = server.ServedExtender(
            extender_settings.ExtenderSettings(enabled=True, port=0, wait_s=0.01, hold_s=1.0),
            service.ExtenderParts(
                state=one.state, kube=made.kube, clock=made.clock, rng=random.Random(index), log=log,
                metrics=made.counted[index], bind_timeout_s=1.0, term=one.member.term, wake=one.wake,
                member=one.member,
            ),
        )  # fmt: skip

    async def passed(self, pod: dict[str, Any], names: list[str]) -> list[str]:
        """The nodes that pass the filter."""
        asked = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": names}).encode()
        found: list[str] = json.loads(await self.unit.extender.filter(asked))["NodeNames"]
        return found

    async def bind(self, pod: dict[str, Any], node: str) -> str:
        """The error of a bind; empty for none."""
        meta = pod["metadata"]
        asked = {"PodName": meta["name"], "PodNamespace": "default", "PodUID": meta["uid"], "Node": node}
        return str(json.loads(await self.unit.extender.bind(json.dumps(asked).encode()))["Error"])


def create(made: shared_world.SharedWorld, name: str, **spec: Any) -> dict[str, Any]:
    return made.kube.objects.create("pods", objects.pod_object(name, schedulerName=NAME, **spec), "test")


def now(made: shared_world.SharedWorld, pod: dict[str, Any]) -> dict[str, Any]:
    """The Pod as the API has it now, which is what kube-scheduler sends."""
    found: dict[str, Any] = made.kube.objects.get("pods", ("default", pod["metadata"]["name"]), "test")
    return found


@pytest.mark.parametrize("seed", range(3))
def test_replicas_of_the_extender_and_members_never_give_the_same_room_twice(seed: int) -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(seed=seed, engines=3, room=3.0, lost_share=0.02)
        await made.start(nodes=3)
        made.watch_room()
        await asyncio.sleep(READY_S)
        desks, rng = [Desk(made, index) for index in range(2)], random.Random(seed)
        names = [f"node-{index}" for index in range(3)]

        async def schedule(pod: dict[str, Any]) -> None:
            while True:
                # A Service sends each request to any of them.
                passed = await rng.choice(desks).passed(now(made, pod), names)
                if passed and await rng.choice(desks).bind(pod, rng.choice(passed)) == "":
                    return
                await asyncio.sleep(rng.uniform(0.1, 0.5))

        own = [made.create_pod(f"own-{index}") for index in range(24)]
        kubes = [create(made, f"kube-{index}") for index in range(24)]
        async with asyncio.timeout(600.0):
            await asyncio.gather(*(schedule(pod) for pod in kubes))
        await made.until_ended(600.0)
        assert made.kube.binds == dict.fromkeys([*own, *(pod["metadata"]["uid"] for pod in kubes)], 1)
        assert max(made.largest.values()) <= 3
        await made.stop()

    objects.run_fast(main())


def test_a_node_on_which_no_claim_can_be_made_does_not_pass() -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(engines=1, room=4.0)
        await made.start(nodes=2)
        await asyncio.sleep(READY_S)
        claim = made.claims_on("node-0", "0" * 36)
        await made.connections[0].claims.change([claim._replace(payload=b"{}")])
        await asyncio.sleep(0.1)
        assert await Desk(made, 0).passed(create(made, "kube"), ["node-0", "node-1"]) == ["node-1"]
        await made.stop()

    objects.run_fast(main())


def test_replicas_that_are_asked_for_one_bind_at_the_same_time_both_say_that_the_pod_is_bound() -> None:
    """As where kube-scheduler has stopped waiting for the first one, and asks again."""

    async def main() -> None:
        made = shared_world.SharedWorld(engines=2, room=4.0)
        await made.start(nodes=1)
        await asyncio.sleep(READY_S)
        desks, pod = [Desk(made, index) for index in range(2)], create(made, "kube")
        assert await asyncio.gather(*(desk.bind(pod, "node-0") for desk in desks)) == ["", ""]
        assert made.kube.binds == {pod["metadata"]["uid"]: 1}
        await made.stop()

    objects.run_fast(main())


def test_an_extender_counts_what_others_have_claimed_but_not_bound() -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(engines=2, room=1.0)
        await made.start(nodes=2)
        await asyncio.sleep(READY_S)
        desk, pod = Desk(made, 0), create(made, "kube")
        await made.connections[1].claims.change([made.claims_on("node-0", "0" * 36)])
        await asyncio.sleep(0.1)
        assert await desk.passed(pod, ["node-0", "node-1"]) == ["node-1"]
        assert await desk.bind(pod, "node-0") != ""
        assert await desk.bind(pod, "node-1") == ""
        assert made.claimed_on("node-1") == [pod["metadata"]["uid"]]
        await made.stop()

    objects.run_fast(main())


def test_a_bind_to_what_is_no_name_of_a_node_is_refused_and_ends_nothing() -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(engines=1, room=1.0)
        await made.start(nodes=1)
        await asyncio.sleep(READY_S)
        desk = Desk(made, 0)
        # Pods that belong to their node go where kube-scheduler decides, whether its Node is known or not.
        pod = objects.pod_object("agent", schedulerName=NAME)
        pod["metadata"]["namespace"] = "kube-system"
        pod = made.kube.objects.create("pods", pod, "test")
        asked = {"PodName": "agent", "PodNamespace": "kube-system", "PodUID": pod["metadata"]["uid"], "Node": "no name"}
        with pytest.raises(messages.BadRequest, match="expected a Kubernetes name"):
            await desk.unit.extender.bind(json.dumps(asked).encode())
        own = made.create_pod("own")
        await asyncio.sleep(2.0)
        assert made.kube.binds == {own: 1}
        await made.stop()

    objects.run_fast(main())


def test_rules_that_need_the_lease_are_kube_schedulers_for_its_own_pods() -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(engines=2, room=2.0)
        await made.start(nodes=1)
        await asyncio.sleep(READY_S)
        term = {"labelSelector": {}, "topologyKey": "kubernetes.io/hostname"}
        anti_affinity = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        pod = create(made, "kube", affinity={"podAntiAffinity": anti_affinity})
        assert await Desk(made, 1).bind(pod, "node-0") == "", "the other one holds the Lease"
        found = made.kube.objects.all("pods", memory_objects.parse_selector("", {}))
        assert [each["spec"].get("nodeName") for each in found] == ["node-0"]
        await made.stop()

    objects.run_fast(main())


def test_a_scheduler_without_pods_of_its_own_has_no_share_and_claims_for_kube_scheduler() -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(engines=3, room=4.0, without=[2])
        await made.start(nodes=2)
        await asyncio.sleep(READY_S)
        assert [one.member.members for one in made.engines if one.member is not None] == [
            ("scheduler-0", "scheduler-1")
        ] * 3
        own = [made.create_pod(f"own-{index}") for index in range(20)]
        desk, pod = Desk(made, 2), create(made, "kube", priority=1)
        while await desk.bind(pod, "node-0"):
            await asyncio.sleep(0.5)
        await made.until_ended(60.0)
        assert made.kube.binds == dict.fromkeys([*own, pod["metadata"]["uid"]], 1)
        assert made.counted[2].claims.labels("stored")._value.get() == 1
        await made.stop()

    objects.run_fast(main())
