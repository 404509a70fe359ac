"""Moves by surge against a model of Kubernetes' controllers: complete, undone, and cut off at any request."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from carico_core.domain import errors, names
from carico_core.runtime.observe import metrics
from carico_core.runtime.process import clock as clocks
from carico_rescheduler import instruments, journal
from carico_rescheduler.adapter import informers
from carico_rescheduler.context import cluster as clusters
from carico_rescheduler.context import movable
from carico_rescheduler.moves import executor, surge, surge_pod, surge_steps
from carico_rescheduler.moves import record as records
from carico_rescheduler.plan import decision
from tests.unit.rescheduler import cluster_objects, fake_cluster
from tests.unit.scheduler import objects

LIMITS = surge_steps.StepTimes(place_s=30.0, start_s=120.0, choose_s=20.0)


class Crash(errors.CaricoError):
    """The process ends here."""


class Cut:
    """The API of a process that ends right before or right after its nth write."""

    def __init__(self, api: Any, *, at: int | None = None, is_sent: bool = False) -> None:
        self._api, self._at, self._is_sent = api, at, is_sent
        self.writes: list[str] = []

    async def request(self, method: str, path: str, **rest: Any) -> Any:
        """Pass on, or crash."""
        if method == "GET":
            return await self._api.request(method, path, **rest)
        self.writes.append(f"{method} {path}")
        ends = len(self.writes) == self._at
        if ends and not self._is_sent:
            raise Crash("before")
        answer = await self._api.request(method, path, **rest)
        if ends:
            raise Crash("after")
        return answer


class Ahead:
    """A clock whose wall time is ahead of another one's."""

    def __init__(self, clock: clocks.Clock, ahead_s: float) -> None:
        self._ahead_ns = round(ahead_s * 1e9)
        self.monotonic_s, self._wall_ns = clock.monotonic_s, clock.wall_ns

    def wall_ns(self) -> int:
        """The wall time of this machine."""
        return self._wall_ns() + self._ahead_ns


class Scene:
    """Two nodes, an application of some replicas on the first, and processes that move them."""

    def __init__(self, replicas: int = 3, **spec: Any) -> None:
        self.clock = objects.LoopClock(asyncio.get_running_loop())
        self.cluster = fake_cluster.FakeCluster(self.clock)
        for name in ("node-a", "node-b"):
            self.cluster.add_node(name)
        self.cluster.add_deployment("web", ["node-a"] * replicas, **spec)
        self.known = clusters.Cluster()
        self.counted = instruments.Instruments(metrics.Metrics("rescheduler"))
        self.journal = journal.Journal(
            api=self.cluster.api, namespace="carico", clock=self.clock, permit=lambda: None
        )  # fmt: skip
        # How far the wall clock of the rescheduler's machine is ahead of all others.
        self.ahead_s = 0.0

    def process(
        self, *, at: int | None = None, is_sent: bool = False, leads: Callable[[], bool] = lambda: True,
        mode: movable.Mode = movable.Mode.SURGE,
    ) -> executor.Executor:  # fmt: skip
        """An executor with an API of its own."""

        def permit() -> None:
            if not leads():
                raise records.NotLeading("not leading")

        self.cut = Cut(self.cluster.api, at=at, is_sent=is_sent)
        parts = executor.Parts(
            api=self.cut, known=self.known, clock=Ahead(self.clock, self.ahead_s), metrics=self.counted, permit=permit,
            mode=mode, limits=LIMITS, journal=self.journal,
        )  # fmt: skip
        return executor.Executor(parts)

    def move(self, target: str = "node-b") -> decision.Move:
        """The move of the application's first Pod."""
        pod = min((each for each in self.known.pods.found.values()), key=lambda each: each.pod.name)
        return decision.Move(
            pod=pod,
            source="node-a",
            target=target,
            bytes_per_s=1e6,
            tasks=0.0,
            gain=0.5,
            cost_task_s=1.0,
            horizon_s=3600.0,
        )

    def is_at_rest(self, replicas: int = 3) -> bool:
        """Whether nothing of a move is left."""
        return len(self.cluster.pods("web")) == replicas and not self.cluster.marks()


@contextlib.asynccontextmanager
async def scene(replicas: int = 3, **spec: Any) -> AsyncIterator[Scene]:
    """A scene whose controllers and informers are at work."""
    made = Scene(replicas, **spec)
    following = informers.Informers(made.cluster.api, into=made.known, clock=made.clock, metrics=made.counted)
    works = [asyncio.create_task(each) for each in (*following.works().values(), made.cluster.act_forever())]
    while following.away():
        await asyncio.sleep(0.01)
    yield made
    for each in works:
        each.cancel()
    await asyncio.gather(*works, return_exceptions=True)


