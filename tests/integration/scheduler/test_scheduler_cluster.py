"""The scheduler as a process, on real NATS and the embedded API: 100 Pods on 3 nodes, whatever is killed meanwhile."""

import asyncio
import pathlib
from typing import Any

import pytest

from tests.tools import waiting
from tests.tools.sites import scheduler_site

PODS = 100


async def test_a_hundred_pods_are_bound_once_and_within_what_was_advertised(tmp_path: pathlib.Path) -> None:
    async with scheduler_site.running(tmp_path) as site:
        site.start_scheduler()
        await site.create_pods(PODS)
        await site.until_succeeded(PODS)
        answer = await site.ask("decision.get", b'{"pod": "pi-7"}')
        assert answer["decision"]["outcome"] == "bound"
        assert len((await site.ask("capacity.list"))["nodes"]) == 3
        # Until the last nodes have accounted for theirs.
        await waiting.answered(lambda: site.ask("reservations.list"), lambda told: told["reservations"] == [])
        # Reported along with the binds, not before them.
        await waiting.until(lambda: len(site.bound) == PODS)
        site.check(PODS)

        async def events() -> list[dict[str, Any]]:
            found = await site.client.request("GET", "/api/v1/namespaces/default/events")
            return [each for each in found["items"] if each["reason"] == "Scheduled"]

        scheduled = await waiting.answered(events)
        assert scheduled[0]["message"].startswith("Successfully assigned default/pi-")
        assert site.stop_scheduler() == 0


async def test_a_site_on_which_a_test_fails_prints_the_end_of_each_log(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def fail() -> None:
        async with scheduler_site.running(tmp_path):
            (tmp_path / "scheduler.log").write_text("".join(f"line {number}\n" for number in range(100)))
            raise LookupError("the test's own")

    with pytest.raises(ExceptionGroup):
        await fail()
    said = capsys.readouterr().out
    assert "--- scheduler.log: the last 40 of 100 lines\nline 60\n" in said
    assert "line 59" not in said
    assert {line.split()[1] for line in said.splitlines() if line.startswith("--- ")} == {
        "api.log:", "nats/nats.log:", "scheduler.log:"
    }  # fmt: skip


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
