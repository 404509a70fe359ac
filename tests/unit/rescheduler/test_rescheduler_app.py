"""The whole service on a memory API and bus, with a model of the controllers: it plans, moves, pauses, rests."""

import asyncio
import itertools
from collections.abc import Callable
from typing import TypeVar

import orjson
import pytest

from carico_core.domain import errors, pod_telemetry
from carico_core.runtime.bus import port as buses
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_rescheduler import app, reflection
from carico_rescheduler.adapter import traffic
from carico_rescheduler.context import problem as contexts
from carico_rescheduler.plan import generator, planning
from tests.unit.rescheduler import fake_cluster, rescheduler_site
from tests.unit.scheduler import objects

T = TypeVar("T")


def test_it_relieves_an_overloaded_node_and_then_rests() -> None:
    async def main() -> None:
        async with rescheduler_site.site() as made:
            rescheduler = made.start("a", "--every-s", "60")
            await asyncio.sleep(200.0)
            # Four cores are saturated at 6.16 tasks.
            assert (made.on("node-a"), made.on("node-b")) == (6, 3)
            assert made.cluster.fewest_ready == 9 and made.cluster.most_active == 10
            moves = (await made.ask("moves.list"))["ended"]
            assert [each["state"] for each in moves] == ["moved"] * 3
            requests = len([each for each in made.cluster.api.requests if "/pods" in each and "GET" not in each])
            # Half an hour of steady load: no further move.
            made.cluster.every_s, made.report_every_s = 60.0, 9.0
            await asyncio.sleep(1800.0)
            writes = [each for each in made.cluster.api.requests if "/pods" in each and "GET" not in each]
            assert len(writes) == requests
            assert rescheduler.rounds.rests == "no move pays"
            assert rescheduler.metrics.value("moves_total", {"mode": "surge", "outcome": "moved"}) == 3.0
            assert (rescheduler.metrics.value("measured_gain_total") or 0.0) > 0.0

    objects.run_fast(main())


def test_a_change_that_does_not_last_moves_nothing() -> None:
    async def main() -> None:
        async with rescheduler_site.site() as made:
            idle, busy = (pod_telemetry.PodLoad("*", tasks, 0.0, 2.0**20) for tasks in (0.5, 1.0))
            made.loads["web"] = idle
            rescheduler = made.start("a", "--every-s", "60")
            made.report_every_s = 9.0
            await asyncio.sleep(300.0)
            assert rescheduler.rounds.rests == "no move pays"
            # Nine tasks where six are too many: for two rounds, and then for good.
            made.loads["web"] = busy
            await asyncio.sleep(130.0)
            assert rescheduler.rounds.rests.startswith("what would be moved did not pay by the readings of")
            made.loads["web"] = idle
            await asyncio.sleep(600.0)
            assert rescheduler.rounds.rests == "no move pays" and made.on("node-a") == 9
            made.loads["web"] = busy
            await asyncio.sleep(400.0)
            assert (made.on("node-a"), made.on("node-b")) == (6, 3)

    objects.run_fast(main())


@pytest.mark.parametrize("is_better", [True, False])
def test_where_plans_reach_half_of_what_they_predict_the_next_must_predict_twice_as_much(is_better: bool) -> None:
    """For an hour, or until plans reach more: without a plan nothing else would ever be measured."""

    async def main() -> None:
        async with rescheduler_site.site() as made:
            # Four cores are saturated at 6.16 tasks, and a plan must end one above that.
            made.loads["web"] = pod_telemetry.PodLoad("*", 7.56 / 9.0, 0.0, 2.0**20)
            reach = {"compared": [(4.0, 2.0)], "measured_at": made.clock.wall_ns() / 1e9}
            data = {"effects": orjson.dumps(reach).decode()}
            body = {"metadata": {"namespace": "kube-system", "name": "carico-rescheduler"}, "data": data}
            made.cluster.api.objects.create("configmaps", body, "test")
            rescheduler = made.start("a", "--every-s", "60")
            await asyncio.sleep(60.0)
            assert rescheduler.planner.rule().least_tasks == 2.0
            assert "less than 200 kB/s and 2.00 tasks" in rescheduler.rounds.rests and made.on("node-a") == 9
            if is_better:
                rescheduler.rounds.reflection.take_over(reach | {"compared": [(4.0, 4.0)]})
            await asyncio.sleep(60.0 if is_better else reflection.REST_S)
            assert made.on("node-a") < 9

    objects.run_fast(main())