def test_the_new_pod_is_ready_before_the_old_one_goes() -> None:
    async def main() -> None:
        async with scene() as made:
            move = made.move()
            ended = await made.process().run(move)
            assert (ended.state, ended.detail) == (records.State.MOVED, "the new Pod has its place")
            await asyncio.sleep(1.0)
            assert made.cluster.nodes_of("web") == ["node-a", "node-a", "node-b"]
            assert move.pod.pod.name not in [each["metadata"]["name"] for each in made.cluster.pods()]
            assert (made.cluster.fewest_ready, made.cluster.most_active) == (3, 4)
            assert made.is_at_rest()

    objects.run_fast(main())


def test_the_replica_set_adopts_a_moved_pod_whose_class_has_not_changed() -> None:
    async def main() -> None:
        async with scene() as made:
            move = made.move()
            before = names_of_classes(made)
            await made.process().run(move)
            await asyncio.sleep(1.0)
            (moved,) = [each for each in made.known.pods.found.values() if each.replaces]
            assert moved.pod.owner is not None and moved.pod.owner.kind == "ReplicaSet"
            assert moved.moved_at_s is not None and moved.replaces == move.pod.uid
            assert names_of_classes(made) == before

    objects.run_fast(main())


@pytest.mark.parametrize("ahead_s", [3600.0, -3600.0])
def test_a_clock_that_differs_from_the_apis_undoes_no_move(ahead_s: float) -> None:
    async def main() -> None:
        async with scene() as made:
            replica_set = made.cluster.replica_set("web")
            replica_set["spec"]["minReadySeconds"] = 5
            key = (replica_set["metadata"]["namespace"], replica_set["metadata"]["name"])
            made.cluster.api.objects.update("replicasets", key, replica_set, "test")
            await asyncio.sleep(0.1)
            made.ahead_s = ahead_s
            moving = asyncio.create_task(made.process().run(made.move()))
            await asyncio.sleep(4.0)
            assert not moving.done() and len(made.cluster.pods("web")) == 4
            assert (await moving).state is records.State.MOVED
            await asyncio.sleep(1.0)
            assert made.is_at_rest() and made.cluster.fewest_ready == 3

    objects.run_fast(main())


def test_a_move_lists_no_pods() -> None:
    async def main() -> None:
        async with scene() as made:
            before = len(made.cluster.api.requests)
            assert (await made.process().run(made.move())).state is records.State.MOVED
            read = {each for each in made.cluster.api.requests[before:] if each.startswith("GET")}
            # The two Pods, the template, and what is noted of moves.
            assert len(read) == 3 and not [each for each in read if each.endswith("/pods")]

    objects.run_fast(main())


def names_of_classes(made: Scene) -> set[str]:
    """The classes of all Pods."""
    from carico_core.domain import names

    return {names.class_of(each.pod) for each in made.known.pods.found.values()}


