"""What becomes of a bind, by what the API answers."""

import asyncio
import random
from typing import Any

from carico_core.domain import errors
from carico_core.runtime.kube import api_actions, memory_kube
from carico_core.wire.kubernetes import placement
from carico_scheduler.bind import binder
from tests.unit.scheduler import objects

POD = "/api/v1/namespaces/default/pods/pod-0"


class Watch:
    """What the watch has told."""

    def __init__(self) -> None:
        self.settled: set[str] = set()

    def is_settled(self, uid: str) -> bool:
        return uid in self.settled


class Bench:
    """A binder on a memory API with one Pod."""

    def __init__(self) -> None:
        clock = objects.LoopClock(asyncio.get_running_loop())
        self.kube = memory_kube.MemoryKube(clock=clock)
        self.results: list[binder.Result] = []
        self.watch = Watch()
        made = self.kube.objects.create("pods", objects.pod_object("pod-0"), "test")
        self.pod = objects.make_pod("pod-0", uid=made["metadata"]["uid"])
        self.binder = binder.Binder(
            self.kube, witness=self.watch, clock=clock, rng=random.Random(0), most=2, timeout_s=1.0,
            on_result=self._take, may_bind=self._may_bind,
        )  # fmt: skip
        # Of the binder, as each bind is sent, and as its outcome is told.
        self.rooms: list[int] = []
        self.rooms_told: list[int] = []

    def _take(self, result: binder.Result) -> None:
        self.results.append(result)
        self.rooms_told.append(self.binder.room)

    def _may_bind(self) -> bool:
        self.rooms.append(self.binder.room)
        return True

    async def result(self) -> binder.Result:
        self.binder.start(self.pod, "node-0")
        await self.binder.drain(60.0)
        (found,) = self.results
        return found

    def node_of(self) -> str | None:
        found = self.kube.objects.get("pods", ("default", "pod-0"), "test")["spec"].get("nodeName")
        return None if found is None else str(found)

    async def bind_elsewhere(self) -> None:
        await memory_kube_bind(self.kube, self.pod.uid, "node-9")


async def memory_kube_bind(api: api_actions.BindApi, uid: str, node: str) -> None:
    await api_actions.bind(api, namespace="default", name="pod-0", uid=uid, node=node)


def test_bound() -> None:
    async def main() -> None:
        bench = Bench()
        found = await bench.result()
        assert (found.fate, found.is_conflict, bench.node_of()) == (binder.Fate.BOUND, False, "node-0")
        assert bench.rooms_told == [2], "whoever is told finds its room"
        assert bench.binder.room == 2

    objects.run_fast(main())


def test_what_comes_before_a_bind_takes_neither_room_nor_time() -> None:
    async def main() -> None:
        bench = Bench()

        async def prepare() -> None:
            assert bench.binder.room == 2
            await asyncio.sleep(5.0)

        bench.binder.start(bench.pod, "node-0", prepare)
        await asyncio.sleep(6.0)
        (found,) = bench.results
        assert (found.fate, bench.rooms, bench.binder.room) == (binder.Fate.BOUND, [1], 2)
        assert found.took_s < 1.0

    objects.run_fast(main())


def test_what_is_only_being_prepared_is_not_bound_at_the_end() -> None:
    async def main() -> None:
        bench = Bench()

        async def prepare() -> None:
            await asyncio.Event().wait()

        bench.binder.start(bench.pod, "node-0", prepare)
        await asyncio.sleep(1.0)
        assert await bench.binder.drain(60.0) == 0
        assert (bench.results, bench.rooms, bench.node_of()) == ([], [], None)

    objects.run_fast(main())


def test_what_it_was_placed_by_is_written_on_the_pod_and_nothing_else() -> None:
    async def main() -> None:
        for said in (None, placement.Advertised(objects.BOOT, 7)):
            bench = Bench()
            bench.binder.start(bench.pod, "node-0", placed_by=said)
            await bench.binder.drain(60.0)
            found = bench.kube.objects.get("pods", ("default", "pod-0"), "test")
            assert placement.parse_advertised(found) == said
            assert len(found["metadata"].get("annotations") or {}) == (said is not None)
            assert sum(request.startswith("POST") for request in bench.kube.requests) == 1
            assert not any(request.startswith("PATCH") for request in bench.kube.requests)

    objects.run_fast(main())


