"""Bad input to a whole rescheduler: skipped or refused with its reason, counted, and shown by `--dry-run`."""

import asyncio
from collections.abc import Callable

import pytest

from carico_cli.rescheduling import cluster_text
from carico_core.domain import pod_telemetry
from carico_core.runtime.bus import listening
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_rescheduler.adapter import scheduler, telemetry
from tests.unit.rescheduler import rescheduler_site
from tests.unit.scheduler import objects

Site = rescheduler_site.Site


async def dry_run(made: Site) -> str:
    """What `carico reschedule --dry-run` shows, in one line."""
    return " ".join(cluster_text.plan(await made.ask("plan.get"), is_wide=False).split())


def autoscaler(made: Site) -> None:
    """An HPA owns the replicas of a Deployment of one."""
    target = {"kind": "Deployment", "name": "web"}
    body = {"metadata": {"namespace": "default", "name": "busy"}, "spec": {"scaleTargetRef": target}}
    made.cluster.api.objects.create("horizontalpodautoscalers", body, "test")


def rollout(made: Site) -> None:
    """The Deployment is being rolled out."""
    found = made.cluster.api.objects.get("deployments", ("default", "web"), "test")
    found["status"]["updatedReplicas"] = 4
    made.cluster.api.objects.update("deployments", ("default", "web"), found, "test")


def budget(made: Site) -> None:
    """A PodDisruptionBudget that allows nothing."""
    body = {
        "metadata": {"namespace": "default", "name": "all"}, "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": 0},
    }  # fmt: skip
    made.cluster.api.objects.create("poddisruptionbudgets", body, "test")


STAYS: dict[str, tuple[Callable[[Site], None], tuple[str, ...], int, str]] = {
    "autoscaler": (
        autoscaler, ("--mode", "node-selector"), 1,
        "HorizontalPodAutoscaler busy owns its replicas, which "
        "CARICO_RESCHEDULER_MODE=node-selector would pin to a node",
    ),
    "rollout": (rollout, (), 9, "Deployment web: it is being rolled out: 4 of 9 replicas are updated"),
    "budget": (budget, (), 9, "PodDisruptionBudget all allows no disruption now"),
}  # fmt: skip


@pytest.mark.parametrize("reason", STAYS)
def test_a_pod_that_may_not_move_stays_and_the_reason_is_shown(reason: str) -> None:
    prepare, flags, replicas, detail = STAYS[reason]

    async def main() -> None:
        async with rescheduler_site.site(replicas) as made:
            made.loads["web"] = pod_telemetry.PodLoad("*", 9.0 / replicas, 0.0, 2.0**20)
            # It stays, so that a Pod alone gains by leaving.
            made.loads["rest"] = pod_telemetry.PodLoad("*", 5.0, 0.0, 2.0**20)
            made.cluster.add_deployment("rest", ["node-a"], schedulerName="other")
            prepare(made)
            rescheduler = made.start("a", *flags)
            await asyncio.sleep(60.0)
            assert made.on("node-a") == replicas and made.on("node-b") == 0
            assert rescheduler.metrics.value("skipped_pods", {"reason": reason}) == float(replicas)
            pods = "1 Pod" if replicas == 1 else f"{replicas} Pods"
            shown = await dry_run(made)
            assert f"stay: {pods} ({reason}), such as default/web-" in shown and detail in shown

    objects.run_fast(main())


def test_an_autoscaler_owns_the_replicas_of_what_moves_by_surge() -> None:
    async def main() -> None:
        async with rescheduler_site.site() as made:
            autoscaler(made)
            made.start("a")
            while made.cluster.most_active < 10:
                await asyncio.sleep(0.1)
            # It scales in the middle of a move.
            made.cluster.scale("web", 10)
            await asyncio.sleep(200.0)
            assert len(made.cluster.pods("web")) == 10 and made.cluster.marks() == []
            assert made.cluster.fewest_ready >= 9 and made.cluster.most_active <= 11
            written = [each for each in made.cluster.api.requests if not each.startswith(("GET", "WATCH"))]
            assert not [each for each in written if "/deployments" in each or "/replicasets" in each]

    objects.run_fast(main())


def test_a_target_that_is_full_by_now_is_left_out_and_shown() -> None:
    async def main() -> None:
        async with rescheduler_site.site() as made:
            made.fits = {"node-a": 0, "node-b": 0}
            rescheduler = made.start("a", "--no-automatic")
            await asyncio.sleep(60.0)
            assert rescheduler.metrics.value("left_out_moves", {"reason": "scheduler"}) == 3.0
            assert "to node-b: capacity: full" in await dry_run(made)

    objects.run_fast(main())


def test_a_target_that_fills_meanwhile_ends_the_plan() -> None:
    async def main() -> None:
        async with rescheduler_site.site() as made:
            answers = iter([9] * 4)
            made.fits_on = lambda node: next(answers, 0) if node == "node-b" else 0
            rescheduler = made.start("a")
            await asyncio.sleep(60.0)
            # Three answers for the plan, one before the first move.
            assert (made.on("node-a"), made.on("node-b")) == (8, 1) and made.cluster.marks() == []
            assert rescheduler.metrics.value("withdrawn_moves_total", {"reason": "scheduler"}) == 1.0

    objects.run_fast(main())