@pytest.mark.parametrize("is_sent", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("write", [1, 2, 3])
def test_a_process_that_dies_at_any_write_leaves_nothing(write: int, is_sent: bool) -> None:
    async def main() -> None:
        async with scene() as made:
            with pytest.raises(Crash):
                await made.process(at=write, is_sent=is_sent).run(made.move())
            # Nobody is there for a while: no replica is missing.
            await asyncio.sleep(10.0)
            assert made.cluster.fewest_ready == 3 and made.cluster.most_active <= 4
            await made.process().recover()
            await asyncio.sleep(1.0)
            assert made.is_at_rest() and made.cluster.fewest_ready == 3
            # All that an earlier process has begun is found once only.
            assert await made.process().recover() == 0

    objects.run_fast(main())


@pytest.mark.parametrize("write", [1, 2])
def test_a_process_that_dies_while_it_undoes_leaves_nothing(write: int) -> None:
    async def main() -> None:
        async with scene() as made:
            with pytest.raises(Crash):
                await made.process(at=3).run(made.move())
            # The next one stops at once, so that it undoes what it finds, and dies as well.
            undoing = made.process(at=write)
            undoing.stop()
            with pytest.raises(Crash):
                await undoing.recover()
            await asyncio.sleep(5.0)
            await made.process().recover()
            await asyncio.sleep(1.0)
            assert made.is_at_rest() and made.cluster.fewest_ready == 3

    objects.run_fast(main())


def test_without_room_on_the_target_the_new_pod_is_removed() -> None:
    async def main() -> None:
        async with scene() as made:
            made.cluster.open.discard("node-b")
            ended = await made.process().run(made.move())
            assert (ended.state, ended.detail) == (records.State.KEPT, "no room on node-b within 30 s")
            assert made.is_at_rest() and made.cluster.nodes_of("web") == ["node-a"] * 3

    objects.run_fast(main())


def test_a_new_pod_that_does_not_become_ready_is_removed() -> None:
    async def main() -> None:
        async with scene() as made:
            made.cluster.gets_ready = lambda pod: False
            ended = await made.process().run(made.move())
            assert (ended.state, ended.detail) == (records.State.KEPT, "the new Pod was not ready within 120 s")
            assert made.is_at_rest() and made.cluster.fewest_ready == 3

    objects.run_fast(main())


def test_no_pod_goes_while_another_replica_is_not_ready() -> None:
    async def main() -> None:
        async with scene() as made:
            move = made.move()
            moving = asyncio.create_task(made.process().run(move))
            await asyncio.sleep(0.5)
            (other, _) = [
                each
                for each in made.cluster.pods("web")
                if "pod-template-hash" in each["metadata"]["labels"] and each["metadata"]["uid"] != move.pod.uid
            ]
            other["status"] = {"phase": "Running"}
            made.cluster.gets_ready = lambda pod: pod["metadata"]["name"] != other["metadata"]["name"]
            made.cluster._put(other)
            await asyncio.sleep(20.0)
            assert len(made.cluster.pods("web")) == 4 and not moving.done()
            made.cluster.gets_ready = lambda pod: True
            assert (await moving).state is records.State.MOVED
            await asyncio.sleep(1.0)
            assert made.is_at_rest()

    objects.run_fast(main())


@pytest.mark.parametrize("is_stopped", [False, True], ids=["followed", "stopped"])
@pytest.mark.parametrize("is_deleted", [False, True], ids=["unready", "deleted"])
def test_a_new_pod_stays_whose_old_one_fails_meanwhile(is_deleted: bool, is_stopped: bool) -> None:
    """Its node dies, and minutes later is given up, or drained: the new Pod is the only one that is ready."""

    async def main() -> None:
        async with scene(replicas=1) as made:
            move = made.move()
            surge_name = surge_pod.name_of(f"web-{fake_cluster.HASH}", move.pod.uid)
            is_ready = False
            made.cluster.gets_ready = lambda pod: is_ready and pod["metadata"]["name"] == surge_name
            process = made.process()
            moving = asyncio.create_task(process.run(move))
            await asyncio.sleep(2.1)
            is_ready = True
            made.cluster.turn()
            (old,) = [each for each in made.cluster.pods("web") if each["metadata"]["uid"] == move.pod.uid]
            made.cluster.make_unready(old, is_deleted=is_deleted)
            made.cluster.turn()
            # The ReplicaSet creates another for one that is deleted.
            assert len(made.cluster.pods("web")) == 2 + is_deleted
            made.cluster.fewest_ready = 10
            if is_stopped:
                process.stop()
            async with asyncio.timeout(10.0):
                assert (await moving).state is records.State.MOVED
            if is_deleted:
                made.cluster.api.objects.delete("pods", ("default", move.pod.pod.name), {}, "test")
            await asyncio.sleep(3.0 * LIMITS.start_s)
            assert made.cluster.fewest_ready == 1 and made.is_at_rest(1)
            assert [each["metadata"]["name"] for each in made.cluster.pods("web")] == [surge_name]

    objects.run_fast(main())


def test_a_new_pod_goes_once_the_replica_set_has_replaced_the_old_one() -> None:
    async def main() -> None:
        async with scene(replicas=1) as made:
            move = made.move()
            surge_name = surge_pod.name_of(f"web-{fake_cluster.HASH}", move.pod.uid)
            made.cluster.gets_ready = lambda pod: pod["metadata"]["name"] != surge_name
            moving = asyncio.create_task(made.process().run(move))
            await asyncio.sleep(2.0)
            made.cluster.api.objects.delete("pods", ("default", move.pod.pod.name), {}, "test")
            ended = await moving
            assert (ended.state, ended.detail) == (records.State.KEPT, "the old Pod is gone")
            assert made.is_at_rest(1) and made.cluster.nodes_of("web") == ["node-a"]

    objects.run_fast(main())


def test_a_move_that_is_undone_keeps_the_new_pod_if_the_old_one_fails() -> None:
    async def main() -> None:
        async with scene(replicas=1) as made:
            move = made.move()
            process = made.process(at=3)
            with pytest.raises(Crash):
                await process.run(move)
            undoing = made.process()
            refused = errors.Conflict(status=409, reason="Conflict", message="changed", request="DELETE")
            for _ in range(5):
                made.cluster.api.fail_next(refused, method="DELETE", path="/pods/")
            undoing.stop()
            recovering = asyncio.create_task(undoing.recover())
            while undoing.current is None or undoing.current.state is not records.State.UNDOING:
                await asyncio.sleep(0.1)
            made.cluster.gets_ready = lambda pod: False
            (old,) = [each for each in made.cluster.pods("web") if each["metadata"]["uid"] == move.pod.uid]
            made.cluster.make_unready(old)
            made.cluster.fewest_ready = 10
            await recovering
            await asyncio.sleep(1.0)
            assert made.cluster.fewest_ready == 1 and made.is_at_rest(1)
            assert made.cluster.nodes_of("web") == ["node-b"]

    objects.run_fast(main())


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [(3, surge_steps.Action.MARK), (2, surge_steps.Action.WAIT), (4, surge_steps.Action.WAIT)],
)
def test_no_pod_goes_while_its_replica_set_has_to_create_or_delete_others(
    wanted: int, expected: surge_steps.Action
) -> None:
    """It would count the new Pod for one that it has to create, or choose another one to delete."""
    known = clusters.Cluster()
    pods = cluster_objects.deploy(known, "web", ["node-a"] * 3)
    new = objects.make_pod("web-new", node_name="node-b", phase="Running", labels={names.SURGE_LABEL: "true"})
    view = surge_steps.View(
        surge=cluster_objects.put(known, new), old=pods[0], pods=pods, wanted=wanted, has_replica_set=True,
        least_ready_s=0.0, target="node-b",
    )  # fmt: skip
    waited = surge_steps.Waited(seen_s=1.0, ready_s=1.0)
    assert surge_steps.next_action(view, LIMITS, waited, is_stopping=False)[0] is expected


