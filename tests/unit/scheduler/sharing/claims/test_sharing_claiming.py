"""The claims of a gang: each step ends for all of its Pods in the same way, whatever comes right after it."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from carico_scheduler.bind import binder
from carico_scheduler.pods import demand, queue
from carico_scheduler.sharing.claims import claiming
from tests.tools import waiting as waits
from tests.unit.scheduler import objects

SENT_S = 7.0


def waiting(name: str) -> queue.Waiting:
    pod = objects.make_pod(name)
    return queue.Waiting(pod=pod, demand=demand.demand_of(pod), since_s=0.0, goes_at_once=True)


def claim(
    one: queue.Waiting, together: claiming.Together | None, *, store: Callable[[], Awaitable[float]]
) -> claiming.Claiming:  # fmt: skip
    async def ready() -> None:
        """Be ready at once."""

    return claiming.Claiming(ready=ready, store=store, check=lambda _: None, waiting=one, together=together)


async def stored() -> float:
    return SENT_S


async def lost() -> float:
    raise binder.Withheld("not sent: lost")


@pytest.mark.parametrize("is_last", [True, False])
def test_a_claim_that_is_lost_at_once_leaves_no_pod_waiting(is_last: bool) -> None:
    """The last one of a step goes on before the others look, and may fail in the next step before they do."""

    async def main() -> None:
        together = claiming.Together(3)
        pods = [waiting(name) for name in "abc"]
        loser = 2 if is_last else 0
        pods[loser].goes_at_once = False
        claims = [claim(each, together, store=lost if at == loser else stored) for at, each in enumerate(pods)]
        async with asyncio.timeout(waits.WAIT_S):
            found = await asyncio.gather(*(each.prepare() for each in claims), return_exceptions=True)
        assert [isinstance(each, binder.Withheld) for each in found] == [True] * 3
        # One that must wait makes all of them wait, so that they come together.
        assert [each.goes_at_once for each in pods] == [False] * 3

    asyncio.run(main())


def test_a_gang_that_has_stored_all_claims_may_bind() -> None:
    async def main() -> None:
        together = claiming.Together(3)
        claims = [claim(waiting(name), together, store=stored) for name in "abc"]
        async with asyncio.timeout(waits.WAIT_S):
            assert await asyncio.gather(*(each.prepare() for each in claims)) == [None] * 3

    asyncio.run(main())
