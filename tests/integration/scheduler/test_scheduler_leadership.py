"""Schedulers as processes, on real NATS and the embedded API: whichever dies or sleeps, each Pod is bound once."""

import asyncio
import collections
import pathlib
import signal
import time

import pytest

from tests.integration.scheduler import scheduler_team
from tests.tools import waiting

PODS = 300
# Long enough for a machine that stands still for some seconds: no leader is to go but those that the tests end.
LEASE_S = 6
SHORT = ["--leader-lease-s", str(LEASE_S), "--leader-renew-s", "5", "--leader-retry-s", "0.5", "--bind-timeout-s", "1"]
# A test that waited for its end would be noticed.
LONG = ["--leader-lease-s", "600", "--leader-renew-s", "300"]
# A new leader binds within 5 s of the end of the Lease; machines that run tests are given four times that.
TAKEOVER_S = 4 * 5.0


async def test_leaders_killed_midway(tmp_path: pathlib.Path) -> None:
    async with scheduler_team.team(tmp_path, "abc", SHORT) as made:
        creating = asyncio.create_task(made.site.create_pods(PODS))
        leader = await made.leader()
        for done in (40, 120):
            await made.site.until_succeeded(done)
            standbys = [each for each in made.members.values() if each is not leader and each.process.poll() is None]
            assert not any(each.proxy.binds for each in standbys), "a standby binds nothing"
            leader.process.kill()
            died_s = time.monotonic()
            leader = await made.leader(but=leader.name)
            began_s = await made.first_bind_s(leader, died_s)
            assert began_s - died_s <= LEASE_S + TAKEOVER_S
        await creating
        await made.site.until_succeeded(PODS, within_s=120.0)
        made.check(PODS)
        assert f"leader: {leader.name} (this replica)" in await leader.get("/readyz")
        metrics = await leader.get("/metrics")
        assert "carico_scheduler_leading 1.0" in metrics
        assert "carico_scheduler_terms_total 1.0" in metrics
        found = await made.lease()
        assert found is not None
        assert (found.transitions, found.duration_s) == (2, LEASE_S)


async def test_a_leader_that_was_stopped_binds_nothing_when_it_wakes_up(tmp_path: pathlib.Path) -> None:
    async with scheduler_team.team(tmp_path, "ab", SHORT) as made:
        creating = asyncio.create_task(made.site.create_pods(PODS))
        old = await made.leader()
        await made.site.until_succeeded(40)
        old.process.send_signal(signal.SIGSTOP)
        new = await made.leader(but=old.name)
        await creating
        await made.site.until_succeeded(120)
        sent = len(old.proxy.binds)
        old.process.send_signal(signal.SIGCONT)
        await made.site.until_succeeded(PODS, within_s=120.0)
        assert len(old.proxy.binds) == sent
        assert await made.leader() is new
        made.check(PODS)
        await waiting.answered(lambda: old.get("/metrics"), lambda said: "carico_scheduler_leading 0.0" in said)
        await waiting.answered(lambda: old.get("/readyz"), lambda said: f"leader: {new.name}\n" in said)
        # It is a warm standby now, and takes over where the other goes.
        assert new.process.poll() is None
        new.process.terminate()
        assert await made.leader(but=new.name) is old
        await made.site.create_pods(5, prefix="late")
        await made.site.until_succeeded(PODS + 5)
        made.check(PODS + 5)


async def test_a_rolling_restart_waits_for_no_lease(tmp_path: pathlib.Path) -> None:
    async with scheduler_team.team(tmp_path, "ab", LONG) as made:
        creating = asyncio.create_task(made.site.create_pods(100))
        old = await made.leader()
        await made.site.until_succeeded(20)
        old.process.terminate()
        asked_s = time.monotonic()
        new = await made.leader(but=old.name)
        took_s = await made.first_bind_s(new, asked_s) - asked_s
        assert took_s < 12.0
        assert await asyncio.to_thread(old.process.wait, waiting.WAIT_S) == 0
        await creating
        await made.site.until_succeeded(100)
        made.check(100)


async def test_a_leader_that_alone_is_cut_off_from_nats_hands_over_and_is_not_ready(tmp_path: pathlib.Path) -> None:
    async with scheduler_team.team(tmp_path, "ab", LONG) as made:
        await made.site.create_pods(20)
        old = await made.leader()
        await made.site.until_succeeded(20)
        cut_s, sent = time.monotonic(), len(old.proxy.binds)
        # Its connection stays open, and nothing arrives.
        old.wire.is_open = False
        new = await made.leader(but=old.name)
        assert time.monotonic() - cut_s < 4 * 10.0
        await waiting.answered(lambda: old.get("/readyz"), lambda said: "no advertisement of any node" in said)
        await made.site.create_pods(20, prefix="late")
        await made.site.until_succeeded(40)
        assert len(old.proxy.binds) == sent
        old.wire.is_open = True
        await made.all_warm()
        assert await made.leader() is new
        made.check(40)


@pytest.mark.parametrize(("lands", "answer"), [("before", 201), ("after", 409)])
async def test_binds_in_flight_of_a_killed_leader_land_at_most_once(
    tmp_path: pathlib.Path, lands: str, answer: int
) -> None:
    async with scheduler_team.team(tmp_path, "ab", SHORT, room=5.0) as made:
        old = await made.leader()
        old.proxy.lets_binds_pass.clear()
        await made.site.create_pods(12)
        # A bind that is held for longer than it may take is sent again.
        await waiting.until(lambda: len(set(old.proxy.held)) == 12)
        old.process.kill()
        if lands == "before":
            # The next leader counts them: the nodes have room for 15, and 28 more Pods come.
            old.proxy.lets_binds_pass.set()
        await made.site.create_pods(28, prefix="more")
        await made.leader(but=old.name)
        await made.site.until_succeeded(40)
        old.proxy.lets_binds_pass.set()
        await waiting.until(lambda: not old.proxy.held)
        answers = collections.defaultdict(set)
        for each in old.proxy.binds:
            answers[each.pod].add(each.status)
        assert len(answers) == 12
        assert all(answer in said <= {answer, 409} for said in answers.values())
        made.check(40)