@pytest.mark.parametrize("replicas", [1, 2, 5])
def test_an_autoscaler_may_change_the_replicas_meanwhile(replicas: int) -> None:
    async def main() -> None:
        async with scene() as made:
            moving = asyncio.create_task(made.process().run(made.move()))
            await asyncio.sleep(0.15)
            made.cluster.scale("web", replicas)
            ended = await moving
            await asyncio.sleep(5.0)
            assert ended.state in records.ENDED
            assert made.is_at_rest(replicas)

    objects.run_fast(main())


def test_a_deployment_that_is_scaled_to_none_ends_the_move() -> None:
    async def main() -> None:
        async with scene() as made:
            made.cluster.gets_ready = lambda pod: False
            moving = asyncio.create_task(made.process().run(made.move()))
            await asyncio.sleep(2.0)
            made.cluster.scale("web", 0)
            ended = await moving
            assert ended.state is records.State.KEPT and made.cluster.pods("web") == []

    objects.run_fast(main())


def test_a_process_that_does_not_lead_any_more_writes_nothing() -> None:
    async def main() -> None:
        async with scene() as made:
            leads = [True]
            moving = asyncio.create_task(made.process(leads=lambda: leads[0]).run(made.move()))
            await asyncio.sleep(0.05)
            leads[0] = False
            with pytest.raises(records.NotLeading):
                await moving
            assert made.cut.writes == ["POST /api/v1/namespaces/default/pods", made.cut.writes[-1]]
            await made.process().recover()
            await asyncio.sleep(1.0)
            assert made.is_at_rest()

    objects.run_fast(main())


def test_a_stop_undoes_the_move_under_way() -> None:
    async def main() -> None:
        async with scene() as made:
            made.cluster.gets_ready = lambda pod: False
            process = made.process()
            moving = asyncio.create_task(process.run(made.move()))
            await asyncio.sleep(2.0)
            process.stop()
            ended = await moving
            assert (ended.state, ended.detail) == (records.State.KEPT, "the rescheduler stops")
            assert made.is_at_rest()

    objects.run_fast(main())


