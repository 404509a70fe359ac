"""The connections to a cluster that a reader of its signals uses."""

import contextlib
from collections.abc import AsyncIterator, Mapping

from carico_cli.live import reader
from carico_cli.live import where as places
from carico_core.domain import errors
from carico_core.runtime import clock as clocks
from carico_core.runtime import kube, nats_bus
from carico_core.wire import roles


def connector(clock: clocks.Clock, environ: Mapping[str, str], *, name: str) -> reader.Connect:
    """Connects to NATS, and to the Kubernetes API where a kubeconfig leads to one."""

    @contextlib.asynccontextmanager
    async def connect(address: places.Address) -> AsyncIterator[tuple[reader.Bus, reader.Api | str]]:
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
    address: places.Address, clock: clocks.Clock, environ: Mapping[str, str], name: str
) -> AsyncIterator[reader.Api | str]:
    try:
        api = await kube.connect(address.kube, clock=clock, user_agent=name, environ=environ)
    except errors.KubeconfigError as error:
        yield f"{error}; jobs are not shown"
        return
    try:
        yield api
    finally:
        await api.close()
