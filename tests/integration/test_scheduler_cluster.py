"""The scheduler as a process, on real NATS and the embedded API: 100 Pods on 3 nodes, whatever is killed meanwhile."""

import asyncio
import pathlib
from typing import Any

import orjson

from carico_core.domain import errors
from tests.integration import scheduler_site

PODS = 100


async def test_a_hundred_pods_are_bound_once_and_within_what_was_advertised(tmp_path: pathlib.Path) -> None:
    async with scheduler_site.running(tmp_path) as site:
        site.start_scheduler()
        await site.create_pods(PODS)
        await site.until_succeeded(PODS)
        answer = await ask(site, "decision.get", b'{"pod": "pi-7"}')
        assert answer["decision"]["outcome"] == "bound"
        assert len((await ask(site, "capacity.list"))["nodes"]) == 3
        assert (await ask(site, "reservations.list"))["reservations"] == []
        await asyncio.sleep(0.2)
        assert len(site.bound) == PODS
        site.check(PODS)
        events = await site.client.request("GET", "/api/v1/namespaces/default/events")
        scheduled = [each for each in events["items"] if each["reason"] == "Scheduled"]
        assert scheduled
        assert scheduled[0]["message"].startswith("Successfully assigned default/pi-")
        assert site.stop_scheduler() == 0


async def test_killed_midway_and_restarted(tmp_path: pathlib.Path) -> None:
    async with scheduler_site.running(tmp_path) as site:
        site.start_scheduler()
        await site.create_pods(PODS)
        for done in (15, 40):
            await site.until_succeeded(done)
            site.kill_scheduler()
            site.start_scheduler()
        await site.until_succeeded(PODS)
        site.check(PODS)
        assert site.stop_scheduler() == 0


async def test_nats_and_the_api_restart_midway(tmp_path: pathlib.Path) -> None:
    async with scheduler_site.running(tmp_path) as site:
        site.start_scheduler()
        await site.create_pods(PODS)
        await site.until_succeeded(15)
        site.nats.kill()
        await asyncio.sleep(1.0)
        site.nats.start()
        await site.until_succeeded(45)
        site.kill_api()
        await asyncio.sleep(1.0)
        site.start_api()
        await site.until_succeeded(PODS)
        site.check(PODS)
        assert site.stop_scheduler() == 0


async def test_it_starts_before_all_else(tmp_path: pathlib.Path) -> None:
    async with scheduler_site.running(tmp_path) as site:
        site.kill_api()
        site.nats.kill()
        site.start_scheduler()
        await asyncio.sleep(1.5)
        site.start_api()
        site.nats.start()
        await site.create_pods(5)
        await site.until_succeeded(5)
        site.check(5)


async def ask(site: scheduler_site.Site, verb: str, payload: bytes = b"") -> Any:
    """The scheduler's answer."""
    for _ in range(50):
        try:
            return orjson.loads(await site.bus.request(f"carico.v1.query.scheduler.{verb}", payload, timeout_s=2.0))
        except errors.BusUnavailable:
            await asyncio.sleep(0.1)
    raise AssertionError(f"nobody answers {verb}")
