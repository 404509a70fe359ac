"""The nemesis' site starts each service again that has ended by itself, once."""

import asyncio
import collections
import types
from typing import Any

import pytest

from tests.chaos.nemesis import history, nemesis_site

NAME = "aggregator"


class Site:
    """As much of a site as supervises one service; `living` processes of it run."""

    def __init__(self) -> None:
        self.history = history.History()
        self.living = 0
        self.part: Any = nemesis_site.Part(name=NAME)
        self.parts = {NAME: self.part}
        self.busy: dict[str, asyncio.Lock] = collections.defaultdict(asyncio.Lock)

    async def spawn(self, _: str) -> None:
        self.living += 1
        self.part.child = types.SimpleNamespace(process=types.SimpleNamespace(returncode=None))

    def end(self) -> None:
        self.living -= 1
        self.part.child.process.returncode = 1


async def test_a_fault_that_starts_what_has_ended_is_not_followed_by_a_second_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nemesis_site, "STARTED_AGAIN_S", 0.0)
    site = Site()
    await site.spawn(NAME)

    async def restart() -> None:
        async with site.busy[NAME]:
            await site.spawn(NAME)
            await asyncio.sleep(0.0)

    await site.busy[NAME].acquire()
    site.end()
    restarting = asyncio.create_task(restart())
    supervising = asyncio.create_task(nemesis_site.Site.supervise_forever(site))  # type: ignore[arg-type]
    try:
        await asyncio.sleep(0.0)
        # The one that waits takes it only after the supervisor has looked.
        site.busy[NAME].release()
        await restarting
        for _ in range(10):
            await asyncio.sleep(0.0)
        assert (site.living, site.history.ends) == (1, [])
        site.end()
        for _ in range(10):
            await asyncio.sleep(0.0)
        assert (site.living, len(site.history.ends)) == (1, 1)
    finally:
        supervising.cancel()
