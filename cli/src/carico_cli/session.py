"""A connection to a running cluster: its API, its bus, and an observer of both."""

import contextlib
from collections.abc import AsyncIterator

from carico_cli.live import joining, where
from carico_core.runtime import bus as buses
from carico_core.runtime import clock as clocks
from carico_core.runtime import kube, nats_bus
from carico_local import observer
from carico_local.cluster import state

# A machine that is busy takes seconds; nobody waits for a bus that is away without a word.
CONNECT_MOST_S = 10.0


class Session:
    """What commands use of a cluster."""

    def __init__(self, api: kube.KubeClient, bus: nats_bus.NatsBus, clock: clocks.Clock) -> None:
        self.api = api
        self.bus = bus
        self.clock = clock
        self.observer = observer.Observer(clock=clock)


@contextlib.asynccontextmanager
async def connect(paths: state.Paths, found: state.ClusterState) -> AsyncIterator[Session]:
    """A session with a local cluster, ended when the block is left."""
    bus, wanted = buses.BusSettings(url=found.nats_url), kube.KubeSettings(kubeconfig=str(paths.kubeconfig))
    async with connect_to(where.Address(name=paths.name, bus=bus, kube=wanted, is_local=True)) as session:
        yield session


@contextlib.asynccontextmanager
async def connect_to(address: where.Address) -> AsyncIterator[Session]:
    """A session with any cluster, ended when the block is left."""
    clock = clocks.SystemClock()
    api = await kube.connect(address.kube, clock=clock, user_agent="carico-cli")
    try:
        async with joining.bus(address, clock, name="carico-cli", within_s=CONNECT_MOST_S) as bus:
            yield Session(api, bus, clock)
    finally:
        await api.close()