def test_bound_by_another_meanwhile() -> None:
    async def main() -> None:
        bench = Bench()
        await bench.bind_elsewhere()
        found = await bench.result()
        assert (found.fate, found.is_conflict) == (binder.Fate.ELSEWHERE, True)
        assert found.pod is not None
        assert found.pod.node_name == "node-9"

    objects.run_fast(main())


def test_deleted_or_replaced_meanwhile() -> None:
    async def main() -> None:
        for replaced in (False, True):
            bench = Bench()
            bench.kube.objects.delete("pods", ("default", "pod-0"), {}, "test")
            if replaced:
                bench.kube.objects.create("pods", objects.pod_object("pod-0"), "test")
            assert (await bench.result()).fate is binder.Fate.GONE
            if replaced:
                assert bench.node_of() is None

    objects.run_fast(main())


def test_no_answer_and_not_bound() -> None:
    async def main() -> None:
        bench = Bench()
        for _ in range(4):
            bench.kube.fail_next(errors.ApiUnavailable("503"), path=POD)
        found = await bench.result()
        assert (found.fate, found.is_conflict) == (binder.Fate.UNBOUND, False)
        assert bench.node_of() is None

    objects.run_fast(main())


def test_no_answer_but_bound_all_the_same() -> None:
    async def main() -> None:
        bench = Bench()
        bench.kube.fail_next(errors.ApiUnavailable("lost"), path="/binding")
        await memory_kube_bind(_Quiet(bench.kube), bench.pod.uid, "node-0")
        assert (await bench.result()).fate is binder.Fate.BOUND

    objects.run_fast(main())


class _Quiet:
    """The API without the faults that were ordered for others."""

    def __init__(self, api: memory_kube.MemoryKube) -> None:
        self._api = api

    async def request(self, method: str, path: str, *, body: Any = None, **_: Any) -> Any:
        return self._api._bind(memory_kube._parse(path), body, path)


def test_while_in_doubt_no_bind_is_begun_and_the_watch_may_settle_it() -> None:
    async def main() -> None:
        bench = Bench()
        bench.kube.go_away()
        bench.binder.start(bench.pod, "node-0")
        assert bench.binder.room == 1
        await asyncio.sleep(5.0)
        assert (bench.binder.room, bench.binder.doubtful_count, bench.results) == (0, 1, [])
        bench.watch.settled.add(bench.pod.uid)
        await asyncio.sleep(3.0)
        assert [each.fate for each in bench.results] == [binder.Fate.SETTLED]
        assert (bench.binder.room, bench.binder.doubtful_count) == (2, 0)

    objects.run_fast(main())


def test_a_stop_leaves_what_stays_in_doubt() -> None:
    async def main() -> None:
        bench = Bench()
        bench.kube.go_away()
        bench.binder.start(bench.pod, "node-0")
        assert await bench.binder.drain(2.0) == 1
        assert (bench.results, bench.binder.in_flight) == ([], 0)

    objects.run_fast(main())


def test_a_refusal_and_an_unexpected_error_lose_no_pod() -> None:
    async def main() -> None:
        for error in (
            errors.Forbidden(status=403, reason="", message="no", request=""),
            errors.BusUnavailable("not an error that an API raises"),
        ):
            bench = Bench()
            bench.kube.fail_next(error, path="/binding")
            assert (await bench.result()).fate is binder.Fate.UNBOUND

    objects.run_fast(main())


def test_what_the_listener_raises_is_kept_and_not_lost_with_the_task() -> None:
    async def main() -> None:
        bench = Bench()

        def refuse(_: binder.Result) -> None:
            raise LookupError("no such Pod")

        deaf = binder.Binder(
            bench.kube, witness=bench.watch, clock=objects.LoopClock(asyncio.get_running_loop()),
            rng=random.Random(0), most=2, timeout_s=1.0, on_result=refuse,
        )  # fmt: skip
        deaf.start(bench.pod, "node-0")
        await asyncio.sleep(1.0)
        assert isinstance(deaf.fault, LookupError)
        assert deaf.in_flight == 0

    objects.run_fast(main())