def test_a_new_process_plans_once_every_agent_has_reported() -> None:
    """Before, of a Pod that talks with two others only the traffic with one may be known: it would go there."""

    async def main() -> None:
        async with rescheduler_site.site(replicas=0) as made:
            for name, node in (("web", "node-a"), ("near", "node-a"), ("far", "node-b")):
                made.cluster.add_deployment(name, [node], **({} if name == "web" else {"schedulerName": "other"}))
            for number, pod in enumerate(made.cluster.pods()):
                pod["status"]["podIPs"] = [{"ip": f"10.0.0.{number}"}]
                made.cluster._put(pod)
            made.cluster.api.go_away()
            rescheduler = made.start("a")
            reporting = [
                asyncio.create_task(serve_web(made, "far", bytes_per_s=5_000_000, after_s=1.0)),
                asyncio.create_task(serve_web(made, "near", bytes_per_s=20_000_000, after_s=9.5)),
            ]
            # To list a large cluster takes some seconds.
            await asyncio.sleep(3.0)
            made.cluster.api.come_back()
            await asyncio.sleep(120.0)
            for each in reporting:
                each.cancel()
            await asyncio.gather(*reporting, return_exceptions=True)
            assert made.cluster.nodes_of("web") == ["node-a"] and made.cluster.most_active == 3
            assert rescheduler.rounds.last is not None and rescheduler.rounds.last.traffic_bytes == (5e6, 5e6)

    objects.run_fast(main())


async def serve_web(made: rescheduler_site.Site, name: str, *, bytes_per_s: int, after_s: float) -> None:
    """Report, every ten seconds, what a server exchanges with its client `web`."""
    (web,), (server,) = made.cluster.pods("web"), made.cluster.pods(name)
    node = server["spec"]["nodeName"]
    local, remote = (
        pod_telemetry.Endpoint(pod["status"]["podIPs"][0]["ip"], port) for pod, port in ((server, 80), (web, 0))
    )
    flow = pod_telemetry.PodFlow(server["metadata"]["uid"], local, remote, 10 * bytes_per_s, 0)
    await asyncio.sleep(after_s)
    for seq in itertools.count(1):
        found = pod_telemetry.PodTraffic(
            node=node, boot=objects.BOOT, seq=seq, ts_ns=made.clock.wall_ns(), interval_s=10.0, network="ab",
            flows=(flow,),
        )  # fmt: skip
        await made.bus.publish(subjects.traffic(node), wire.encode_traffic(found))
        await asyncio.sleep(10.0)


def test_events_that_come_a_moment_later_end_no_plan() -> None:
    """A move has ended before the informer has shown that its old Pod goes: not in the middle of a rollout."""

    async def main() -> None:
        async with rescheduler_site.site() as made:
            rescheduler = made.start("a", "--every-s", "60")
            loop, table = asyncio.get_running_loop(), rescheduler.known.pods
            put, remove = table.put, table.remove
            table.put = lambda *event: loop.call_later(1.0, put, *event)  # type: ignore[method-assign, assignment]
            table.remove = lambda key: loop.call_later(1.0, remove, key)  # type: ignore[method-assign, assignment]
            await asyncio.sleep(100.0)
            assert (made.on("node-a"), made.on("node-b")) == (6, 3)
            assert rescheduler.metrics.value("withdrawn_moves_total", {"reason": "rollout"}) is None

    objects.run_fast(main())


def test_what_the_scheduler_would_not_place_is_not_moved() -> None:
    async def main() -> None:
        async with rescheduler_site.site() as made:
            made.fits["node-b"] = 0
            rescheduler = made.start("a")
            await asyncio.sleep(60.0)
            assert made.on("node-a") == 9 and made.cluster.most_active == 9
            assert rescheduler.rounds.last is not None and rescheduler.rounds.last.moves == ()
            assert {each.detail for each in rescheduler.rounds.last.left_out} == {"capacity: full"}

    objects.run_fast(main())


