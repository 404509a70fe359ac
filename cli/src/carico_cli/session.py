"""A connection to a running cluster: its API, its bus, and an observer of both."""

import contextlib
from collections.abc import AsyncIterator

from carico_core.runtime import bus as buses
from carico_core.runtime import clock as clocks
from carico_core.runtime import kube, nats_bus
from carico_core.wire import roles
from carico_local import observer
from carico_local.cluster import state


class Session:
    """What commands use of a cluster."""

    def __init__(self, api: kube.KubeClient, bus: nats_bus.NatsBus, clock: clocks.Clock) -> None:
        self.api = api
        self.bus = bus
        self.clock = clock
        self.observer = observer.Observer(clock=clock)


@contextlib.asynccontextmanager
async def connect(paths: state.Paths, found: state.ClusterState) -> AsyncIterator[Session]:
    """A session, ended when the block is left."""
    clock = clocks.SystemClock()
    api = await kube.connect(kube.KubeSettings(kubeconfig=str(paths.kubeconfig)), clock=clock, user_agent="carico-cli")
    try:
        bus = await nats_bus.connect(
            buses.BusSettings(url=found.nats_url), name="carico-cli", clock=clock, owns_streams=False,
            inbox=roles.inbox(roles.Role.CLI),
        )  # fmt: skip
        try:
            yield Session(api, bus, clock)
        finally:
            await bus.close()
    finally:
        await api.close()
