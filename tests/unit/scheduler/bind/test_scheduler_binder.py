"""What becomes of a bind, by what the API answers."""

import asyncio
import random
from typing import Any

import pytest

from carico_core.domain import cluster, decision, errors, names
from carico_core.runtime.kube import api_actions
from carico_scheduler.bind import binder
from carico_scheduler.report import decisions
from tests.tools.memory import memory_kube
from tests.unit.scheduler import objects

POD = "/api/v1/namespaces/default/pods/pod-0"


FACTS = decisions.Facts(
    outcome=decision.Outcome.BOUND, node="node-0", free=1.0, candidates=(), refused={}, message="room"
)


class Pods:
    """Records of Pods, as far as a binder asks for them."""

    def __init__(self) -> None:
        self.settled: set[str] = set()

    def send(self, uid: str, attempt: int) -> bool:
        return self.is_open(uid, attempt)

    def is_open(self, uid: str, attempt: int) -> bool:
        return uid not in self.settled


class Bench:
    """A binder on a memory API with one Pod."""

    def __init__(self) -> None:
        clock = objects.LoopClock(asyncio.get_running_loop())
        self.kube = memory_kube.MemoryKube(clock=clock)
        self.results: list[binder.Result] = []
        self.pods = Pods()
        made = self.kube.objects.create("pods", objects.pod_object("pod-0"), "test")
        self.pod = objects.make_pod("pod-0", uid=made["metadata"]["uid"])
        self.binder = binder.Binder(
            self.kube, pods=self.pods, clock=clock, rng=random.Random(0), most=2, timeout_s=1.0, term=self._term,
        )  # fmt: skip
        self.term: int | None = 0
        # Of the binder, as each bind is sent, and as its outcome is reported.
        self.rooms: list[int] = []
        self.rooms_told: list[int] = []

    def _take(self, result: binder.Result) -> None:
        self.results.append(result)
        self.rooms_told.append(self.binder.room)

    def _term(self) -> int | None:
        self.rooms.append(self.binder.room)
        return self.term

    def start(self, pod: cluster.Pod | None = None, **changes: Any) -> None:
        """Begins a bind to node-0."""
        bound = pod or self.pod
        values: dict[str, Any] = {"attempt": 1, "term": 0, "waiting": objects.make_waiting(bound), "facts": FACTS}
        self.binder.start(binder.Bind(pod=bound, node="node-0", **({"on_result": self._take} | values | changes)))

    async def result(self) -> binder.Result:
        self.start()
        await self.binder.drain(60.0)
        (found,) = self.results
        return found

    def node_of(self) -> str | None:
        found = self.kube.objects.get("pods", ("default", "pod-0"), "test")["spec"].get("nodeName")
        return None if found is None else str(found)

    async def bind_elsewhere(self) -> None:
        await memory_kube_bind(self.kube, self.pod.uid, "node-9")


async def memory_kube_bind(api: api_actions.BindApi, uid: str, node: str, by: str = "") -> None:
    await api_actions.bind(api, namespace="default", name="pod-0", uid=uid, node=node, by=by)


def test_bound() -> None:
    async def main() -> None:
        bench = Bench()
        found = await bench.result()
        assert (found.fate, found.is_conflict, bench.node_of()) == (binder.Fate.BOUND, False, "node-0")
        assert bench.rooms_told == [2], "the callback finds its room"
        assert bench.binder.room == 2

    objects.run_fast(main())


def test_what_comes_before_a_bind_takes_neither_room_nor_time() -> None:
    async def main() -> None:
        bench = Bench()

        async def prepare() -> None:
            assert bench.binder.room == 2
            await asyncio.sleep(5.0)

        bench.start(prepare=prepare)
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

        bench.start(prepare=prepare)
        await asyncio.sleep(1.0)
        assert await bench.binder.drain(60.0) == 0
        assert (bench.results, bench.rooms, bench.node_of()) == ([], [], None)

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


def test_a_bind_without_an_answer_is_sent_again_to_the_same_node() -> None:
    async def main() -> None:
        bench = Bench()
        for _ in range(4):
            bench.kube.fail_next(errors.ApiUnavailable("503"), path=POD)
        found = await bench.result()
        assert (found.fate, found.is_conflict) == (binder.Fate.BOUND, False)
        assert bench.node_of() == "node-0"

    objects.run_fast(main())


def test_while_a_bind_may_still_arrive_its_pod_is_not_given_back() -> None:
    async def main() -> None:
        bench = Bench()
        for _ in range(3):
            bench.kube.fail_next(errors.ApiUnavailable("no answer in time"), path="/binding")
        bench.start()
        # The API shows the Pod without a node all this time.
        while (bench.kube.requests.count(f"POST {POD}/binding")) < 3:
            assert bench.results == []
            await asyncio.sleep(0.01)
        # The first bind arrives.
        await memory_kube_bind(_Quiet(bench.kube), bench.pod.uid, "node-0")
        await bench.binder.drain(60.0)
        assert [each.fate for each in bench.results] == [binder.Fate.BOUND]

    objects.run_fast(main())