def test_what_lives_shorter_than_a_move_pays_off_is_not_moved() -> None:
    async def main() -> None:
        async with rescheduler_site.site() as made:
            life_s = 500.0

            async def model(payload: bytes) -> bytes:
                found = {"pods": 9, "cost": {}, "lifetime_s": {"mean": life_s, "sd": 50.0}}
                return orjson.dumps({"evidence": {"ReplicaSet/default/web": found}})

            await made.bus.serve(
                buses.ServiceSpec(name="carico-aggregator", description="test", endpoints={"model.get": model})
            )
            rescheduler = made.start("a")
            await asyncio.sleep(60.0)
            plan = (await made.ask("plan.get"))["plan"]
            assert made.on("node-a") == 9 and plan["moves"] == [] and plan["verdict"] == "no move pays"
            assert {each["why"] for each in plan["left_out"]} == {"small"}
            # A start of five minutes, with a task of its own and that of the old Pod.
            assert plan["left_out"][0]["detail"].endswith("and pays back after 600 s, not within 500")
            assert (rescheduler.metrics.value("left_out_moves", {"reason": "small"}) or 0.0) >= 3.0
            life_s = 800.0
            await asyncio.sleep(60.0)
            assert made.on("node-a") == 6

    objects.run_fast(main())


def test_on_request_only_it_plans_and_moves_when_asked() -> None:
    async def main() -> None:
        async with rescheduler_site.site() as made:
            made.start("a", "--no-automatic")
            await asyncio.sleep(60.0)
            found = await made.ask("plan.get")
            assert len(found["plan"]["moves"]) == 3 and not found["automatic"]
            assert found["plan"]["overload_tasks"]["after"] == 0.0
            assert len((await made.ask("plan.get", {"most": 1}))["plan"]["moves"]) == 1
            assert made.on("node-a") == 9
            rounds = (await made.ask("control.apply", {"most": 2}))["rounds"]
            while (await made.ask("moves.list"))["rounds"] < rounds:
                await asyncio.sleep(0.5)
            assert (made.on("node-a"), made.on("node-b")) == (7, 2)

    objects.run_fast(main())


async def lead_in_between(made: rescheduler_site.Site, rescheduler: app.Rescheduler) -> None:
    """Another replica takes the Lease, and dies."""
    (lease,) = made.cluster.api.objects.all("leases", fake_cluster.EVERYTHING)
    lease["spec"] |= {"holderIdentity": "b", "leaseTransitions": 1}
    key = (lease["metadata"]["namespace"], lease["metadata"]["name"])
    made.cluster.api.objects.update("leases", key, lease, "test")
    while rescheduler.leadership.leads():
        await asyncio.sleep(0.1)


def test_a_request_ends_with_the_term_in_which_it_was_made() -> None:
    async def main() -> None:
        async with rescheduler_site.site() as made:
            rescheduler = made.start("a", "--no-automatic")
            is_to_calculate = asyncio.Event()

            async def aside(calculate: Callable[[], T]) -> T:
                await is_to_calculate.wait()
                return calculate()

            rescheduler.planner.aside = aside
            await asyncio.sleep(30.0)
            rescheduler.rounds.apply(planning.Question())
            await lead_in_between(made, rescheduler)
            is_to_calculate.set()
            await asyncio.sleep(120.0)
            assert rescheduler.leadership.leads() and made.on("node-a") == 9
            assert rescheduler.rounds.rests == "plans are carried out on request only"
            rescheduler.rounds.apply(planning.Question())
            await asyncio.sleep(30.0)
            assert made.on("node-a") == 6

    objects.run_fast(main())


