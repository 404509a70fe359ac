"""One cluster's state with everything that acts on it, put together; what the HTTP layer talks to."""

import asyncio
import dataclasses
import uuid

from carico_core.runtime.process import clock as clocks
from carico_local.api.lifecycle import deletion, writing
from carico_local.api.model import objects, resources
from carico_local.api.storage import listing, store, watch

_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
# How often the write-ahead log is moved into the database, if anything was written.
_CHECKPOINT_S = 10.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cluster:
    """The parts of one cluster's API."""

    store: store.Store
    clock: clocks.Clock
    writer: writing.Writer
    remover: deletion.Remover
    lister: listing.Lister
    hub: watch.Hub
    # Pods of another schedulerName get a warning; empty: none does.
    scheduler_names: tuple[str, ...] = ()


def assemble(kept: store.Store, clock: clocks.Clock, *, scheduler_names: tuple[str, ...] = ()) -> Cluster:
    """Return the cluster that a store holds, with the namespaces that every cluster has."""
    writer = writing.Writer(kept, clock)
    with kept.batch():
        for name in _NAMESPACES:
            if kept.get("namespaces", ("", name)) is None:
                writer.create(resources.NAMESPACES, "", {"metadata": {"name": name}})
    cluster = Cluster(
        store=kept,
        clock=clock,
        writer=writer,
        remover=deletion.Remover(kept, clock),
        lister=listing.Lister(kept),
        hub=watch.Hub(kept),
        scheduler_names=scheduler_names,
    )
    for name in (home.data["metadata"]["name"] for home in kept.select("namespaces")):
        give_service_account(kept, clock, name)
    return cluster


def give_service_account(kept: store.Store, clock: clocks.Clock, namespace: str) -> None:
    """Create a namespace's account `default`, as the controller manager does."""
    if kept.get("serviceaccounts", (namespace, "default")) is None:
        metadata = {
            "name": "default",
            "namespace": namespace,
            "uid": str(uuid.uuid4()),
            "creationTimestamp": objects.timestamp(clock.wall_ns()),
        }
        kept.put("serviceaccounts", {"metadata": metadata})


async def checkpoint_forever(kept: store.Store) -> None:
    """Move the log into the database, again and again, until cancelled."""
    moved = -1
    while True:
        await asyncio.sleep(_CHECKPOINT_S)
        if kept.revision != moved:
            moved = kept.revision
            await asyncio.to_thread(kept.checkpoint)
