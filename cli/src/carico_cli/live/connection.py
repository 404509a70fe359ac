"""Connections to a cluster: its bus, its Kubernetes API, or a reader of both."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping

from carico_cli.clusters import which
from carico_cli.live import ports, reader
from carico_core.domain import errors
from carico_core.runtime.bus import nats_bus
from carico_core.runtime.bus import port as buses
from carico_core.runtime.kube import api_client
from carico_core.runtime.process import clock as clocks
from carico_core.wire import roles
from carico_local import observer
from carico_local.cluster import state


class Session:
    """A cluster's API, and what was seen of its Pods."""

    def __init__(self, api: api_client.KubeClient, clock: clocks.Clock) -> None:
        self.api = api
        self.clock = clock
        self.observer = observer.Observer(clock=clock)


def local_address(paths: state.Paths, found: state.ClusterState) -> which.Address:
    """Return the address of a cluster of this machine."""
    bus, wanted = buses.BusSettings(url=found.nats_url), api_client.KubeSettings(kubeconfig=str(paths.kubeconfig))
    return which.Address(name=paths.name, bus=bus, kube=wanted, is_local=True)


@contextlib.asynccontextmanager
async def connect_to(address: which.Address, environ: Mapping[str, str] | None = None) -> AsyncIterator[Session]:
    """Connect to a cluster's API until the block is left."""
    clock = clocks.SystemClock()
    api = await api_client.connect(address.kube, clock=clock, user_agent="carico-cli", environ=environ)
    try:
        yield Session(api, clock)
    finally:
        await api.close()


@contextlib.asynccontextmanager
async def reading(
    address: which.Address, environ: Mapping[str, str], *, name: str, record: ports.Record | None = None
) -> AsyncIterator[reader.Reader]:  # fmt: skip
    """Read a cluster's signals until the block is left."""
    clock = clocks.SystemClock()
    found = reader.Reader(
        lambda: address, connector(clock, environ, name=name), clock=clock, lease_s=address.bus.lease_s, record=record
    )
    task = asyncio.ensure_future(found.run())
    try:
        yield found
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@contextlib.asynccontextmanager
async def bus_of(
    at: which.Address, clock: clocks.Clock, *, name: str, within_s: float
) -> AsyncIterator[nats_bus.NatsBus]:  # fmt: skip
    """Connect to the bus there until the block is left. Raises `BusUnavailable` with what to do."""
    try:
        async with asyncio.timeout(within_s):
            joined = await nats_bus.connect(
                at.bus, name=name, clock=clock, owns_streams=False, inbox=roles.inbox(roles.Role.CLI)
            )
    except TimeoutError:
        raise errors.BusUnavailable(f"NATS at {at.url}: cannot connect within {within_s:g} s; {at.look}") from None
    try:
        yield joined
    finally:
        await joined.close()


def connector(clock: clocks.Clock, environ: Mapping[str, str], *, name: str) -> ports.Connect:
    """Connect to NATS, and to the Kubernetes API where a kubeconfig leads to one."""

    @contextlib.asynccontextmanager
    async def connect(address: which.Address) -> AsyncIterator[tuple[ports.Bus, ports.Api | str]]:
        bus = await nats_bus.connect(
            address.bus, name=name, clock=clock, owns_streams=False, inbox=roles.inbox(roles.Role.CLI)
        )
        try:
            async with _api(address, clock, environ, name) as api:
                yield bus, api
        finally:
            await bus.close()

    return connect


@contextlib.asynccontextmanager
async def _api(
    address: which.Address, clock: clocks.Clock, environ: Mapping[str, str], name: str
) -> AsyncIterator[ports.Api | str]:
    try:
        api = await api_client.connect(address.kube, clock=clock, user_agent=name, environ=environ)
    except errors.KubeconfigError as error:
        yield f"{error}; jobs are not shown"
        return
    try:
        yield api
    finally:
        await api.close()