def test_each_term_begins_with_what_another_one_has_left_however_long_the_pause_is() -> None:
    async def main() -> None:
        async with rescheduler_site.site(0) as made:
            rescheduler = made.start("a", "--every-s", "86400")
            while rescheduler.rounds.last is None:
                await asyncio.sleep(0.1)
            effects = reflection.Reflection().kept() | {"compared": [(4.0, 3.0)]}
            await rescheduler.rounds.parts.journal.note_effects(effects)
            await lead_in_between(made, rescheduler)
            rounds = rescheduler.rounds.ended
            await asyncio.sleep(120.0)
            assert rescheduler.leadership.leads() and rescheduler.rounds.ended > rounds
            assert rescheduler.rounds.reflection.kept()["compared"] == [(4.0, 3.0)]

    objects.run_fast(main())


def test_why_a_pod_was_moved_or_stays_is_answered_from_the_last_plan() -> None:
    async def main() -> None:
        async with rescheduler_site.site() as made:
            made.start("a")
            before = {each["metadata"]["name"] for each in made.cluster.pods()}
            while made.on("node-a") > 6:
                await asyncio.sleep(1.0)
            await asyncio.sleep(60.0)
            new = {each["metadata"]["name"] for each in made.cluster.pods()} - before
            assert len(new) == 3
            for name in new:
                found = await made.ask("pod.explain", {"namespace": "default", "pod": name})
                assert found["known"] and found["moved"]["from"] == "node-a"
                assert "fewer tasks above the ceiling" in found["moved"]["why"]
                assert found["stays"]["why"] == "young"
            gone = min(before - {each["metadata"]["name"] for each in made.cluster.pods()})
            found = await made.ask("pod.explain", {"namespace": "default", "pod": gone})
            assert not found["known"] and found["went"]["successor"] in new and found["went"]["from"] == "node-a"
            stays = next(iter(before & {each["metadata"]["name"] for each in made.cluster.pods()}))
            found = await made.ask("pod.explain", {"namespace": "default", "pod": stays})
            assert found["moved"] is found["stays"] is found["move"] is found["left_out"] is None
            unknown = await made.ask("pod.explain", {"namespace": "default", "pod": "no-such"})
            assert not unknown["known"] and unknown["went"] is None
            for wrong in ({}, {"namespace": "default"}, {"namespace": 1, "pod": 2}):
                with pytest.raises(errors.BusError, match="expected"):
                    await made.ask("pod.explain", wrong)

    objects.run_fast(main())


def test_a_plan_that_takes_long_is_answered_when_asked_again() -> None:
    async def main() -> None:
        async with rescheduler_site.site() as made:
            rescheduler = made.start("a", "--automatic=false")
            await asyncio.sleep(30.0)
            # Each plan is two calculations.
            calculated = 0

            async def long(calculate: Callable[[], T]) -> T:
                nonlocal calculated
                calculated += 1
                await asyncio.sleep(4.0)
                return calculate()

            rescheduler.planner.aside = long
            # Between two rounds.
            rounds = rescheduler.rounds.ended
            while rescheduler.rounds.ended == rounds:
                await asyncio.sleep(0.1)
            calculated = 0
            one, other = await asyncio.gather(made.ask("plan.get", {"most": 1}), made.ask("plan.get", {"most": 1}))
            assert one["plan"] is None and other["plan"] is None
            assert (await made.ask("plan.get", {"most": 1}))["plan"] is None
            assert len((await made.ask("plan.get", {"most": 1}))["plan"]["moves"]) == 1
            assert calculated == 2
            # Who never asks again leaves no plan that another one would take for new.
            assert (await made.ask("plan.get", {"most": 2}))["plan"] is None
            await asyncio.sleep(60.0)
            calculated = 0
            assert (await made.ask("plan.get", {"most": 2}))["plan"] is None
            assert calculated == 1
            # Queries begin few searches at the same time, whatever they ask for.
            questions = (made.ask("plan.get", {"most": most}) for most in range(2, 20))
            answers = await asyncio.gather(*questions, return_exceptions=True)
            refused = [str(each) for each in answers if isinstance(each, errors.BusError)]
            assert len(refused) == 14
            assert all("4 other plans are being made for queries: ask again in 15 s" in each for each in refused)

    objects.run_fast(main())


