"""The Pods of one node: those the API binds to it are run, those it no longer has are ended."""

import asyncio
import contextlib
import shutil
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from carico_core.runtime import kube, logs
from carico_local.node import admission, ending, pod_worker, podspec, runtime, site

_log = logs.get("node.kubelet")
_TERMINAL = frozenset({"Succeeded", "Failed"})
_SHUTDOWN = "Pod was terminated in response to imminent node shutdown."


class Kubelet:
    """Workers by the UID of their Pods."""

    def __init__(self, node: site.Site, *, labels: Callable[[], Mapping[str, str]]) -> None:
        self._node = node
        self._labels = labels
        self._workers: dict[str, pod_worker.PodWorker] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._objects: dict[str, dict[str, Any]] = {}
        self._addresses = Addresses(f"{node.chosen.cluster}/{node.chosen.name}")
        self.unreadable = 0

    async def run(self, events: AsyncIterator[kube.MirrorEvent]) -> None:
        """Never returns; follows the Pods that are bound to this node."""
        async for event in events:
            match event:
                case kube.Listed(objects=objects):
                    self._on_list(objects)
                case kube.Changed(type="DELETED", object=pod):
                    self._on_removed(pod["metadata"]["uid"], pod)
                case kube.Changed(object=pod):
                    self._on_pod(pod)
                case kube.Away(error=error):
                    _log.warning("api_away", why=str(error), note="Pods keep running")

    def pod_directory(self, namespace: str, name: str) -> str | None:
        """The UID of the Pod of that name that this node has, for its logs."""
        for uid, pod in self._objects.items():
            if pod["metadata"]["name"] == name and pod["metadata"]["namespace"] == namespace:
                return uid
        return None

    @property
    def active(self) -> int:
        """Pods that run or are to run."""
        return sum(worker.is_active for worker in self._workers.values())

    def _on_list(self, objects: list[dict[str, Any]]) -> None:
        present = {pod["metadata"]["uid"] for pod in objects}
        for uid in set(self._objects) - present:
            # Removed while nobody watched.
            self._on_removed(uid, None)
        for uid in set(self._node.records.pods()) - present - set(self._workers):
            self._bury(uid)
        # Pods that run from before come first: they hold their room.
        for pod in sorted(objects, key=lambda pod: pod["metadata"]["uid"] not in self._node.records.pods()):
            self._on_pod(pod)

    def _on_pod(self, pod: dict[str, Any]) -> None:
        uid = pod["metadata"]["uid"]
        self._objects[uid] = pod
        if uid not in self._workers and not self._begin(uid, pod):
            return
        self._workers[uid].update(pod)

    def _begin(self, uid: str, pod: dict[str, Any]) -> bool:
        """True where the Pod has a worker now."""
        try:
            spec = podspec.parse(pod)
        except ValueError as error:
            self.unreadable += 1
            _log.error("pod_unreadable", uid=uid, why=str(error))
            return False
        if (pod.get("status") or {}).get("phase") in _TERMINAL:
            if pod["metadata"].get("deletionTimestamp"):
                self._node.reporter.delete(uid, namespace=spec.namespace, name=spec.name)
            return False
        known = uid in self._node.records.pods()
        worker = pod_worker.PodWorker(
            pod,
            spec,
            node=self._node,
            pod_ip=self._addresses.take(uid, (pod.get("status") or {}).get("podIP")),
            rejected=None if known else self._rejection(pod, spec),
        )
        self._workers[uid] = worker
        self._tasks[uid] = asyncio.create_task(self._run_worker(uid, worker), name=f"pod {spec.key}")
        return True

    async def _run_worker(self, uid: str, worker: pod_worker.PodWorker) -> None:
        try:
            await worker.run()
        except Exception:
            # One Pod's fault must not end the node's others.
            _log.exception("pod_failed", pod=worker.spec.key)
            if self._node.group is not None:
                await asyncio.to_thread(self._node.group.child(f"pod{uid}").destroy)

    def _rejection(self, pod: dict[str, Any], spec: podspec.PodSpec) -> tuple[str, str] | None:
        chosen = self._node.chosen
        room = admission.Room(cores=chosen.cores, memory_bytes=chosen.memory_bytes / chosen.scale, pods=chosen.pods)
        others = [self._objects[uid] for uid, worker in self._workers.items() if worker.is_active]
        return admission.rejection(pod, spec, room=room, labels=self._labels(), others=others)

    def _on_removed(self, uid: str, last: dict[str, Any] | None) -> None:
        """The object has gone: what still runs of the Pod ends, and nobody is told."""
        self._objects.pop(uid, None)
        worker = self._workers.get(uid)
        if worker is None:
            self._node.records.forget(uid)
            return
        grace_s = worker.spec.grace_s if last is None else podspec.parse(last).grace_s
        worker.end(ending.Ending(grace_s=grace_s, report=False, delete=False))
        task = self._tasks[uid]
        task.add_done_callback(lambda _: self._forget(uid))

    def _forget(self, uid: str) -> None:
        self._workers.pop(uid, None)
        self._tasks.pop(uid, None)
        self._addresses.give_back(uid)
        self._node.records.forget(uid)

    def _bury(self, uid: str) -> None:
        """Kills what a node process before this one left of a Pod that is no more."""
        _log.info("orphan_ended", uid=uid)
        if self._node.group is not None:
            self._node.group.child(f"pod{uid}").destroy()
        for container in _folders(self._node, uid):
            attempt = self._node.records.last_attempt(uid, container)
            if attempt is not None and attempt.started is not None and attempt.exited is None:
                runtime.kill_recorded(attempt.started)
        self._node.records.forget(uid)

    async def shut_down(self, *, grace_s: float) -> None:
        """Nothing, once every Pod has ended; their statuses say that the node was stopped."""
        for worker in self._workers.values():
            worker.end(ending.Ending(grace_s=grace_s, report=True, delete=False, failed=("Terminated", _SHUTDOWN)))
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=grace_s + 5.0)

    def discard(self) -> None:
        """Nothing; records on disk are gone, once no Pod runs any more."""
        shutil.rmtree(self._node.records.root / "pods", ignore_errors=True)


class Addresses:
    """Addresses for Pods in 127.0.0.0/8, all of which is this machine's own: a Pod's servers can have their ports."""

    def __init__(self, seed: str) -> None:
        # A network of 254 addresses a node, away from 127.0.x.y that other programs use.
        digest = zlib.crc32(seed.encode())
        self._prefix = f"127.{16 + digest % 224}.{digest // 224 % 256}"
        self._taken: dict[str, str] = {}
        self._next = 1

    def take(self, uid: str, known: str | None = None) -> str:
        """The address of a Pod: the one it had, else the next that is free; the last ones are shared."""
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
        """Nothing; the Pod's address is free."""
        self._taken.pop(uid, None)


def _folders(node: site.Site, uid: str) -> list[str]:
    with contextlib.suppress(OSError):
        return [entry.name for entry in node.records.pod(uid).iterdir() if entry.is_dir()]
    return []