def test_a_bind_without_an_answer_is_given_up_after_a_while_and_not_sent_in_a_later_term() -> None:
    async def main() -> None:
        for ends in (False, True):
            bench = Bench()
            for _ in range(1000):
                bench.kube.fail_next(errors.ApiUnavailable("no answer in time"), path="/binding")
            bench.start()
            await asyncio.sleep(10.0)
            assert (bench.results, bench.binder.doubtful_count, bench.binder.room) == ([], 1, 1)
            if ends:
                bench.term = None
                await asyncio.sleep(2 * binder.ASK_MOST_S)
            else:
                await asyncio.sleep(binder.ASK_WITHIN_S)
            (found,) = bench.results
            assert (found.fate, found.is_doubtful) == (binder.Fate.UNBOUND, True)
            assert bench.binder.doubtful_count == 0

    objects.run_fast(main())


def test_who_shares_the_work_keeps_its_claim_and_sends_no_second_bind() -> None:
    async def main() -> None:
        bench = Bench()
        bench.kube.fail_next(errors.ApiUnavailable("no answer in time"), path="/binding")
        bench.start(by="own/1")
        await bench.binder.drain(60.0)
        (found,) = bench.results
        assert (found.fate, found.is_doubtful, bench.node_of()) == (binder.Fate.UNBOUND, True, None)

    objects.run_fast(main())


def test_no_answer_but_bound_all_the_same() -> None:
    async def main() -> None:
        bench = Bench()
        bench.kube.fail_next(errors.ApiUnavailable("lost"), path="/binding")
        await memory_kube_bind(_Quiet(bench.kube), bench.pod.uid, "node-0")
        assert (await bench.result()).fate is binder.Fate.BOUND

    objects.run_fast(main())


@pytest.mark.parametrize("error", [errors.ApiUnavailable("no answer"), None])
@pytest.mark.parametrize(
    ("by", "expected"), [("own/1", binder.Fate.BOUND), ("other/1", binder.Fate.ELSEWHERE), ("", binder.Fate.ELSEWHERE)]
)
def test_of_several_schedulers_that_bind_a_pod_to_one_node_each_knows_whose_bind_it_was(
    error: errors.CaricoError | None, by: str, expected: binder.Fate
) -> None:
    """Whether the bind is refused, or its answer never comes."""

    async def main() -> None:
        bench = Bench()
        await memory_kube_bind(bench.kube, bench.pod.uid, "node-0", by)
        if error is not None:
            bench.kube.fail_next(error, path="/binding")
        bench.start(by="own/1")
        await bench.binder.drain(60.0)
        (found,) = bench.results
        assert (found.fate, found.is_conflict) == (expected, error is None)

    objects.run_fast(main())


def test_a_pod_shows_which_bind_of_several_schedulers_has_bound_it() -> None:
    async def main() -> None:
        bench = Bench()
        bench.start(by="own/1")
        await bench.binder.drain(60.0)
        found = bench.kube.objects.get("pods", ("default", "pod-0"), "test")
        assert found["metadata"]["annotations"] == {names.BOUND_BY: "own/1"}

    objects.run_fast(main())


class _Quiet:
    """The API without the faults that were ordered for others."""

    def __init__(self, api: memory_kube.MemoryKube) -> None:
        self._api = api

    async def request(self, method: str, path: str, *, body: Any = None, **_: Any) -> Any:
        return self._api._bind(memory_kube._parse(path), body, path)


def test_a_bind_in_doubt_takes_its_own_place_alone_and_the_watch_may_settle_it() -> None:
    async def main() -> None:
        bench = Bench()
        bench.kube.go_away()
        bench.start()
        assert bench.binder.room == 1
        await asyncio.sleep(5.0)
        assert (bench.binder.room, bench.binder.doubtful_count, bench.results) == (1, 1, [])
        assert not bench.binder.is_stalled
        bench.pods.settled.add(bench.pod.uid)
        await asyncio.sleep(3.0)
        assert [each.fate for each in bench.results] == [binder.Fate.SETTLED]
        assert (bench.binder.room, bench.binder.doubtful_count) == (2, 0)

    objects.run_fast(main())


def test_a_stop_leaves_what_stays_in_doubt() -> None:
    async def main() -> None:
        bench = Bench()
        bench.kube.go_away()
        bench.start()
        assert await bench.binder.drain(2.0) == 1
        assert (bench.results, bench.binder.in_flight) == ([], 0)

    objects.run_fast(main())


