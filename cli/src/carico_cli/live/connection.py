"""Connections to a cluster: its bus, its Kubernetes API, or a reader of both.

Two readers do two jobs. `reading` follows bus and API and counts Pods by job: for what a person looks at (`top`,
`status`, the view of `demo`). `connect_to` follows each Pod of the jobs, with its nodes and times, by the API alone:
for `submit --wait`, `compare` and a demo's report. It needs no NATS, so that a bus that is away does not end the wait.
A command that needs both has one watch: the reader passes its events on to the observer (`record`).
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from carico_cli.live import addresses, ports
from carico_core.domain import errors
from carico_core.runtime.process import clock as clocks

if TYPE_CHECKING:
    from carico_cli.live import reader
    from carico_core.runtime.bus import nats_bus
    from carico_core.runtime.kube import api_client

CONNECT_MOST_S = 5.0
T = TypeVar("T")


class ApiSession:
    """A cluster's API, and what was observed of its Pods."""

    def __init__(self, api: "api_client.KubeClient", clock: clocks.Clock) -> None:
        # Imported here, as the reader below: a command that only asks needs neither.
        from carico_local.jobs import observer

        self.api = api
        self.clock = clock
        self.observer = observer.Observer(clock=clock)


@contextlib.asynccontextmanager
async def api_of(
    at: addresses.Address, clock: clocks.Clock, environ: Mapping[str, str] | None, *, name: str
) -> AsyncIterator["api_client.KubeClient"]:  # fmt: skip
    """Connect to the cluster's API until the block is left. Raises `KubeconfigError`."""
    # Imported here: its HTTP client takes a fifth of the time of a command that asks only the bus.
    from carico_core.runtime.kube import api_client

    api = await api_client.connect(at.kube, clock=clock, user_agent=name, environ=environ)
    try:
        yield api
    finally:
        await api.close()


@contextlib.asynccontextmanager
async def connect_to(at: addresses.Address, environ: Mapping[str, str] | None = None) -> AsyncIterator[ApiSession]:
    """Connect to the cluster's API until the block is left, with an observer of its Pods."""
    clock = clocks.SystemClock()
    async with api_of(at, clock, environ, name="carico-cli") as api:
        yield ApiSession(api, clock)


@contextlib.asynccontextmanager
async def reading(
    at: addresses.Address, environ: Mapping[str, str], *, name: str, record: ports.SignalSink | None = None,
    firsts: Iterable[str] | None = None, is_brief: bool = False,
) -> AsyncIterator["reader.Reader"]:  # fmt: skip
    """Read the cluster's signals until the block is left; `complete` is set once each of `firsts` is known.

    `is_brief`: see `Reader`.
    """
    from carico_cli.live import reader

    clock = clocks.SystemClock()
    found = reader.Reader(
        lambda: at, connector(clock, environ, name=name), clock=clock, lease_s=at.bus.lease_s, record=record,
        firsts=reader.FIRSTS if firsts is None else firsts, is_brief=is_brief,
    )  # fmt: skip
    task = asyncio.ensure_future(found.run())
    try:
        yield found
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def join(
    at: addresses.Address, clock: clocks.Clock, *, name: str, within_s: float | None = None
) -> "nats_bus.NatsBus":  # fmt: skip
    """Connect to the cluster's bus, in the role cli. Without `within_s` it waits.

    Raises `BusUnavailable`, or `BusRefused` where the credentials are of another role.
    """
    # Imported here: it takes half of the time of a command that asks only the API.
    from carico_core.runtime.bus import nats_bus
    from carico_core.wire import roles

    inbox = roles.inbox(roles.Role.CLI)
    bus = await nats_bus.connect(
        at.bus, name=name, clock=clock, owns_streams=False, inbox=inbox, within_s=within_s
    )  # fmt: skip
    try:
        # Else each question would look unanswered.
        await bus.check_inbox()
    except errors.BusRefused as error:
        await bus.close()
        do = f"with a reader's credentials set CARICO_BUS_INBOX_PREFIX={roles.inbox(roles.Role.READER)}"
        raise errors.BusRefused(f"{error}. Commands have the role cli; {do}") from None
    return bus


@contextlib.asynccontextmanager
async def bus_of(
    at: addresses.Address, clock: clocks.Clock, *, name: str, within_s: float
) -> AsyncIterator["nats_bus.NatsBus"]:  # fmt: skip
    """Connect to the cluster's bus until the block is left. Raises `BusUnavailable` with what to do."""
    try:
        joined = await join(at, clock, name=name, within_s=within_s)
    except errors.BusRefused:
        raise
    except errors.BusUnavailable as error:
        raise errors.BusUnavailable(f"NATS at {at.url}: {error}; {at.look}") from None
    try:
        yield joined
    finally:
        await joined.close()


def on_bus(at: addresses.Address, asking: "Callable[[nats_bus.NatsBus], Awaitable[T]]", *, name: str) -> T:
    """Connect to the cluster's bus, and return what `asking` returns. Raises `BusUnavailable` with what to do."""

    async def main() -> T:
        async with bus_of(at, clocks.SystemClock(), name=name, within_s=CONNECT_MOST_S) as bus:
            return await asking(bus)

    return asyncio.run(main())


def connector(clock: clocks.Clock, environ: Mapping[str, str], *, name: str) -> ports.Connect:
    """Return a function that connects to NATS, and to the Kubernetes API where a kubeconfig leads to one."""

    @contextlib.asynccontextmanager
    async def connect(address: addresses.Address) -> AsyncIterator[tuple[ports.Bus, ports.Api | str]]:
        bus = await join(address, clock, name=name)
        try:
            async with contextlib.AsyncExitStack() as stack:
                api: ports.Api | str
                try:
                    api = await stack.enter_async_context(api_of(address, clock, environ, name=name))
                except errors.KubeconfigError as error:
                    api = str(error)
                yield bus, api
        finally:
            await bus.close()

    return connect