def test_what_takes_long_is_calculated_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    places: dict[str, bool] = {}
    is_aside = False

    def noted(name: str, plain: Callable[..., T]) -> Callable[..., T]:
        def call(*args: object, **changes: object) -> T:
            places[name] = is_aside
            return plain(*args, **changes)

        return call

    for module, name in ((traffic, "joined"), (traffic, "flows"), (contexts, "build"), (generator, "curves")):
        monkeypatch.setattr(module, name, noted(name, getattr(module, name)))

    async def main() -> None:
        async with rescheduler_site.site() as made:
            rescheduler = made.start("a", "--automatic=false")

            async def aside(calculate: Callable[[], T]) -> T:
                nonlocal is_aside
                is_aside = True
                found = calculate()
                is_aside = False
                return found

            rescheduler.planner.aside = aside
            await asyncio.sleep(30.0)
            assert places == dict.fromkeys(("joined", "flows", "build", "curves"), True)

    objects.run_fast(main())


def test_plans_aim_at_what_the_named_algorithm_finds() -> None:
    async def main() -> None:
        async with rescheduler_site.site() as made:
            made.start("a", "--automatic=false")
            await asyncio.sleep(30.0)
            for name in ("carico", "ws-sa", "ws-sa-bn", "ws-sa-pn", "threshold"):
                plan = (await made.ask("plan.get", {"algorithm": name}))["plan"]
                # The least overload is none; thresholds look at requests alone, of which there are none.
                assert (plan["overload_tasks"]["after"] == 0.0) is (name != "threshold"), name

    objects.run_fast(main())


def test_paused_it_moves_nothing_and_a_later_leader_neither() -> None:
    async def main() -> None:
        async with rescheduler_site.site() as made:
            made.start("a", "--no-automatic")
            await asyncio.sleep(30.0)
            assert (await made.ask("control.pause"))["paused"] is True
            with pytest.raises(errors.BusError, match="paused since"):
                await made.ask("control.apply")
            await made.stop("a")
            made.start("b")
            await asyncio.sleep(60.0)
            assert made.on("node-a") == 9
            await made.ask("control.resume")
            await asyncio.sleep(60.0)
            assert made.on("node-a") == 6

    objects.run_fast(main())


def test_questions_of_readers_are_none_to_the_api() -> None:
    async def main() -> None:
        async with rescheduler_site.site() as made:
            made.start("a", "--no-automatic", "--every-s", "600")
            await asyncio.sleep(30.0)
            before = len(made.cluster.api.requests)
            for _ in range(20):
                assert (await made.ask("moves.list"))["paused"] == ""
            assert not [each for each in made.cluster.api.requests[before:] if "configmaps" in each]
            await made.ask("control.pause")
            assert (await made.ask("moves.list"))["paused"].startswith("paused since")

    objects.run_fast(main())


def test_one_of_two_moves_and_the_other_continues_what_it_left() -> None:
    async def main() -> None:
        async with rescheduler_site.site() as made:
            first, second = made.start("a"), made.start("b")
            while first.executor.current is None and second.executor.current is None:
                await asyncio.sleep(0.1)
            leader = "a" if first.leadership.leads() else "b"
            other = second if leader == "a" else first
            assert not other.leadership.leads() and other.executor.current is None
            # It dies without a word.
            made.running.pop(leader)[2].cancel()
            await asyncio.sleep(120.0)
            assert made.on("node-a") == 6 and made.cluster.marks() == []
            assert made.cluster.fewest_ready == 9 and made.cluster.most_active == 10
            assert other.leadership.leads()

    objects.run_fast(main())


@pytest.mark.parametrize("is_silent", [False, True], ids=["disconnected", "silent"])
def test_a_leader_that_is_cut_off_from_nats_ends_its_move_and_offers_the_lease(is_silent: bool) -> None:
    async def main() -> None:
        async with rescheduler_site.site() as made:
            first = made.start("a")
            while not first.leadership.leads():
                await asyncio.sleep(0.1)
            second = made.start("b")
            made.cluster.gets_ready = lambda pod: False
            while first.executor.current is None:
                await asyncio.sleep(0.1)
            made.members["a"].is_cut, made.members["a"].is_silent = True, is_silent
            await asyncio.sleep(40.0)
            assert first.leadership.leads() and first.executor.current is not None
            made.cluster.gets_ready = lambda pod: True
            await asyncio.sleep(15.0)
            assert [each.state.value for each in first.executor.ended] == ["moved"]
            assert second.leadership.leads() and not first.leadership.leads()
            # First, the next leader measures the effect of that move.
            await asyncio.sleep(300.0)
            assert made.on("node-a") == 6 and made.cluster.marks() == [] and made.cluster.fewest_ready == 9

    objects.run_fast(main())


