"""One cluster's state and everything that acts on it, assembled for the HTTP layer."""

import asyncio
import dataclasses
import uuid

from carico_core.runtime.process import clock as clocks
from carico_core.wire.kubernetes import instants
from carico_local.api.lifecycle import deletion, writing
from carico_local.api.model import resources
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
    # Pods with another schedulerName get a warning; empty: no warnings.
    scheduler_names: tuple[str, ...]


def assemble(kept: store.Store, clock: clocks.Clock, *, scheduler_names: tuple[str, ...] = ()) -> Cluster:
    """Return the cluster of a store; create the namespaces that every cluster has."""
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
        hub=watch.Hub(kept, clock),
        scheduler_names=scheduler_names,
    )
    for name in (home.data["metadata"]["name"] for home in kept.select("namespaces")):
        give_service_account(kept, clock, name)
    return cluster


def give_service_account(kept: store.Store, clock: clocks.Clock, namespace: str) -> None:
    """Create the service account `default` of a namespace, as the controller manager does."""
    if kept.get("serviceaccounts", (namespace, "default")) is None:
        metadata = {
            "name": "default",
            "namespace": namespace,
            "uid": str(uuid.uuid4()),
            "creationTimestamp": instants.format_time(clock.wall_ns()),
        }
        kept.put("serviceaccounts", {"metadata": metadata})


async def checkpoint_forever(kept: store.Store) -> None:
    """Move the write-ahead log into the database every 10 s until cancelled; retry where the disk is full."""
    moved = -1
    while True:
        await asyncio.sleep(_CHECKPOINT_S)
        if (revision := kept.revision) != moved:
            with store.unwritable_ignored("checkpoint"):
                await asyncio.to_thread(kept.checkpoint)
                moved = revision
