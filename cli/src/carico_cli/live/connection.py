"""Connections to a cluster: its bus, its Kubernetes API, or both."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping

from carico_cli.clusters import which
from carico_cli.live import reader
from carico_core.domain import errors
from carico_core.runtime.bus import nats_bus
from carico_core.runtime.bus import port as buses
from carico_core.runtime.kube import api_client
from carico_core.runtime.process import clock as clocks
from carico_core.wire import roles
from carico_local import observer
from carico_local.cluster import state

# A machine that is busy takes seconds; nobody waits for a bus that is away without a word.
CONNECT_MOST_S = 10.0


class Session:
    """What commands use of a cluster."""

    def __init__(self, api: api_client.KubeClient, bus: nats_bus.NatsBus, clock: clocks.Clock) -> None:
        self.api = api
        self.bus = bus
        self.clock = clock
        self.observer = observer.Observer(clock=clock)


@contextlib.asynccontextmanager
async def connect(paths: state.Paths, found: state.ClusterState) -> AsyncIterator[Session]:
    """A session with a local cluster, ended when the block is left."""
    bus, wanted = buses.BusSettings(url=found.nats_url), api_client.KubeSettings(kubeconfig=str(paths.kubeconfig))
    async with connect_to(which.Address(name=paths.name, bus=bus, kube=wanted, is_local=True)) as session:
        yield session


@contextlib.asynccontextmanager
async def connect_to(address: which.Address, environ: Mapping[str, str] | None = None) -> AsyncIterator[Session]:
    """A session with any cluster, ended when the block is left."""
    clock = clocks.SystemClock()
    api = await api_client.connect(address.kube, clock=clock, user_agent="carico-cli", environ=environ)
    try:
        async with bus_of(address, clock, name="carico-cli", within_s=CONNECT_MOST_S) as bus:
            yield Session(api, bus, clock)
    finally:
        await api.close()


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


def connector(clock: clocks.Clock, environ: Mapping[str, str], *, name: str) -> reader.Connect:
    """Connects to NATS, and to the Kubernetes API where a kubeconfig leads to one."""

    @contextlib.asynccontextmanager
    async def connect(address: which.Address) -> AsyncIterator[tuple[reader.Bus, reader.Api | str]]:
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
) -> AsyncIterator[reader.Api | str]:
    try:
        api = await api_client.connect(address.kube, clock=clock, user_agent=name, environ=environ)
    except errors.KubeconfigError as error:
        yield f"{error}; jobs are not shown"
        return
    try:
        yield api
    finally:
        await api.close()
