"""Events: what is remembered of those that were written."""

import pytest

from carico_core.runtime.kube import api_actions
from carico_core.runtime.process import clock as clocks
from tests.tools.memory import memory_kube
from tests.unit.scheduler import objects


class Desk:
    """An EventRecorder on a memory API."""

    def __init__(self) -> None:
        self.clock = clocks.FakeClock()
        self.kube = memory_kube.MemoryKube(clock=self.clock)
        self.recorder = api_actions.EventRecorder(self.kube, clock=self.clock, controller="c", instance="i")

    async def record(self, name: str, reason: str = "FailedScheduling") -> None:
        await self.recorder.record(objects.make_pod(name), reason=reason, action="x", note="full")

    @property
    def written(self) -> list[str]:
        """The method of each request for an Event."""
        return [each.partition(" ")[0] for each in self.kube.requests]

    @property
    def remembered(self) -> list[str]:
        return [key[0] for key in self.recorder._series]


async def test_the_event_of_a_bind_is_not_remembered() -> None:
    desk = Desk()
    await desk.record("a", "Scheduled")
    assert (desk.written, desk.remembered) == (["POST"], [])


async def test_an_event_is_remembered_for_as_long_as_it_can_be_counted_up() -> None:
    desk = Desk()
    await desk.record("a")
    await desk.record("b")
    desk.clock.advance(api_actions.SERIES_NS / 2e9)
    await desk.record("a")
    assert desk.written == ["POST", "POST", "PATCH"]
    desk.clock.advance(api_actions.SERIES_NS / 2e9)
    await desk.record("c")
    assert desk.remembered == ["uid-a", "uid-c"]
    desk.clock.advance(api_actions.SERIES_NS / 1e9)
    await desk.record("c", "Scheduled")
    assert desk.remembered == []


async def test_the_oldest_events_beyond_the_limit_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_actions, "SERIES_KEPT", 2)
    desk = Desk()
    for name in "aba":
        await desk.record(name)
    await desk.record("c")
    assert desk.remembered == ["uid-a", "uid-c"]
