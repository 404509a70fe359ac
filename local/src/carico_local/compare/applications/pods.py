"""The applications' Pods as the API has them, and the directory that their clients follow."""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from typing import Any, Protocol

from carico_core.domain import errors
from carico_core.runtime.kube import list_watch
from carico_core.wire.kubernetes import object_fields as fields
from carico_local.applications import directory, manifests
from carico_local.jobs import job_labels

PODS_PATH = "/api/v1/pods"


class Api(Protocol):
    """What is needed from the Kubernetes API."""

    def mirror(
        self, path: str, *, params: Mapping[str, str] | None = None
    ) -> AsyncIterator[list_watch.MirrorEvent]: ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AppPod:
    """A Pod of a service."""

    uid: str
    name: str
    service: str
    node: str
    address: str
    is_ready: bool
    is_ending: bool


class Pods:
    """The Pods by UID; `directory` gets the addresses of those that are ready and not about to end."""

    def __init__(self, server: directory.DirectoryServer) -> None:
        self.found: dict[str, AppPod] = {}
        self._server = server
        self._changed = asyncio.Event()

    async def follow(self, api: Api) -> None:
        """Keep the Pods up to date until cancelled."""
        async for event in api.mirror(PODS_PATH, params={"labelSelector": manifests.APPLICATION_LABEL}):
            self.on_event(event)

    def on_event(self, event: list_watch.MirrorEvent) -> None:
        """Take in one event of the API."""
        match event:
            case list_watch.Listed(objects=objects):
                self.found = {each.uid: each for each in map(_parse, objects)}
            case list_watch.Changed(type="DELETED", object=pod):
                self.found.pop(pod["metadata"]["uid"], None)
            case list_watch.Changed(object=pod):
                parsed = _parse(pod)
                self.found[parsed.uid] = parsed
            case _:
                return
        table: dict[str, list[str]] = {}
        for each in self.serving():
            table.setdefault(each.service, []).append(each.address)
        self._server.publish({service: sorted(addresses) for service, addresses in table.items()})
        self._changed.set()

    def serving(self) -> list[AppPod]:
        """Return the Pods that answer requests."""
        return [each for each in self.found.values() if each.is_ready and not each.is_ending and each.address]

    def nodes(self) -> dict[str, str]:
        """Return the node of each service that answers."""
        return {each.service: each.node for each in self.serving()}

    async def until(self, is_so: Callable[[], bool], most_s: float, what: str) -> None:
        """Wait until a condition on the Pods holds. Raises `EnvironmentUnfit`."""
        try:
            async with asyncio.timeout(most_s):
                while not is_so():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise errors.EnvironmentUnfit(f"{what} after {most_s:.0f} s; {self._state()}") from None

    async def until_ready(self, services: Collection[str], most_s: float) -> None:
        """Wait until each service has a Pod that answers, and no Pod is about to end. Raises `EnvironmentUnfit`."""

        def is_so() -> bool:
            ending = any(each.is_ending for each in self.found.values())
            return set(services) <= self.nodes().keys() and not ending

        await self.until(is_so, most_s, "the Pods of the applications are not all ready")

    def _state(self) -> str:
        odd = [each for each in self.found.values() if not each.is_ready or each.is_ending]
        return (
            "; ".join(
                f"{each.service}: {'ending' if each.is_ending else 'not ready'} on {each.node or 'no node'}"
                for each in odd
            )
            or f"{len(self.found)} Pods"
        )


@contextlib.asynccontextmanager
async def following(api: Api) -> AsyncIterator[tuple[Pods, directory.DirectoryServer]]:
    """Follow the Pods, and serve their directory, until the block is left."""
    server = directory.DirectoryServer()
    await server.start()
    pods = Pods(server)
    task = asyncio.create_task(pods.follow(api))
    try:
        yield pods, server
    finally:
        task.cancel()
        server.close()
        await asyncio.gather(task, return_exceptions=True)


def _parse(pod: Mapping[str, Any]) -> AppPod:
    metadata, status = pod["metadata"], pod.get("status") or {}
    return AppPod(
        uid=metadata["uid"],
        name=metadata["name"],
        service=(metadata.get("labels") or {}).get(job_labels.APP_LABEL, ""),
        node=pod["spec"].get("nodeName") or "",
        address=status.get("podIP") or "",
        is_ready=fields.is_ready(status),
        is_ending=bool(metadata.get("deletionTimestamp")),
    )
