"""How a service lives on a bus: it connects, repeats what the bus does not take yet, and answers while it leads."""

import asyncio
import bisect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

import orjson

from carico_core.domain import errors
from carico_core.runtime.bus import port
from carico_core.runtime.observe import logs
from carico_core.runtime.process import tasks

RETRY_S = 0.5
# In a page of a list: with names of 253 characters, the longest, they take 1.9 MB, and NATS takes 2 MiB.
NODES_MOST = 4000

T = TypeVar("T")


class Connection(Protocol):
    """A bus that can be closed."""

    async def close(self) -> None:
        """Close it."""


C = TypeVar("C", bound=Connection)


class BadQuestion(errors.CaricoError):
    """A query that is malformed; the message states what was expected."""


class Answering(Protocol):
    """A bus that takes a service's endpoints."""

    async def serve(self, service: port.ServiceSpec) -> port.ServiceHandle:
        """Answer queries."""


class Leadership(Protocol):
    """Whether this replica leads."""

    async def until(self, *, leads: bool) -> None:
        """Wait until this replica leads, or until it does not."""


async def run_on(
    connecting: Awaitable[C], stop: tasks.Stop, run: Callable[[C, tasks.Stop], Awaitable[None]]
) -> None:  # fmt: skip
    """Connect, unless `stop` comes first, run until `stop`, and close the bus."""
    bus = await tasks.unless(stop, connecting)
    if bus is None:
        return
    try:
        await run(bus, stop)
    finally:
        await bus.close()


async def until_taken(
    ask: Callable[[], Awaitable[T]], *, every_s: float | None = None,
    on_away: Callable[[errors.BusUnavailable], None] = lambda _: None,
) -> T:  # fmt: skip
    """Call until the bus takes it, and return the answer; the bus may become unavailable at any moment."""
    while True:
        try:
            return await ask()
        except errors.BusUnavailable as error:
            on_away(error)
            await asyncio.sleep(RETRY_S if every_s is None else every_s)


async def until_taken_with_warnings(what: str, ask: Callable[[], Awaitable[T]], *, log: str) -> T:
    """Call until the bus takes it; a warning in the log `log` names `what` each time that it does not."""
    line = logs.get(log)
    return await until_taken(ask, on_away=lambda error: line.warning("bus unavailable", wanted=what, error=str(error)))


async def answer_while_leading(
    bus: Answering, spec: Callable[[], port.ServiceSpec], leadership: Leadership, *, log: str
) -> None:
    """Answer queries while this replica leads, until cancelled."""
    while True:
        await leadership.until(leads=True)
        handle = await until_taken_with_warnings("queries", lambda: bus.serve(spec()), log=log)
        await leadership.until(leads=False)
        await handle.close()


def read_question(payload: bytes) -> dict[str, Any]:
    """Return the parsed query; an empty one asks for everything. Raises `BadQuestion`."""
    try:
        asked = orjson.loads(payload or b"{}")
    except orjson.JSONDecodeError as error:
        raise BadQuestion(f"expected a JSON object: {error}") from error
    if not isinstance(asked, dict):
        raise BadQuestion(f"got {type(asked).__name__}, expected a JSON object")
    return asked


def after_of(asked: Mapping[str, Any]) -> str:
    """Return the name after which a list is to begin; empty: with the first. Raises `BadQuestion`."""
    after = asked.get("after", "")
    if not isinstance(after, str):
        raise BadQuestion(f'after: got {type(after).__name__}, expected "next" of the page before')
    return after


def page(names: Iterable[str], after: str, *, most: int = NODES_MOST) -> tuple[list[str], dict[str, str]]:
    """Return the first names `after` one, in order, and {"next": the last of them} if more follow, else {}."""
    ordered = sorted(names)
    begin = bisect.bisect_right(ordered, after)
    found = ordered[begin : begin + most]
    return found, ({"next": found[-1]} if len(ordered) > begin + most else {})


def pod_of(asked: Mapping[str, Any]) -> tuple[str, str]:
    """Return namespace and name of the Pod in question. Raises `BadQuestion`."""
    namespace, pod = asked.get("namespace", "default"), asked.get("pod")
    if not isinstance(namespace, str) or not isinstance(pod, str):
        raise BadQuestion('expected {"namespace": "default", "pod": "NAME"}')
    return namespace, pod
