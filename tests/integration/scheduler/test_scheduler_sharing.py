"""Schedulers as processes that share the work, on real NATS and the embedded API."""

import asyncio
import collections
import itertools
import pathlib
import signal
import time
from collections.abc import Iterator

import aiohttp
import nats

from carico_core.wire import streams, subjects
from carico_local.cluster import free_ports
from tests.integration.scheduler import scheduler_team
from tests.tools import service_process, waiting
from tests.tools.sites import scheduler_site

PODS = 300
SHARED = ["--sharing", "shared", "--bind-timeout-s", "2", "--leader-lease-s", "6", "--leader-renew-s", "4",
          "--leader-retry-s", "0.5"]  # fmt: skip
# The share of a member that is gone is taken within 2 s; machines that run tests are given four times that.
TAKEN_S = 4 * 2.0


def _series(text: str) -> Iterator[tuple[str, str, str]]:
    return (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))


def binds_of(made: scheduler_team.Team) -> collections.Counter[str]:
    """How many Pods each scheduler has bound."""
    return collections.Counter({name: len(each.proxy.bound) for name, each in made.members.items()})


async def test_three_schedulers_bind_at_the_same_time_and_one_is_killed(tmp_path: pathlib.Path) -> None:
    async with scheduler_team.team(tmp_path, "abc", SHARED) as made:
        creating = asyncio.create_task(made.site.create_pods(PODS))
        await made.site.until_succeeded(80)
        await waiting.until(lambda: all(count > 5 for count in binds_of(made).values()))
        victim = (await made.leader()).name
        made.members[victim].process.kill()
        await creating
        await made.site.until_succeeded(PODS, within_s=120.0)
        made.check(PODS)
        metrics = await next(each for name, each in made.members.items() if name != victim).get("/metrics")
        assert "carico_scheduler_members 2.0" in metrics
        assert 'carico_scheduler_claims_total{outcome="stored"}' in metrics


async def test_the_share_of_a_scheduler_that_sleeps_is_taken_and_it_binds_nothing_twice(
    tmp_path: pathlib.Path,
) -> None:
    async with scheduler_team.team(tmp_path, "abc", SHARED, room=100.0) as made:
        await made.site.create_pods(30, prefix="first")
        await made.site.until_succeeded(30)
        sleeper = made.members["b"]
        sleeper.process.send_signal(signal.SIGSTOP)
        try:
            began_s = time.monotonic()
            await made.site.create_pods(30, prefix="second")
            await waiting.until(lambda: sum(binds_of(made).values()) == 60)
            assert time.monotonic() - began_s <= TAKEN_S
        finally:
            sleeper.process.send_signal(signal.SIGCONT)
        await made.site.create_pods(60, prefix="third")
        await made.site.until_succeeded(120, within_s=120.0)
        made.check(120)


async def test_schedulers_join_and_leave_at_any_moment(tmp_path: pathlib.Path) -> None:
    async with scheduler_team.team(tmp_path, "abcd", SHARED) as made:
        creating = asyncio.create_task(made.site.create_pods(PODS))
        for name in "ab":
            await made.site.until_succeeded(60 if name == "a" else 140)
            made.members[name].process.terminate()
            assert made.members[name].process.wait(waiting.WAIT_S) == 0
        await creating
        await made.site.until_succeeded(PODS, within_s=120.0)
        made.check(PODS)


async def test_a_stream_of_claims_that_is_deleted_midway(tmp_path: pathlib.Path) -> None:
    async with scheduler_team.team(tmp_path, "abc", SHARED) as made:
        creating = asyncio.create_task(made.site.create_pods(PODS))
        await made.site.until_succeeded(60)
        administrator = await nats.connect(made.site.nats.url)
        try:
            await administrator.jetstream().delete_stream(streams.CLAIMS)
        finally:
            await administrator.close()
        await creating
        await made.site.until_succeeded(PODS, within_s=120.0)
        made.check(PODS)
        assert await made.site.bus.claims.newest(subjects.CLAIMS_EPOCH) is not None


async def test_pods_of_a_scheduler_whose_binds_are_refused_are_placed_by_the_holder_of_the_lease(
    tmp_path: pathlib.Path,
) -> None:
    async with scheduler_team.team(tmp_path, "ab", SHARED, room=100.0) as made:
        holder = await made.leader()
        await made.all_share()
        (other,) = (each for each in made.members.values() if each is not holder)
        other.proxy.refuses_binds = True
        await made.site.create_pods(40)
        await made.site.until_succeeded(40)
        made.check(40)
        assert binds_of(made) == {holder.name: 40, other.name: 0}
        assert len(other.proxy.binds) > 0


async def test_an_extender_that_shares_the_work_claims_what_it_binds(tmp_path: pathlib.Path) -> None:
    async with scheduler_team.team(tmp_path, "ab", SHARED, room=4.0) as made, aiohttp.ClientSession() as session:
        await made.leader()
        port = free_ports.choose_one()
        flags = [*SHARED, "--extender", "--extender-port", str(port), "--no-own-pods"]
        member = made.members["a"]
        extender = scheduler_team.Member(made.site, "kube", proxy=member.proxy, wire=member.wire, flags=flags)
        try:
            await waiting.answered(lambda: extender.get("/readyz"), lambda text: text.startswith("ok"))
            creating = asyncio.create_task(made.site.create_pods(60))
            await made.site.create_pods(30, prefix="kube", scheduler="kube-scheduler")

            async def schedule(number: int) -> None:
                name = f"kube-{number}"
                pod = await made.site.client.request("GET", f"{scheduler_site.PODS_PATH}/{name}")
                uid = pod["metadata"]["uid"]
                for attempt in itertools.count():
                    node = scheduler_site.NODES[(number + attempt) % 3]
                    body = {"PodName": name, "PodNamespace": "default", "PodUID": uid, "Node": node}
                    async with session.post(f"http://127.0.0.1:{port}/bind", json=body) as answer:
                        if answer.status == 200 and not (await answer.json())["Error"]:
                            return
                    await asyncio.sleep(0.1)

            async with asyncio.timeout(3 * waiting.WAIT_S):
                await asyncio.gather(*(schedule(number) for number in range(30)))
            await creating
            await made.site.until_succeeded(90, within_s=120.0)
            made.site.check(90)
            text = await extender.get("/metrics")
            assert 'carico_scheduler_extender_binds_total{fate="bound"} 30.0' in text
            # One for each Pod, and one more for each bind that was not sent in time and asked for again.
            values = {name: float(value) for name, _, value in _series(text)}
            stored = values['carico_scheduler_claims_total{outcome="stored"}']
            withheld = values.get('carico_scheduler_extender_binds_total{fate="withheld"}', 0.0)
            assert 30 <= stored <= 30 + withheld
            assert "carico_scheduler_members 2.0" in text
            assert (await made.leader()).name in made.members
        finally:
            service_process.end(extender.process)
