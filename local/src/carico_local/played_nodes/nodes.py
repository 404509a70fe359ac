"""The Node objects of a fleet."""

import asyncio
from collections.abc import Iterator
from typing import Any, Protocol

from carico_core.domain import errors
from carico_local.control_plane import commands

NODES_PATH = "/api/v1/nodes"
FLEET_LABEL = "carico.dev/fleet"
IN_FLIGHT = 16
# 2 GiB per core, as on the nodes of the published cluster (dissertation 5.1: 4 vCPU with 8 GB).
_GIBIBYTES_PER_CORE = 2


class Api(Protocol):
    """What is needed from the Kubernetes API."""

    async def request(self, method: str, path: str, *, body: Any = None) -> Any:
        """Return the decoded answer."""
        ...


def names(count: int) -> list[str]:
    """Return node-1, node-2, ..."""
    return [f"node-{number + 1}" for number in range(count)]


def manifests(count: int, *, cores: int, pods: int) -> Iterator[dict[str, Any]]:
    """Yield Nodes that kwok manages, with their size; kwok sets them Ready."""
    size = {"cpu": str(cores), "memory": f"{cores * _GIBIBYTES_PER_CORE}Gi", "pods": str(pods)}
    for name in names(count):
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "annotations": {commands.KWOK_ANNOTATION: "fake"},
                "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", FLEET_LABEL: "kwok"},
            },
            "status": {"capacity": size, "allocatable": size},
        }


async def create(api: Api, count: int, *, cores: int, pods: int) -> int:
    """Create the Nodes that do not exist yet; return how many."""
    waiting = list(manifests(count, cores=cores, pods=pods))
    created = 0

    async def work() -> None:
        nonlocal created
        while waiting:
            node = waiting.pop()
            try:
                await api.request("POST", NODES_PATH, body=node)
                created += 1
            except errors.Conflict:
                continue

    async with asyncio.TaskGroup() as group:
        for _ in range(min(IN_FLIGHT, count)):
            group.create_task(work())
    return created