def test_an_own_deletion_cost_is_kept() -> None:
    async def main() -> None:
        async with scene() as made:
            for pod in made.cluster.pods("web"):
                pod["metadata"]["annotations"] = {"controller.kubernetes.io/pod-deletion-cost": "7"}
                made.cluster._put(pod)
            await asyncio.sleep(0.1)
            with pytest.raises(Crash):
                await made.process(at=3).run(made.move())
            undoing = made.process()
            undoing.stop()
            await undoing.recover()
            costs = {
                each["metadata"]["annotations"].get("controller.kubernetes.io/pod-deletion-cost")
                for each in made.cluster.pods("web")
            }
            assert costs == {"7"}

    objects.run_fast(main())


def test_an_api_that_is_away_for_a_while_delays_a_move() -> None:
    async def main() -> None:
        async with scene() as made:
            moving = asyncio.create_task(made.process().run(made.move()))
            await asyncio.sleep(0.5)
            made.cluster.api.go_away()
            await asyncio.sleep(15.0)
            assert not moving.done()
            made.cluster.api.come_back()
            assert (await moving).state is records.State.MOVED
            await asyncio.sleep(1.0)
            assert made.is_at_rest()

    objects.run_fast(main())


def test_the_time_in_which_the_api_is_away_undoes_no_move() -> None:
    """Nothing could place the new Pod meanwhile, whatever room there was."""

    async def main() -> None:
        async with scene() as made:
            # A scheduler that does not hear from the API either.
            made.cluster.open.discard("node-b")
            moving = asyncio.create_task(made.process().run(made.move()))
            await asyncio.sleep(2.0)
            made.cluster.api.go_away()
            await asyncio.sleep(LIMITS.place_s + 30.0)
            made.cluster.api.come_back()
            await asyncio.sleep(5.0)
            made.cluster.open.add("node-b")
            assert (await moving).state is records.State.MOVED
            await asyncio.sleep(1.0)
            assert made.is_at_rest()

    objects.run_fast(main())


def test_a_mark_whose_new_pod_someone_has_deleted_is_taken_off() -> None:
    async def main() -> None:
        async with scene() as made:
            with pytest.raises(Crash):
                await made.process(at=3).run(made.move())
            (surge_pod,) = [
                each
                for each in made.cluster.marks()
                if "ownerReferences" in each["metadata"]
                and "carico.dev/surge-template-hash" in each["metadata"]["labels"]
            ]
            key = (surge_pod["metadata"]["namespace"], surge_pod["metadata"]["name"])
            made.cluster.api.objects.delete("pods", key, {}, "test")
            await asyncio.sleep(1.0)
            assert len(made.cluster.marks()) == 1
            assert await made.process().recover() == 1
            assert made.is_at_rest()

    objects.run_fast(main())


def test_what_is_being_undone_is_not_begun_again() -> None:
    async def main() -> None:
        async with scene() as made:
            made.cluster.open.discard("node-b")
            process = made.process()
            moving = asyncio.create_task(process.run(made.move()))
            # The new Pod is to be deleted, which fails; then there is room for it.
            refused = errors.Conflict(status=409, reason="Conflict", message="changed", request="DELETE")
            for _ in range(5):
                made.cluster.api.fail_next(refused, method="DELETE", path="/pods/")
            while process.current is None or process.current.state is not records.State.UNDOING:
                await asyncio.sleep(0.1)
            made.cluster.open.add("node-b")
            ended = await moving
            assert (ended.state, ended.detail[:7]) == (records.State.KEPT, "no room")
            assert made.is_at_rest()

    objects.run_fast(main())


def test_a_right_that_is_taken_away_leaves_the_move_to_a_later_process() -> None:
    async def main() -> None:
        async with scene() as made:
            refused = errors.Forbidden(status=403, reason="Forbidden", message="no right", request="PATCH")
            for _ in range(surge.REFUSALS_MOST):
                made.cluster.api.fail_next(refused, method="PATCH", path="/pods")
            ended = await made.process().run(made.move())
            assert ended.state is records.State.KEPT and "the API refuses" in ended.detail
            assert made.cluster.marks() and made.cluster.fewest_ready == 3
            await made.process().recover()
            await asyncio.sleep(1.0)
            assert made.is_at_rest()

    objects.run_fast(main())


def test_what_the_api_refuses_is_not_moved() -> None:
    async def main() -> None:
        async with scene() as made:
            refused = errors.Forbidden(status=403, reason="Forbidden", message="exceeded quota", request="POST")
            made.cluster.api.fail_next(refused, method="POST", path="/pods")
            ended = await made.process().run(made.move())
            assert (ended.state, ended.detail) == (records.State.KEPT, "the API refuses the new Pod: exceeded quota")
            assert made.is_at_rest()

    objects.run_fast(main())


