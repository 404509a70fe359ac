"""Asks the scheduler that leads, and where it knows no more, the stream of records and the Kubernetes API."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeVar

import orjson

from carico_cli.clusters import which
from carico_cli.jobs import refusals
from carico_cli.live import connection
from carico_core.domain import decision, errors
from carico_core.runtime.kube import api_client
from carico_core.runtime.process import clock as clocks
from carico_core.wire import messages as wire
from carico_core.wire import subjects

USER_AGENT = "carico-explain"
CONNECT_MOST_S = 5.0
ANSWER_MOST_S = 5.0
# A change of leader takes about this long where the old one gave up its Lease; one that died is waited out by others.
LEADER_MOST_S = 4.0
LEADER_EVERY_S = 0.5
# Rows of an answer: what the scheduler gives at most.
LIMIT_MOST = 1000
T = TypeVar("T")


class NoAnswer(errors.CaricoError):
    """No scheduler answers on the bus."""

    def __init__(self, at: which.Address) -> None:
        look = at.look if at.is_local else "`nats service ls` shows who is there, `carico doctor` what is wrong"
        super().__init__(f"no scheduler answers at {at.name}: none runs, or none leads at the moment; {look}")


class Refused(errors.UserError):
    """The scheduler says what is wrong with the question."""


class Bus(Protocol):
    """What is needed of the bus."""

    async def request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes: ...

    async def recent_decisions(self, namespace: str | None, pod: str | None, limit: int) -> list[tuple[str, bytes]]: ...


def run(asking: Callable[["Asker"], Awaitable[T]], at: which.Address, environ: Mapping[str, str]) -> T:
    """Connect, and return what `asking` returns."""

    async def main() -> T:
        clock = clocks.SystemClock()
        async with connection.bus_of(at, clock, name=USER_AGENT, within_s=CONNECT_MOST_S) as bus:
            return await asking(Asker(bus, at, lambda: _api(at, clock, environ), clock))

    return asyncio.run(main())


class Asker:
    """Questions to one cluster."""

    def __init__(
        self, bus: Bus, at: which.Address, api: Callable[[], contextlib.AbstractAsyncContextManager[refusals.Api]],
        clock: clocks.Clock,
    ) -> None:  # fmt: skip
        self._bus = bus
        self._at = at
        self._api = api
        self.clock = clock

    async def ask(self, verb: str, question: Mapping[str, object]) -> dict[str, Any]:
        """Return the answer of the scheduler that leads. Raises `NoAnswer`, `Refused`."""
        subject = subjects.query("scheduler", verb)
        until_s = self.clock.monotonic_s() + LEADER_MOST_S
        while True:
            try:
                payload = await self._bus.request(subject, orjson.dumps(question), timeout_s=ANSWER_MOST_S)
            except errors.BusUnavailable:
                if self.clock.monotonic_s() >= until_s:
                    raise NoAnswer(self._at) from None
                await asyncio.sleep(LEADER_EVERY_S)
                continue
            except errors.BusError as error:
                raise Refused(str(error).removeprefix(f"{subject}: ")) from None
            answer: dict[str, Any] = orjson.loads(payload)
            return answer

    async def record(self, namespace: str, pod: str) -> decision.Decision | None:
        """Return the newest decision about a Pod that the bus has kept."""
        try:
            found = await self._bus.recent_decisions(namespace, pod, 1)
            return wire.decode_decision(found[-1][1], subject=found[-1][0]) if found else None
        except (errors.BusError, errors.MessageError):
            return None

    async def pod(self, namespace: str, pod: str) -> Mapping[str, Any] | str | None:
        """Return the Pod from the API; None where there is none; as text why the API does not answer."""
        try:
            async with asyncio.timeout(ANSWER_MOST_S), self._api() as api:
                found: Mapping[str, Any] = await api.request("GET", f"/api/v1/namespaces/{namespace}/pods/{pod}")
                return found
        except errors.NotFound:
            return None
        except TimeoutError:
            return "the Kubernetes API does not answer"
        except errors.CaricoError as error:
            return f"the Kubernetes API cannot be asked: {error}"

    async def refusal(self, namespace: str, job: str) -> str | None:
        """Return why the API refused Pods of this Job; None where it did not, or that is not known."""
        with contextlib.suppress(errors.CaricoError, TimeoutError):
            async with asyncio.timeout(ANSWER_MOST_S), self._api() as api:
                return await refusals.of_job(api, namespace, job)
        return None


@contextlib.asynccontextmanager
async def _api(at: which.Address, clock: clocks.Clock, environ: Mapping[str, str]) -> AsyncIterator[refusals.Api]:
    api = await api_client.connect(at.kube, clock=clock, user_agent=USER_AGENT, environ=environ)
    try:
        yield api
    finally:
        await api.close()