def test_a_stop_leaves_nothing_half_done() -> None:
    async def main() -> None:
        async with rescheduler_site.site() as made:
            made.cluster.gets_ready = lambda pod: False
            rescheduler = made.start("a")
            while rescheduler.executor.current is None:
                await asyncio.sleep(0.1)
            await made.stop("a")
            assert made.cluster.marks() == [] and made.on("node-a") == 9

    objects.run_fast(main())


@pytest.mark.parametrize("is_cut_off", [False, True])
def test_the_lease_is_kept_if_the_move_under_way_could_not_be_undone(is_cut_off: bool) -> None:
    async def main() -> None:
        async with rescheduler_site.site() as made:
            made.cluster.gets_ready = lambda pod: False
            rescheduler = made.start("a")
            while rescheduler.executor.current is None:
                await asyncio.sleep(0.1)
            refused = errors.Conflict(status=409, reason="Conflict", message="changed", request="DELETE")
            for _ in range(30 if is_cut_off else 0):
                made.cluster.api.fail_next(refused, method="DELETE", path="/pods/")
            await made.stop("a")
            (lease,) = made.cluster.api.objects.all("leases", fake_cluster.EVERYTHING)
            assert lease["spec"].get("holderIdentity") == ("a" if is_cut_off else "")
            assert len(made.cluster.marks()) == int(is_cut_off)

    objects.run_fast(main())


@pytest.mark.parametrize("question", [b"[]", b"{", b'{"most": -1}', b'{"most": true}', b'{"most": "x"}'])
def test_a_wrong_question_is_refused(question: bytes) -> None:
    async def main() -> None:
        async with rescheduler_site.site() as made:
            made.start("a", "--no-automatic")
            await asyncio.sleep(30.0)
            with pytest.raises(errors.BusError, match="expected"):
                await made.bus.request(subjects.query("rescheduler", "plan.get"), question, timeout_s=5.0)

    objects.run_fast(main())


def test_it_is_ready_once_it_knows_the_cluster() -> None:
    async def main() -> None:
        async with rescheduler_site.site() as made:
            made.cluster.api.go_away()
            rescheduler = made.start("a")
            await asyncio.sleep(10.0)
            assert "Pods" in rescheduler.health.not_ready()["kubernetes"]
            made.cluster.api.come_back()
            await asyncio.sleep(30.0)
            assert rescheduler.health.not_ready() == {}

    objects.run_fast(main())


def test_a_move_that_fails_is_not_tried_again_at_once() -> None:
    async def main() -> None:
        async with rescheduler_site.site() as made:
            # The scheduler would place the new Pods, but none becomes ready.
            made.cluster.gets_ready = lambda pod: False
            rescheduler = made.start("a", "--start-s", "10", "--moves-per-hour", "1000")
            await asyncio.sleep(600.0)
            kept = [each for each in rescheduler.executor.ended if each.detail.startswith("the new Pod was not ready")]
            # One try, and then ten minutes of rest for all replicas.
            assert len(kept) == 1
            assert made.cluster.fewest_ready == 9 and made.cluster.marks() == []

    objects.run_fast(main())


