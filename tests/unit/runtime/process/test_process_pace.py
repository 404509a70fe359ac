"""A caller that waits for its turn keeps the rate."""

import asyncio

import pytest

from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import tasks


async def test_requests_are_spaced(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, waits = clocks.FakeClock(), []

    async def sleep(seconds: float) -> None:
        waits.append(round(seconds, 6))

    monkeypatch.setattr(asyncio, "sleep", sleep)
    pace = tasks.Pace(10.0, clock=clock)
    for _ in range(3):
        await pace.wait()
    clock.advance(1.0)
    await pace.wait()
    assert waits == [0.1, 0.2]
