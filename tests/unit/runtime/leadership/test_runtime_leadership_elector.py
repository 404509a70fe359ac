"""Electors on an API that fails, in the loop's own time: who leads, what is prepared, what is given up."""

import asyncio
import contextlib
import random
import socket
from collections.abc import AsyncIterator

import pytest

from carico_core.domain import errors, names
from carico_core.runtime.kube import api_actions
from carico_core.runtime.leadership import elector, leader_settings, status
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import settings
from carico_core.wire import subjects
from carico_core.wire.kubernetes import lease as kubernetes_lease
from carico_scheduler import settings as setting
from carico_scheduler.intake import handover
from carico_scheduler.rules import policy
from carico_scheduler.state import state
from tests.tools.memory import memory_kube
from tests.unit.scheduler import objects

LEASES = "/leases"


class Scene:
    """Candidates for one Lease of a memory API."""

    def __init__(self) -> None:
        self.clock = objects.LoopClock(asyncio.get_running_loop())
        self.kube = memory_kube.MemoryKube(clock=self.clock)
        self.told: list[tuple[str, bool]] = []
        self.fit: dict[str, bool] = {}
        self.reached: dict[str, bool] = {}
        self.idle: dict[str, bool] = {}
        self.prepared: list[str] = []
        # What stands in the way of a term of anybody.
        self.obstacle: errors.CaricoError | None = None
        self.electors: dict[str, elector.Elector] = {}
        self._tasks: dict[str, list[asyncio.Task[None]]] = {}

    def start(self, name: str) -> elector.Elector:
        """A candidate at work."""

        async def prepare() -> None:
            if self.obstacle is not None:
                raise self.obstacle
            self.prepared.append(name)

        duties = elector.Duties(
            is_fit=lambda: self.fit.get(name, True), prepare=prepare, on_change=lambda on: self.told.append((name, on)),
            is_reached=lambda: self.reached.get(name, True), is_idle=lambda: self.idle.get(name, True),
        )  # fmt: skip
        wanted = leader_settings.LeaderSettings(identity=name)
        made = status.elector_of(
            wanted, start="0", api=self.kube, clock=self.clock, duties=duties, program="carico-scheduler"
        )
        self.electors[name] = made
        self._tasks[name] = [
            asyncio.create_task(made.campaign_forever()), asyncio.create_task(made.follow_terms_forever()),
        ]  # fmt: skip
        return made

    async def kill(self, name: str) -> None:
        """Ends a candidate's work without a word."""
        for task in self._tasks.pop(name, []):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def end(self) -> None:
        """Ends all."""
        for name in list(self._tasks):
            await self.kill(name)

    async def lease(self) -> kubernetes_lease.Lease:
        """The Lease as it is."""
        found = await api_actions.get_lease(self.kube, namespace="kube-system", name="carico-scheduler")
        assert found is not None
        return found

    @property
    def leading(self) -> list[str]:
        """Who leads now."""
        return [name for name, each in self.electors.items() if each.is_leading]


@contextlib.asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    made = Scene()
    try:
        yield made
    finally:
        await made.end()


