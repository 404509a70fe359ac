"""The Pods of one node: runs those that are bound to it, ends those that the API no longer has."""

import asyncio
import contextlib
import dataclasses
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from carico_core.domain import errors
from carico_core.runtime.kube import api_client
from carico_core.runtime.observe import logs
from carico_local.node.containers import command as container_command
from carico_local.node.pods import admission
from carico_local.node.pods import worker as pod_worker
from carico_local.node.runtime import client as runtime
from carico_local.node.spec import pod as podspec

_log = logs.get("node.kubelet")
_TERMINAL = frozenset({"Succeeded", "Failed"})
_SHUTDOWN = "Pod was terminated in response to imminent node shutdown."
_LABELS_AGAIN_S = 1.0


@dataclasses.dataclass(slots=True)
class _Held:
    """A Pod of this node, from when its object is first seen until nothing of it runs.

    `worker` None: there is nothing to run, since it had ended before or cannot be parsed. `removed`: the API no longer
    has it; it counts against the node's capacity until its last process has ended.
    """

    object: dict[str, Any]
    worker: pod_worker.PodWorker | None = None
    task: "asyncio.Task[None] | None" = None
    removed: bool = False

    @property
    def is_active(self) -> bool:
        """True while its containers run or are to run."""
        return self.worker is not None and self.worker.is_active


class NodeLabels:
    """The labels of the node's own Node object: `seen` returns those last seen, `refresh` reads them again."""

    def __init__(self, seen: Callable[[], Mapping[str, str]], refresh: Callable[[], Awaitable[None]]) -> None:
        self.seen = seen
        self._refresh = refresh

    async def read(self) -> None:
        """Read the labels from the API; retry while it is unavailable."""
        while True:
            try:
                return await self._refresh()
            except errors.ApiUnavailable:
                await asyncio.sleep(_LABELS_AGAIN_S)
            except errors.ApiError:
                # The Node was deleted: decide by the labels last seen.
                return None