@pytest.mark.parametrize("is_resumed", [False, True], ids=["followed", "resumed"])
def test_a_new_pod_that_its_node_refuses_is_deleted(is_resumed: bool) -> None:
    async def main() -> None:
        async with scene() as made:
            made.cluster.gets_ready = lambda pod: False
            process = made.process(at=2 if is_resumed else None)
            moving = asyncio.create_task(process.run(made.move()))
            await asyncio.sleep(2.0)
            (refused,) = made.cluster.marks()
            # As a kubelet without room for it does.
            refused["status"] = {"phase": "Failed", "reason": "OutOfcpu"}
            made.cluster._put(refused)
            if is_resumed:
                with pytest.raises(Crash):
                    await moving
                await made.process().recover()
            else:
                ended = await moving
                assert (ended.state, ended.detail) == (records.State.KEPT, "the new Pod has ended on node-b")
            assert made.is_at_rest() and made.cluster.fewest_ready == 3
            # Its name is free for the next try.
            made.cluster.gets_ready = lambda pod: True
            await asyncio.sleep(0.5)
            assert (await made.process().run(made.move())).state is records.State.MOVED

    objects.run_fast(main())


class Late:
    """An API that loses the answer of a write, which takes effect right before the next one."""

    def __init__(self, made: Scene, *, at: int) -> None:
        self._made, self._at, self._count = made, at, 0
        self._late: Callable[[], Any] | None = None

    async def request(self, method: str, path: str, **rest: Any) -> Any:
        """Pass on, keep back, or pass on two."""
        api = self._made.cluster.api
        self._count += method != "GET"
        if method != "GET" and self._count == self._at:
            self._late = lambda: api.request(method, path, **rest)
            raise errors.ApiSilent("no answer in time")
        if method != "GET" and self._late is not None:
            late, self._late = self._late, None
            await late()
            self._made.cluster.turn()
        return await api.request(method, path, **rest)


def test_a_move_that_takes_effect_while_it_is_undone_has_moved_the_pod() -> None:
    async def main() -> None:
        async with scene() as made:
            process = made.process()
            process._surge._api = Late(made, at=3)
            moving = asyncio.create_task(process.run(made.move()))
            while process.current is None or "no answer" not in process.current.detail:
                await asyncio.sleep(0.1)
            # The new Pod has its label before the mark is taken off the old one, which is deleted.
            process.stop()
            assert (await moving).state is records.State.MOVED
            await asyncio.sleep(1.0)
            assert made.is_at_rest() and made.cluster.nodes_of("web") == ["node-a", "node-a", "node-b"]

    objects.run_fast(main())


def test_a_refusal_that_lasts_ends_a_move() -> None:
    async def main() -> None:
        async with scene() as made:
            # As a webhook may answer.
            refused = errors.Invalid(status=422, reason="Invalid", message="no marks here", request="PATCH")
            for _ in range(2 * surge.REFUSALS_MOST):
                made.cluster.api.fail_next(refused, method="PATCH", path="/pods")
            async with asyncio.timeout(60.0):
                ended = await made.process().run(made.move())
            assert ended.state is records.State.KEPT and "no marks here" in ended.detail

    objects.run_fast(main())


def test_pods_rest_after_a_failed_move_that_was_resumed() -> None:
    async def main() -> None:
        async with scene() as made:
            made.cluster.open.discard("node-b")
            with pytest.raises(Crash):
                await made.process(at=2).run(made.move())
            await made.process().recover()
            owner = made.cluster.replica_set("web")["metadata"]["uid"]
            assert f"default/{owner}" in made.journal.rests()

    objects.run_fast(main())


def test_a_new_pod_whose_replica_set_was_deleted_without_its_pods_is_deleted() -> None:
    async def main() -> None:
        async with scene() as made:
            with pytest.raises(Crash):
                await made.process(at=2).run(made.move())
            name = made.cluster.replica_set("web")["metadata"]["name"]
            made.cluster.api.objects.delete("replicasets", ("default", name), {}, "test")
            # `kubectl delete --cascade=orphan`: the garbage collector takes the owner off all that have it.
            for pod in made.cluster.pods("web"):
                pod["metadata"]["ownerReferences"] = []
                made.cluster._put(pod)
            await asyncio.sleep(1.0)
            assert len(made.cluster.pods("web")) == 4
            await made.process().recover()
            assert made.is_at_rest()

    objects.run_fast(main())
