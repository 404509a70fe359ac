"""The evictor writes only while its term and its nomination last."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from carico_core.domain import cluster, errors
from carico_core.runtime.process import clock as clocks
from carico_scheduler.pods import demand
from carico_scheduler.preempt import evictor, nominations
from tests.unit.scheduler import objects

VICTIMS = 2 * evictor.IN_FLIGHT_MAX


def with_uid(uid: str) -> dict[str, Any]:
    """A Pod as the API holds it."""
    made = objects.pod_object("low")
    made["metadata"]["uid"] = uid
    return made


class Desk:
    """An evictor over an API that runs `then` after each request."""

    def __init__(self) -> None:
        self.term: int | None = 7
        self.sent: list[tuple[str, Any]] = []
        self.then: Callable[[], None] = lambda: None
        # Called with each method while a request waits for a place.
        self.before_sent: Callable[[str], None] = lambda method: None
        # What a GET of a Pod finds.
        self.found: dict[str, Any] | errors.CaricoError = with_uid("another")
        self.events: list[str] = []
        self.outcomes: list[str] = []
        self.evictor = evictor.Evictor(
            self,
            clock=clocks.FakeClock(),
            write_event=self.preempted,
            count=self.outcomes.append,
            term=lambda: self.term,
            leaving=nominations.Nominations(),
        )
        self.nomination = nominations.Nomination(
            pod=objects.make_pod("high", scheduler_name="carico"), demand=demand.Demand(), node="node-0",
            victims=tuple(objects.make_pod(f"low-{n}", scheduler_name="other") for n in range(VICTIMS)), since_s=0.0,
        )  # fmt: skip

    async def request(
        self, method: str, path: str, *, params: Mapping[str, str] | None = None, body: Any = None,
        content_type: str = "", timeout_s: float = 10.0, permit: Callable[[], None] | None = None,
    ) -> Any:  # fmt: skip
        await asyncio.sleep(0)
        self.before_sent(method)
        if permit is not None:
            permit()
        self.sent.append((method, body))
        self.then()
        if isinstance(self.found, errors.CaricoError) and method == "GET":
            raise self.found
        return self.found if method == "GET" else {}

    def preempted(self, pod: cluster.Pod, text: str) -> None:
        self.events.append(pod.name)

    async def wait(self) -> None:
        """Wait until nothing is under way."""
        while self.evictor._tasks:
            await asyncio.sleep(0)

    async def run(self) -> int:
        """Run the evictions; return how many Pods were deleted."""
        self.evictor.start(self.nomination, 7)
        await self.wait()
        return sum(method == "DELETE" for method, _ in self.sent)


async def test_all_victims_go_and_the_condition_names_the_scheduler_that_evicts() -> None:
    desk = Desk()
    assert await desk.run() == VICTIMS == len(desk.events) == desk.outcomes.count("evicted")
    assert not desk.nomination.has_failed
    conditions = [body["status"]["conditions"][0] for _, body in desk.sent if "conditions" in body.get("status", {})]
    assert {each["message"] for each in conditions} == {"carico: preempting to accommodate a higher priority pod"}


async def test_the_condition_states_the_generation_of_its_pod_where_there_is_one() -> None:
    desk = Desk()
    first, *others = desk.nomination.victims
    desk.nomination.victims = (first._replace(generation=3), *others)
    await desk.run()
    conditions = [body["status"]["conditions"][0] for _, body in desk.sent if "conditions" in body.get("status", {})]
    assert [each.get("observedGeneration") for each in conditions] == [3] + [None] * (VICTIMS - 1)


async def test_no_request_is_sent_after_the_term() -> None:
    desk = Desk()

    def depose() -> None:
        if len(desk.sent) == 2:
            desk.term = None

    desk.then = depose
    assert await desk.run() == 0, "conditions were written; their Pods stay"
    assert len(desk.sent) <= 1 + evictor.IN_FLIGHT_MAX
    assert desk.nomination.has_failed
    desk.evictor.clear(desk.nomination.pod, 7)
    sent = len(desk.sent)
    while desk.evictor._tasks:
        await asyncio.sleep(0)
    assert len(desk.sent) == sent


async def test_no_victim_goes_by_a_request_that_waits_for_a_place_until_the_term_is_over() -> None:
    """The next leader may evict others for the same Pod by then."""
    desk = Desk()

    def depose(method: str) -> None:
        if method == "DELETE":
            desk.term = None

    desk.before_sent = depose
    assert await desk.run() == 0
    assert (desk.nomination.has_failed, desk.outcomes, desk.events) == (True, [], [])


async def test_no_further_victim_goes_once_the_nomination_is_over() -> None:
    desk = Desk()

    def end() -> None:
        desk.nomination.is_over = desk.nomination.is_over or desk.sent[-1][0] == "DELETE"

    desk.then = end
    assert 1 <= await desk.run() <= evictor.IN_FLIGHT_MAX


async def test_a_nomination_that_failed_meanwhile_stays_so() -> None:
    desk = Desk()
    desk.then = lambda: setattr(desk.nomination, "has_failed", True)
    assert await desk.run() == VICTIMS
    assert desk.nomination.has_failed


def refuse_first(desk: Desk, refused: str) -> None:
    """Have the first request of this method about a victim end in a conflict."""

    def refuse() -> None:
        method, body = desk.sent[-1]
        if method == refused and "nominatedNodeName" not in body.get("status", {}):
            desk.then = lambda: None
            raise errors.Conflict(status=409, reason="Conflict", message="another UID", request=method)

    desk.then = refuse


@pytest.mark.parametrize("refused", ["PATCH", "DELETE"])
@pytest.mark.parametrize(
    "found", [with_uid("another"), errors.NotFound(status=404, reason="NotFound", message="", request="GET")]
)  # fmt: skip
async def test_a_victim_that_was_replaced_by_another_pod_of_its_name_is_gone(
    refused: str, found: dict[str, Any] | errors.CaricoError
) -> None:  # fmt: skip
    """All that was done for the Pod was in vain then, and other Pods were evicted for it."""
    desk = Desk()
    desk.found = found
    refuse_first(desk, refused)
    await desk.run()
    assert len(desk.events) == VICTIMS - 1
    assert not desk.nomination.has_failed


@pytest.mark.parametrize("refused", ["PATCH", "DELETE"])
@pytest.mark.parametrize("is_found", [True, False])
async def test_a_victim_that_others_change_at_the_same_time_has_not_gone(refused: str, *, is_found: bool) -> None:
    desk = Desk()
    desk.found = with_uid(desk.nomination.victims[0].uid) if is_found else errors.ApiUnavailable("503")
    refuse_first(desk, refused)
    await desk.run()
    assert len(desk.events) == VICTIMS - 1
    assert desk.nomination.has_failed
    assert desk.outcomes.count("Conflict") == 1


async def test_a_pod_whose_eviction_is_under_way_is_not_evicted_twice() -> None:
    desk = Desk()
    cause = evictor.Cause("GangIncomplete", "text", "text")
    pod = objects.make_pod("member")
    for _ in range(3):
        desk.evictor.evict(pod, cause, lambda: True)
    await desk.wait()
    assert [method for method, _ in desk.sent] == ["PATCH", "DELETE"]
    desk.evictor.evict(pod, cause, lambda: True)
    await desk.wait()
    assert len(desk.sent) == 4