def test_evictions_and_failures_are_remembered_by_the_next_leader() -> None:
    async def main() -> None:
        async with rescheduler_site.site() as made:
            flags = ("--mode", "evict", "--moves-per-hour", "2", "--start-s", "10", "--every-s", "60")
            first = made.start("a", *flags)
            # The scheduler of the site chooses the first node again: the move has failed, and the replicas rest.
            while not first.executor.ended:
                await asyncio.sleep(0.5)
            assert first.executor.ended[0].detail == "the scheduler chose node-a"
            made.running.pop("a")[2].cancel()
            second = made.start("b", *flags)
            await asyncio.sleep(120.0)
            assert second.leadership.leads() and not second.executor.ended
            plan = (await made.ask("plan.get"))["plan"]
            assert plan["skipped_pods"] == {"failed": 9}
            assert second.planner._parts.journal.moves_of_the_hour() == 1
            await asyncio.sleep(600.0)
            assert len(second.executor.ended) == 1
            # An hour has room for two; the load is steady.
            made.cluster.every_s, made.report_every_s = 60.0, 9.0
            await asyncio.sleep(1500.0)
            assert len(second.executor.ended) == 1
            assert second.rounds.rests == "the budget of moves is used up"

    objects.run_fast(main())


def test_a_pod_that_the_scheduler_places_elsewhere_gains_nothing_and_ends_the_plan() -> None:
    async def main() -> None:
        async with rescheduler_site.site() as made:
            # The scheduler of the site chooses the first node, which no plan does: it is overloaded.
            made.cluster.add_node("node-0")
            made.cluster.add_deployment("busy", ["node-0", "node-0"], schedulerName="other")
            made.loads["busy"] = pod_telemetry.PodLoad("*", 4.0, 0.0, 2.0**20)
            rescheduler = made.start("a", "--mode", "evict", "--every-s", "60")
            while not rescheduler.executor.ended:
                await asyncio.sleep(0.5)
            plan = rescheduler.rounds.last
            assert plan is not None and {each.target for each in plan.moves} == {"node-b"} and len(plan.moves) > 1
            await asyncio.sleep(300.0)
            (moved,) = rescheduler.executor.ended
            assert (moved.state.value, moved.target) == ("moved", "node-0")
            assert not rescheduler.metrics.value("predicted_gain_total")
            assert not rescheduler.rounds.reflection.is_settling()
            # The next replica would end there, too.
            assert (await made.ask("plan.get"))["plan"]["skipped_pods"]["failed"] >= 8

    objects.run_fast(main())


def test_moves_before_an_outage_are_measured_as_well() -> None:
    async def main() -> None:
        async with rescheduler_site.site() as made:
            rescheduler = made.start("a", "--every-s", "600")
            while not rescheduler.executor.ended:
                await asyncio.sleep(0.2)
            # The first of three moves has been made; the API goes away with the next new Pod.
            made.cluster.api.fail_next(errors.ApiUnavailable("away"), method="POST", path="/pods")
            while "the API does not answer" not in rescheduler.rounds.rests:
                await asyncio.sleep(0.1)
            assert rescheduler.rounds.reflection.is_settling()
            assert (rescheduler.metrics.value("predicted_gain_total") or 0.0) > 0.0

    objects.run_fast(main())


def test_the_next_leader_measures_a_plan_before_it_makes_another() -> None:
    async def main() -> None:
        async with rescheduler_site.site() as made:
            first = made.start("a", "--every-s", "60")
            while not first.rounds.reflection.is_settling():
                await asyncio.sleep(0.2)
            await asyncio.sleep(1.0)
            made.running.pop("a")[2].cancel()
            second = made.start("b", "--every-s", "60")
            while second.rounds.last is None:
                await asyncio.sleep(0.5)
            await asyncio.sleep(1.0)
            assert second.rounds.rests == "the effect of the last plan is still to be measured"
            while second.rounds.reflection.is_settling():
                await asyncio.sleep(0.5)
            assert len(second.rounds.reflection.kept()["compared"]) == 1

    objects.run_fast(main())


def test_a_cluster_that_is_too_large_for_a_plan_is_not_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(generator.PAIRS_MOST, generator.CARICO, 20)

    async def main() -> None:
        async with rescheduler_site.site() as made:
            rescheduler = made.start("a")
            await asyncio.sleep(30.0)
            assert rescheduler.rounds.rests.startswith("the cluster is too large for a plan: got 9 Pods and 2 nodes")
            with pytest.raises(errors.BusError, match="too large"):
                await made.ask("plan.get")

    objects.run_fast(main())


def test_effects_are_measured_once_the_window_of_traffic_has_passed() -> None:
    assert reflection.SETTLE_S >= traffic.WINDOW_S + 10.0