class Kubelet:
    """The Pods of the node by UID, each with its worker."""

    def __init__(self, node: container_command.NodeParts, *, labels: NodeLabels) -> None:
        self._node = node
        self._labels = labels
        self._pods: dict[str, _Held] = {}
        self._addresses = PodAddresses(f"{node.chosen.cluster}/{node.chosen.name}")
        # True once the API has listed the node's Pods.
        self.is_listed = False

    async def run(self, events: AsyncIterator[api_client.MirrorEvent]) -> None:
        """Follow the Pods bound to this node until cancelled."""
        async for event in events:
            match event:
                case api_client.Listed(objects=objects):
                    self._on_list(objects)
                case api_client.Changed(type="DELETED", object=pod):
                    self._on_removed(pod["metadata"]["uid"], pod)
                case api_client.Changed(object=pod):
                    self._on_pod(pod)
                case api_client.Away(error=error):
                    _log.warning("api_away", why=str(error), note="Pods keep running")

    def find(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        """Return the Pod of that name, for its logs; None where the API has none here."""
        for held in self._pods.values():
            about = held.object["metadata"]
            if not held.removed and about["name"] == name and about["namespace"] == namespace:
                return held.object
        return None

    @property
    def active(self) -> int:
        """Pods that run or are to run."""
        return sum(held.is_active for held in self._pods.values())

    def _on_list(self, objects: list[dict[str, Any]]) -> None:
        self.is_listed = True
        present = {pod["metadata"]["uid"] for pod in objects}
        for uid in [uid for uid, held in self._pods.items() if uid not in present and not held.removed]:
            # Removed while the watch was away.
            self._on_removed(uid, None)
        for uid in set(self._node.records.pods()) - present - set(self._pods):
            self._remove_orphan(uid)
        # Pods that already run come first: their resources are taken.
        for pod in sorted(objects, key=lambda pod: pod["metadata"]["uid"] not in self._node.records.pods()):
            self._on_pod(pod)

    def _on_pod(self, pod: dict[str, Any]) -> None:
        uid = pod["metadata"]["uid"]
        held = self._pods.setdefault(uid, _Held(pod))
        held.object = pod
        if held.worker is None:
            self._begin(uid, held)
        if held.worker is not None:
            held.worker.update(pod)

    def _begin(self, uid: str, held: _Held) -> None:
        """Create the Pod's worker, unless it had ended before or cannot be parsed."""
        pod = held.object
        try:
            spec = podspec.parse(pod)
        except ValueError as error:
            _log.error("pod_unreadable", uid=uid, why=str(error))
            self._node.events.add(pod, reason="Failed", action="Failed", note=f"Error: {error}", warning=True)
            metadata = pod["metadata"]
            if metadata.get("deletionTimestamp"):
                self._node.reporter.delete(uid, namespace=metadata["namespace"], name=metadata["name"])
            return
        if (pod.get("status") or {}).get("phase") in _TERMINAL:
            if pod["metadata"].get("deletionTimestamp"):
                self._node.reporter.delete(uid, namespace=spec.namespace, name=spec.name)
            return
        known = uid in self._node.records.pods()
        held.worker = pod_worker.PodWorker(
            pod,
            spec,
            node=self._node,
            pod_ip=self._addresses.take(uid, (pod.get("status") or {}).get("podIP")),
            rejected=None if known else self._rejection(pod, spec),
            check_again=lambda: self._check_again(pod, spec),
        )
        held.task = asyncio.create_task(self._run_worker(uid, held.worker), name=f"pod {spec.key}")

    async def _run_worker(self, uid: str, worker: pod_worker.PodWorker) -> None:
        try:
            await worker.run()
        except Exception:
            # An error in one Pod must not end the others.
            _log.exception("pod_failed", pod=worker.spec.key)
            if self._node.group is not None:
                await asyncio.to_thread(self._node.group.child(f"pod{uid}").destroy)

    def _rejection(self, pod: dict[str, Any], spec: podspec.PodSpec) -> admission.Rejection | None:
        chosen = self._node.chosen
        room = admission.Room(cores=chosen.cores, memory_bytes=chosen.memory_bytes / chosen.scale, pods=chosen.pods)
        others = [held.object for held in self._pods.values() if held.is_active]
        return admission.rejection(pod, spec, room=room, labels=self._labels.seen(), others=others)

    async def _check_again(self, pod: dict[str, Any], spec: podspec.PodSpec) -> admission.Rejection | None:
        """Decide again by the node's labels as the API has them now: those last seen may predate the binding."""
        await self._labels.read()
        return self._rejection(pod, spec)

    def _on_removed(self, uid: str, last: dict[str, Any] | None) -> None:
        """End what still runs of a Pod whose object is gone; report nothing more about it."""
        held = self._pods.get(uid)
        if held is None or held.worker is None or held.task is None:
            self._forget(uid)
            return
        held.removed = True
        grace_s = held.worker.spec.grace_s if last is None else podspec.parse(last).grace_s
        held.worker.end(pod_worker.Ending(grace_s=grace_s, report=False, delete=False))
        held.task.add_done_callback(lambda _: self._forget(uid))

    def _forget(self, uid: str) -> None:
        self._pods.pop(uid, None)
        self._addresses.give_back(uid)
        self._node.records.forget(uid)

    def _remove_orphan(self, uid: str) -> None:
        """Kill what an earlier node process left of a Pod that no longer exists."""
        _log.info("orphan_ended", uid=uid)
        if self._node.group is not None:
            self._node.group.child(f"pod{uid}").destroy()
        for container in _folders(self._node, uid):
            attempt = self._node.records.last_attempt(uid, container)
            if attempt is not None and attempt.started is not None and attempt.exited is None:
                runtime.kill_group(attempt.started)
        self._node.records.forget(uid)

    async def shut_down(self, *, grace_s: float) -> None:
        """End every Pod and wait for it; the statuses give the node's shutdown as the reason."""
        for held in self._pods.values():
            if held.worker is not None:
                request = pod_worker.Ending(
                    grace_s=grace_s, report=True, delete=False, failed=("Terminated", _SHUTDOWN)
                )
                held.worker.end(request)
        tasks = [held.task for held in self._pods.values() if held.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=grace_s + 5.0)

    def discard(self) -> None:
        """Remove the records on disk, once no Pod runs.

        They stay if the API has listed no Pods yet: they are of Pods that an earlier process of the node has run.
        """
        if self.is_listed:
            self._node.records.discard()


class PodAddresses:
    """Addresses for Pods in 127.0.0.0/8, which is all local: two Pods may listen on the same port."""

    def __init__(self, seed: str) -> None:
        # 254 addresses for each node, apart from 127.0.x.y, which other programs use.
        digest = zlib.crc32(seed.encode())
        self._prefix = f"127.{16 + digest % 224}.{digest // 224 % 256}"
        self._taken: dict[str, str] = {}
        self._next = 1

    def take(self, uid: str, known: str | None = None) -> str:
        """Return the address of a Pod: its `known` one, else the next free one; beyond 254 Pods share the last."""
        used = set(self._taken.values())
        chosen = known
        for _ in range(254):
            if chosen is not None:
                break
            candidate = f"{self._prefix}.{self._next}"
            self._next = self._next % 254 + 1
            chosen = None if candidate in used else candidate
        self._taken[uid] = chosen or f"{self._prefix}.254"
        return self._taken[uid]

    def give_back(self, uid: str) -> None:
        """Free the Pod's address."""
        self._taken.pop(uid, None)


def _folders(node: container_command.NodeParts, uid: str) -> list[str]:
    with contextlib.suppress(OSError):
        return [entry.name for entry in node.records.pod(uid).iterdir() if entry.is_dir()]
    return []
