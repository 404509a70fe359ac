"""Which Nodes are Ready at the API, by a watch (a list of thousands is megabytes); and which advertise."""

import asyncio
import contextlib
import pathlib
from collections.abc import Collection, Mapping
from typing import Any

from carico_core.domain import errors
from carico_core.runtime.bus import nats_bus
from carico_core.runtime.bus import port as buses
from carico_core.runtime.kube import api_client
from carico_core.runtime.process import clock as clocks
from carico_core.wire import subjects
from carico_core.wire.kubernetes import object_fields as fields
from carico_local.cluster.services import readiness


class ReadyNodes:
    """`names`: the Nodes that are Ready now."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    async def follow(self, kubeconfig: pathlib.Path, *, clock: clocks.Clock) -> None:
        """Keep `names` up to date until cancelled. Raises `KubeconfigError`."""
        settings = api_client.KubeSettings(kubeconfig=str(kubeconfig))
        client = await api_client.connect(settings, clock=clock, user_agent="carico-supervisor")
        try:
            async for event in client.mirror("/api/v1/nodes"):
                match event:
                    case api_client.Listed(objects=objects):
                        self.names = {node["metadata"]["name"] for node in objects if is_ready(node)}
                    case api_client.Changed(type=kind, object=node):
                        name = node["metadata"]["name"]
                        (self.names.add if kind != "DELETED" and is_ready(node) else self.names.discard)(name)
        finally:
            await client.close()


def is_ready(node: Mapping[str, Any]) -> bool:
    """Return True where the Node has the condition Ready."""
    return fields.is_ready(node.get("status") or {})


async def until_advertised(
    wanted: Collection[str], *, nats_url: str, kubeconfig: pathlib.Path, clock: clocks.Clock
) -> None:
    """Wait until every node has advertised a capacity and is Ready at the API."""
    advertised: set[str] = set()
    bus = await nats_bus.connect(buses.BusSettings(url=nats_url), name="supervisor", clock=clock)
    nodes = ReadyNodes()
    following = asyncio.ensure_future(nodes.follow(kubeconfig, clock=clock))
    try:
        await bus.subscribe(subjects.CAPACITY_ALL, lambda subject, _: advertised.add(subjects.node_of(subject)))
        # The server may be too busy to answer in time: every node advertises again within a second.
        with contextlib.suppress(errors.BusUnavailable):
            advertised |= {subjects.node_of(subject) for subject, _ in await bus.latest_capacities()}
        while not (advertised.issuperset(wanted) and nodes.names.issuperset(wanted)):
            if following.done():
                following.result()
            await asyncio.sleep(readiness.LAST_PAUSE_S)
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await bus.close()