@pytest.mark.parametrize("answer", [b"", b"[]", b"{}", b'{"per_node": [{}]}', b'{"per_node": [{"node": "node-b"}]}'])
def test_an_answer_of_the_scheduler_that_cannot_be_read_stops_no_service(answer: bytes) -> None:
    async def main() -> None:
        async with rescheduler_site.site() as made:
            rescheduler = made.start("a")
            plain = made.members["a"].request

            async def request(subject: str, payload: bytes, *, timeout_s: float) -> bytes:
                is_fit = subject == scheduler.SUBJECT
                return answer if is_fit else await plain(subject, payload, timeout_s=timeout_s)

            made.members["a"].request = request  # type: ignore[method-assign]
            await asyncio.sleep(60.0)
            assert not made.running["a"][2].done() and made.on("node-a") == 9
            assert rescheduler.rounds.rests.startswith("no scheduler answers: its answer cannot be read")

    objects.run_fast(main())


def endpoint(address: str) -> pod_telemetry.Endpoint:
    return pod_telemetry.Endpoint(address, 80)


async def report(made: Site, *, seq: int = 1, **changes: object) -> None:
    """Publish the traffic of a Pod of node-a with an address that no Pod has any more."""
    uid = made.cluster.pods("web")[0]["metadata"]["uid"]
    flow = pod_telemetry.PodFlow(uid, endpoint("10.0.0.1"), endpoint("10.9.9.9"), 30_000_000, 0)
    found = pod_telemetry.PodTraffic(
        node="node-a", boot=objects.BOOT, seq=seq, ts_ns=made.clock.wall_ns(), interval_s=10.0, network="ab",
        flows=(flow,), skipped={"decreased": 3, "unreadable": 1},
    )  # fmt: skip
    payload = wire.encode_traffic(found)
    for name, value in changes.items():
        payload = payload.replace(f'"{name}":10.0'.encode(), f'"{name}":{value}'.encode())
    await made.bus.publish(subjects.traffic("node-a"), payload)


def test_traffic_of_pods_that_are_gone_and_readings_that_agents_skipped_are_shown() -> None:
    async def main() -> None:
        async with rescheduler_site.site() as made:
            rescheduler = made.start("a", "--no-automatic")
            await asyncio.sleep(30.0)
            await report(made)
            await asyncio.sleep(25.0)
            assert rescheduler.metrics.value("unresolved_traffic_bytes") == pytest.approx(3e6)
            shown = await dry_run(made)
            assert "left out: 3.0 MB/s with ends that are no known Pods (outside, or gone)" in shown
            # A counter that went back, and sockets that the agent has no right to read.
            assert "readings of traffic: decreased 3 times since agents started, on 1 node, such as node-a" in shown
            assert "readings of traffic: unreadable once since agents started" in shown

    objects.run_fast(main())


def test_a_node_that_floods_is_not_heard_for_a_while_and_all_others_are() -> None:
    async def main() -> None:
        async with rescheduler_site.site() as made:
            rescheduler = made.start("a", "--no-automatic")
            await asyncio.sleep(30.0)
            heard = {subjects.CAPACITY_ALL, subjects.PODS_ALL, subjects.TRAFFIC_ALL}
            assert subscribed(made) == heard
            for _ in range(telemetry.REPORTED.most + 3):
                await made.bus.publish(subjects.traffic("node-a"), b"x")
            await asyncio.sleep(1.0)
            assert subscribed(made) == {subjects.CAPACITY_ALL, subjects.PODS_ALL, subjects.traffic("node-b")}
            labels = {"kind": "traffic", "reason": "flood"}
            assert rescheduler.metrics.value("dropped_messages_total", labels) == 1.0
            await asyncio.sleep(listening.REFUSED_S)
            assert subscribed(made) == heard

    objects.run_fast(main())


def test_agents_are_heard_once_it_is_known_which_nodes_there_are() -> None:
    """With a key of all nodes, one can report under any number of names."""

    async def main() -> None:
        async with rescheduler_site.site() as made:
            made.cluster.api.go_away()
            rescheduler = made.start("a", "--no-automatic")
            await asyncio.sleep(10.0)
            assert subscribed(made) == set() and not rescheduler.known.advertisements
            made.cluster.api.come_back()
            await asyncio.sleep(30.0)
            assert rescheduler.known.advertisements.keys() == {"node-a", "node-b"}

    objects.run_fast(main())


def subscribed(made: Site) -> set[str]:
    """Return the subjects of which the bus sends messages."""
    return {subject for subject, _ in made.bus.hub.subscriptions}


@pytest.mark.parametrize(("value", "why"), [("NaN", "undecodable"), ("1e999", "undecodable"), ("-1", "out_of_range")])
def test_a_number_that_is_none_drops_the_whole_message(value: str, why: str) -> None:
    async def main() -> None:
        async with rescheduler_site.site() as made:
            rescheduler = made.start("a", "--no-automatic")
            await asyncio.sleep(30.0)
            await report(made, interval_s=value)
            await asyncio.sleep(25.0)
            assert rescheduler.metrics.value("dropped_messages_total", {"kind": "traffic", "reason": why}) == 1.0
            shown = await dry_run(made)
            assert f"dropped messages of traffic: 1 ({why})" in shown and "left out: 3.0 MB/s" not in shown

    objects.run_fast(main())