def test_a_refusal_and_an_unexpected_error_lose_no_pod() -> None:
    async def main() -> None:
        for error, is_doubtful in (
            (errors.Forbidden(status=403, reason="", message="no", request=""), False),
            (errors.BusUnavailable("not an error that an API raises"), True),
        ):
            bench = Bench()
            bench.kube.fail_next(error, path="/binding")
            found = await bench.result()
            assert (found.fate, found.is_doubtful) == (binder.Fate.UNBOUND, is_doubtful)

    objects.run_fast(main())


def test_what_the_listener_raises_is_kept_and_not_lost_with_the_task() -> None:
    async def main() -> None:
        bench = Bench()

        def refuse(_: binder.Result) -> None:
            raise LookupError("no such Pod")

        bench.start(on_result=refuse)
        await asyncio.sleep(1.0)
        assert isinstance(bench.binder.fault, LookupError)
        assert bench.binder.in_flight == 0

    objects.run_fast(main())


def test_a_bind_that_waited_is_not_sent_in_a_later_term() -> None:
    async def main() -> None:
        bench = Bench()

        async def prepare() -> None:
            await asyncio.sleep(300.0)

        bench.start(prepare=prepare)
        await asyncio.sleep(1.0)
        bench.term = None
        await asyncio.sleep(60.0)
        # This scheduler leads again; another one did in between.
        bench.term = 2
        await asyncio.sleep(300.0)
        (found,) = bench.results
        assert (found.fate, bench.node_of()) == (binder.Fate.WITHHELD, None)

    objects.run_fast(main())


def test_a_bind_that_the_api_never_explains_is_given_up_and_stops_no_other() -> None:
    async def main() -> None:
        bench = Bench()
        denied = errors.Forbidden(status=403, reason="Forbidden", message="no rights", request=f"GET {POD}")
        bench.kube.fail_next(errors.ApiUnavailable("lost"), path="/binding")
        for _ in range(1000):
            bench.kube.fail_next(denied, method="GET", path=POD)
        bench.start()
        await asyncio.sleep(10.0)
        assert (bench.binder.doubtful_count, bench.binder.room) == (1, 1)
        other = bench.kube.objects.create("pods", objects.pod_object("other"), "test")
        bench.start(objects.make_pod("other", uid=other["metadata"]["uid"]))
        await asyncio.sleep(1.0)
        assert [each.fate for each in bench.results] == [binder.Fate.BOUND]
        await asyncio.sleep(binder.ASK_WITHIN_S)
        assert [each.fate for each in bench.results] == [binder.Fate.BOUND, binder.Fate.UNBOUND]
        assert bench.binder.in_flight == 0

    objects.run_fast(main())


def test_a_bind_in_doubt_is_not_given_up_while_this_scheduler_may_not_decide() -> None:
    async def main() -> None:
        bench = Bench()
        bench.kube.go_away()
        bench.start()
        await asyncio.sleep(1.0)
        bench.term = None
        await asyncio.sleep(10 * binder.ASK_WITHIN_S)
        assert (bench.results, bench.binder.doubtful_count) == ([], 1)
        bench.kube.come_back()
        await asyncio.sleep(10.0)
        assert [each.fate for each in bench.results] == [binder.Fate.UNBOUND]

    objects.run_fast(main())


def test_nothing_is_sent_for_a_pod_that_was_settled_while_it_waited() -> None:
    async def main() -> None:
        bench = Bench()

        async def prepare() -> None:
            bench.pods.settled.add(bench.pod.uid)

        bench.start(prepare=prepare)
        await asyncio.sleep(1.0)
        assert [each.fate for each in bench.results] == [binder.Fate.SETTLED]
        assert bench.node_of() is None

    objects.run_fast(main())


def test_binds_beyond_the_places_wait_for_one() -> None:
    async def main() -> None:
        bench = Bench()
        pods = [bench.pod]
        for index in range(1, 5):
            made = bench.kube.objects.create("pods", objects.pod_object(f"pod-{index}"), "test")
            pods.append(objects.make_pod(f"pod-{index}", uid=made["metadata"]["uid"]))
        for pod in pods:
            bench.start(pod)
        assert bench.binder.in_flight == 2
        assert bench.binder.room == -3
        while len(bench.results) < len(pods):
            await asyncio.sleep(0.01)
        assert {each.fate for each in bench.results} == {binder.Fate.BOUND}
        assert bench.binder.room == 2
        # No more than two are sent at a time.
        assert max(bench.rooms) <= 2
        for pod in pods:
            bench.start(pod)
        await bench.binder.drain(60.0)
        # Those that were not sent yet are dropped with the process.
        assert len(bench.results) == len(pods) + 2

    objects.run_fast(main())