@pytest.mark.parametrize(
    ("host", "replica", "start"),
    [
        ("carico-scheduler-5d4f8c-x7k2q", "", "carico-scheduler-5d4f8c-x7k2q-17979cfe362a1b2c"),
        ("any", "scheduler-2", "scheduler-2-17979cfe362a1b2c"),
        # As it may stand in a subject: of a long name the end, which tells Pods apart.
        ("a" * 40 + "-scheduler-x7k2q", "", "a" * 30 + "-scheduler-x7k2q-17979cfe362a1b2c"),
        ("VM.local", "", "vm.local-17979cfe362a1b2c"),
        ("my_host", "", "unnamed-17979cfe362a1b2c"),
    ],
)
def test_a_start_is_named_by_its_replica_or_host(
    monkeypatch: pytest.MonkeyPatch, host: str, replica: str, start: str
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    clock = clocks.FakeClock()
    made = status.Leadership(
        leader_settings.LeaderSettings(), program="carico-scheduler", boot="17979cfe362a1b2c", replica=replica,
        api=memory_kube.MemoryKube(clock=clock), clock=clock,
        duties=elector.Duties(is_fit=lambda: True, prepare=asyncio.Event().wait, on_change=lambda _: None),
    )  # fmt: skip
    assert (made.start, made.identity) == (start, start)
    assert subjects.member(start)
    assert names.replica_of(start) == start.removesuffix("-17979cfe362a1b2c")


def test_the_first_leads_and_another_takes_over_as_its_lease_ends() -> None:
    async def main() -> None:
        async with scene() as made:
            made.start("a")
            await asyncio.sleep(0.5)
            made.start("b")
            await asyncio.sleep(60.0)
            assert made.leading == ["a"]
            assert made.told == [("a", True)]
            assert (made.electors["b"].holder, made.electors["b"].trouble) == ("a", None)
            await made.kill("a")
            # Its last renewal was up to 2 s ago, and was seen up to a second later.
            await asyncio.sleep(12.5)
            assert made.leading == []
            await asyncio.sleep(4.0)
            assert made.leading == ["b"]
            assert made.prepared == ["a", "b"]
            assert (await made.lease()).transitions == 1

    objects.run_fast(main())


def test_a_lease_given_up_is_taken_over_within_a_second() -> None:
    async def main() -> None:
        async with scene() as made:
            first = made.start("a")
            await asyncio.sleep(0.5)
            made.start("b")
            await asyncio.sleep(5.0)
            first.stand_down()
            assert made.leading == []
            assert made.told[-1] == ("a", False)
            assert await first.release()
            assert (await made.lease()).holder == ""
            await asyncio.sleep(1.3)
            assert made.leading == ["b"]
            assert not await first.release(), "it is not its to give up"

    objects.run_fast(main())


def test_a_leader_cut_off_stops_leading_in_time_and_leads_again_if_no_other_took_over() -> None:
    async def main() -> None:
        async with scene() as made:
            made.start("a")
            await asyncio.sleep(5.0)
            made.kube.go_away()
            await asyncio.sleep(7.5)
            assert made.leading == ["a"], "a short outage changes nothing"
            await asyncio.sleep(3.0)
            assert made.leading == []
            await asyncio.sleep(60.0)
            assert "cannot be read or written" in str(made.electors["a"].trouble)
            made.kube.come_back()
            await asyncio.sleep(3.0)
            assert made.leading == ["a"]
            assert made.told == [("a", True), ("a", False), ("a", True)]
            assert (await made.lease()).transitions == 0, "no other held it meanwhile"

    objects.run_fast(main())


@pytest.mark.parametrize("taken", [True, False], ids=["taken", "lost"])
def test_a_renewal_without_an_answer_is_read_up_on(taken: bool) -> None:
    async def main() -> None:
        async with scene() as made:
            one = made.start("a")
            await asyncio.sleep(1.0)
            if taken:
                # As if an earlier write of its own had landed after it was given up.
                found = await made.lease()
                await api_actions.update_lease(made.kube, found)
            else:
                made.kube.fail_next(errors.ApiUnavailable("PUT: no answer"), method="PUT", path=LEASES)
            await asyncio.sleep(8.0)
            assert one.is_leading
            assert one.trouble is None

    objects.run_fast(main())


def test_without_the_right_to_the_lease_no_one_leads_and_it_says_so() -> None:
    async def main() -> None:
        async with scene() as made:
            one = made.start("a")
            for _ in range(100):
                refusal = errors.Forbidden(status=403, reason="Forbidden", message="no", request="GET lease")
                made.kube.fail_next(refusal, path=LEASES)
            await asyncio.sleep(30.0)
            assert made.leading == []
            assert "403 Forbidden" in str(one.trouble)

    objects.run_fast(main())


def test_one_that_has_not_listed_the_cluster_does_not_run_and_a_term_waits_for_its_preparation() -> None:
    async def main() -> None:
        async with scene() as made:
            made.fit["a"] = False
            one = made.start("a")
            await asyncio.sleep(5.0)
            assert one.holder == ""
            made.fit["a"] = True
            made.obstacle = errors.ApiUnavailable("GET pods: 503")
            await asyncio.sleep(5.0)
            assert (one.holder, one.is_leading) == ("a", False)
            made.obstacle = None
            await asyncio.sleep(1.0)
            assert one.is_leading

    objects.run_fast(main())


def test_a_leader_that_no_advertisement_reaches_gives_the_lease_to_a_standby_that_they_reach() -> None:
    async def main() -> None:
        async with scene() as made:
            made.start("a")
            await asyncio.sleep(0.5)
            for name in "bc":
                made.start(name)
            await asyncio.sleep(20.0)
            assert made.leading == ["a"]
            made.reached["a"] = made.reached["b"] = False
            await asyncio.sleep(2.5)
            assert made.leading == ["a"], "a short cut changes nothing"
            await asyncio.sleep(2.5)
            assert made.leading == ["c"]
            made.reached["a"] = made.reached["b"] = True
            await asyncio.sleep(120.0)
            assert made.leading == ["c"]
            assert (await made.lease()).transitions == 1

    objects.run_fast(main())


def test_if_advertisements_reach_no_scheduler_one_leads_and_offers_the_lease_ever_less_often() -> None:
    async def main() -> None:
        async with scene() as made:
            for name in "ab":
                made.start(name)
            await asyncio.sleep(20.0)
            made.reached["a"] = made.reached["b"] = False
            led = 0
            for _ in range(1200):
                await asyncio.sleep(0.5)
                assert len(made.leading) <= 1
                led += len(made.leading)
            # Offers after 3 s and then 30, 60, 120, 240 s, by one or the other, each with a gap of at most 5 s.
            assert (await made.lease()).transitions <= 10
            assert led >= 1200 - 10 * 10
            made.reached["b"] = True
            await asyncio.sleep(600.0)
            assert made.leading == ["b"]

    objects.run_fast(main())


def test_a_leader_does_not_offer_the_lease_while_a_bind_is_under_way() -> None:
    async def main() -> None:
        async with scene() as made:
            made.start("a")
            await asyncio.sleep(0.5)
            made.start("b")
            made.reached["a"] = made.idle["a"] = False
            await asyncio.sleep(30.0)
            assert made.leading == ["a"]
            made.idle["a"] = True
            await asyncio.sleep(2.0)
            assert made.leading == ["b"]

    objects.run_fast(main())


def test_a_release_without_an_answer_is_tried_again_with_the_next_offer() -> None:
    async def main() -> None:
        async with scene() as made:
            made.start("a")
            await asyncio.sleep(0.5)
            made.start("b")
            await asyncio.sleep(5.0)
            made.reached["a"] = False
            await asyncio.sleep(2.5)
            made.kube.go_away()
            await asyncio.sleep(2.0)
            made.kube.come_back()
            await asyncio.sleep(5.0)
            assert made.leading == ["a"], "the Lease is still its own"
            await asyncio.sleep(30.0)
            assert made.leading == ["b"]

    objects.run_fast(main())


@pytest.mark.parametrize("seed", range(6))
def test_never_two_lead_and_mostly_one_does_whichever_is_killed(seed: int) -> None:
    async def main() -> None:
        rng = random.Random(seed)
        async with scene() as made:
            for name in "abc":
                made.start(name)
            led = 0
            for turn in range(600):
                await asyncio.sleep(0.5)
                assert len(made.leading) <= 1
                led += len(made.leading)
                if rng.random() < 0.02:
                    name = rng.choice(list(made.electors))
                    await made.kill(name)
                    # A new process, under another identity.
                    del made.electors[name]
                    made.start(f"later-{turn}")
                if rng.random() < 0.1:
                    made.kube.fail_next(errors.ApiUnavailable("503"), path=LEASES)
            assert led > 300

    objects.run_fast(main())


def bound(name: str, node: str = "node-0") -> dict[str, object]:
    return objects.pod_object(name, nodeName=node)


def test_a_new_leader_waits_until_it_has_seen_the_binds_of_the_old_one() -> None:
    async def main() -> None:
        clock = objects.LoopClock(asyncio.get_running_loop())
        kube = memory_kube.MemoryKube(clock=clock)
        made = state.State(policy.Policy(), random.Random(0))
        for name in ("seen", "unseen", "ends"):
            kube.objects.create("pods", bound(name) | {"metadata": {"uid": name, **_meta(name)}}, "test")
        kube.objects.create("pods", objects.pod_object("waits"), "test")
        made.put_pod(objects.make_pod("seen", uid="seen", node_name="node-0"), 0.0)
        waiting = asyncio.create_task(handover.catch_up(kube, made))
        await asyncio.sleep(0.3)
        assert not waiting.done()
        made.put_pod(objects.make_pod("unseen", uid="unseen", node_name="node-0"), 0.0)
        await asyncio.sleep(0.3)
        assert not waiting.done()
        kube.objects.delete("pods", ("default", "ends"), {}, "test")
        await asyncio.sleep(1.0)
        assert waiting.done()
        assert waiting.result() == 2
        assert await handover.catch_up(kube, made) == 0

    objects.run_fast(main())


def _meta(name: str) -> dict[str, str]:
    return {"name": name, "namespace": "default", "creationTimestamp": "2025-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("--leader-lease-s", "10"), "expected a longer Lease"),
        (("--leader-retry-s", "9"), "more than 1.2 times retry-s"),
        (("--bind-timeout-s", "6"), "at most --leader-lease-s 15 together"),
    ],
)
def test_times_that_would_not_be_safe_are_refused(argv: tuple[str, ...], says: str) -> None:
    with pytest.raises(errors.SettingsError, match=says):
        settings.load(setting.SchedulerSettings, prefix="scheduler", argv=argv, environ={}, program="test")


def test_without_an_election_times_do_not_matter_and_one_leads_from_the_start() -> None:
    argv = ("--no-leader-election", "--bind-timeout-s", "60")
    found = settings.load(setting.SchedulerSettings, prefix="scheduler", argv=argv, environ={}, program="test")

    async def main() -> None:
        clock = objects.LoopClock(asyncio.get_running_loop())
        told: list[bool] = []
        kube = memory_kube.MemoryKube(clock=clock)
        alone = status.Leadership(
            found.leader, program="carico-scheduler", boot="0", api=kube, clock=clock,
            duties=elector.Duties(is_fit=lambda: True, prepare=asyncio.Event().wait, on_change=told.append),
        )  # fmt: skip
        assert alone.works() == {}
        assert (alone.leads(), alone.trouble(), told) == (True, None, [True])
        assert alone.leader() == "this replica, without election"
        alone.stand_down()
        await alone.release()
        assert not kube.requests

    objects.run_fast(main())
