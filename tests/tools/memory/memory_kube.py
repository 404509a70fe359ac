"""A Kubernetes API in memory with the interface of `kube.KubeClient`, and faults on demand; for unit tests.

It implements what CARICO relies on: versions, selectors, watches with bookmarks and 410, Bindings with the UID as
precondition, evictions, patches, optimistic locking. It has no defaults, no validation, no authorization and no
kubelet: a deleted Pod disappears at once. For people there is the embedded API of the local cluster.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

import orjson

from carico_core.domain import errors, selectors
from carico_core.runtime.kube import api_actions, list_watch, paged_lists
from carico_core.runtime.process import clock as clocks
from carico_core.wire.kubernetes import api_objects, instants
from tests.tools.memory import memory_objects

Object = dict[str, Any]
# Tests must not wait for retries.
OPTIONS = list_watch.Options(watch_s=5.0, backoff_first_s=0.005, backoff_most_s=0.05)


class MemoryKube:
    """An in-memory API and its client; pass the same instance to every part under test."""

    def __init__(self, *, clock: clocks.Clock | None = None) -> None:
        self._clock = clock or clocks.FakeClock()
        self._rng = random.Random(0)
        self._faults: list[tuple[str, str, errors.CaricoError]] = []
        self._breaks = 0
        self._away = False
        self.objects = memory_objects.Objects(clock=self._clock)
        # Every request that arrived, "METHOD path", including refused ones.
        self.requests: list[str] = []
        self.latency_s = 0.0

    # Faults.

    def go_away(self) -> None:
        """Make requests and running watches raise `ApiUnavailable` until `come_back`."""
        self._away = True
        self.break_watches()

    def come_back(self) -> None:
        """Answer again, with all objects."""
        self._away = False

    def break_watches(self) -> None:
        """Break every running watch."""
        self._breaks += 1
        self.objects.wake()

    def compact(self) -> None:
        """Answer 410 to watches from an earlier version, and break running ones."""
        self.objects.compacted = self.objects.version
        self.break_watches()

    def fail_next(self, error: errors.CaricoError, *, method: str = "", path: str = "") -> None:
        """Make the next request with that method, and `path` in its path, raise `error` and change nothing."""
        self._faults.append((method, path, error))

    # The interface of KubeClient.

    async def request(
        self, method: str, path: str, *, params: Mapping[str, str] | None = None, body: Any = None,
        content_type: str = "application/json", timeout_s: float = 10.0,
        permit: Callable[[], None] | None = None,
    ) -> Any:  # fmt: skip
        """Return the decoded answer, as `KubeClient.request` does."""
        if permit is not None:
            permit()
        await self._arrive(method, path)
        target = _parse(path)
        # Encode and decode: later changes of a test's objects must not reach the store.
        sent: Any = memory_objects.copied(body)
        if target.subresource == "binding":
            return self._bind(target, sent, path)
        if target.subresource == "eviction":
            return self._evict(target, sent, path)
        key = (target.namespace, target.name)
        name = f"{method} {path}"
        match method:
            case "GET" if target.name:
                return self.objects.get(target.plural, key, name)
            case "GET":
                return self._list(target, params or {})
            case "POST":
                if target.namespace:
                    sent.setdefault("metadata", {})["namespace"] = target.namespace
                return self.objects.create(target.plural, sent, name)
            case "PUT":
                return self._update(target, sent, name)
            case "PATCH":
                by_type = content_type == api_actions.STRATEGIC_PATCH
                merged = memory_objects.merge(self.objects.get(target.plural, key, name), sent, by_type=by_type)
                return self._update(target, merged, name)
            case "DELETE":
                return self.objects.delete(target.plural, key, (sent or {}).get("preconditions") or {}, name)
        raise memory_objects.refusal(405, "MethodNotAllowed", "", name)

    async def stream(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None = None,
        *,
        idle_timeout_s: float | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """Yield the lines of a watch as they arrive; a list in one part."""
        await self._arrive(method, path)
        target, asked = _parse(path), params or {}
        if "watch" not in asked:
            yield orjson.dumps(self._list(target, asked))
            return
        selector = memory_objects.parse_selector(target.namespace, asked)
        position = int(asked.get("resourceVersion") or self.objects.version)
        if position < self.objects.compacted:
            raise memory_objects.refusal(410, "Expired", "too old resource version", f"{method} {path}")
        ends_at_s = asyncio.get_running_loop().time() + float(asked.get("timeoutSeconds", "300"))
        breaks = self._breaks
        while breaks == self._breaks:
            changed = self.objects.changed
            for change in self.objects.since(position):
                position = change.version
                event = memory_objects.event_of(change, selector) if change.plural == target.plural else None
                if event is not None:
                    yield _line(*event)
            try:
                async with asyncio.timeout_at(ends_at_s):
                    await changed.wait()
            except TimeoutError:
                yield _line("BOOKMARK", {"metadata": {"resourceVersion": str(position)}})
                return
        raise errors.ApiUnavailable(f"{method} {path}: the connection broke")

    def mirror(
        self,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        options: list_watch.Options = OPTIONS,
        read: paged_lists.Read | None = None,
        freshness: list_watch.CopyAge | None = None,
    ) -> AsyncGenerator[list_watch.MirrorEvent, None]:
        """List and watch for ever, with the real client's code; `freshness` is ignored."""
        return list_watch.mirror(
            self, path, params=params or {}, clock=self._clock, rng=self._rng, options=options, read=read
        )

    async def close(self) -> None:
        """End running watches."""
        self.break_watches()

    # The implementation.

    async def _arrive(self, method: str, path: str) -> None:
        self.requests.append(f"{method} {path}")
        # At least one iteration of the event loop, as any real request.
        await asyncio.sleep(self.latency_s)
        if self._away:
            raise errors.ApiUnavailable(f"{method} {path}: the API is away")
        for fault in self._faults:
            if fault[0] in ("", method) and fault[1] in path:
                self._faults.remove(fault)
                raise fault[2]

    def _list(self, target: "_Target", params: Mapping[str, str]) -> Object:
        items = self.objects.all(target.plural, memory_objects.parse_selector(target.namespace, params))
        return {"metadata": {"resourceVersion": str(self.objects.version)}, "items": items}

    def _update(self, target: "_Target", sent: Object, request: str) -> Object:
        key = (target.namespace, target.name)
        if target.subresource == "status":
            before = self.objects.get(target.plural, key, request)
            sent = before | {"metadata": sent.get("metadata", {}), "status": sent.get("status", {})}
        return self.objects.update(target.plural, key, sent, request)

    def _bind(self, target: "_Target", binding: Object, path: str) -> Object:
        request = f"POST {path}"
        pod = self.objects.get("pods", (target.namespace, target.name), request)
        uid = binding.get("metadata", {}).get("uid")
        if uid and uid != pod["metadata"]["uid"]:
            raise memory_objects.refusal(409, "Conflict", f"Precondition failed: UID in precondition: {uid}", request)
        version = binding.get("metadata", {}).get("resourceVersion")
        if version and version != pod["metadata"]["resourceVersion"]:
            raise memory_objects.refusal(409, "Conflict", f"Precondition failed: ResourceVersion: {version}", request)
        if pod.get("spec", {}).get("nodeName"):
            message = f"pod {target.name} is already assigned to node {pod['spec']['nodeName']}"
            raise memory_objects.refusal(409, "Conflict", message, request)
        pod.setdefault("spec", {})["nodeName"] = binding["target"]["name"]
        if added := binding["metadata"].get("annotations"):
            pod["metadata"]["annotations"] = {**(pod["metadata"].get("annotations") or {}), **added}
        at = instants.format_time(self._clock.wall_ns())
        scheduled = {"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": at}]}
        pod["status"] = memory_objects.merge(pod.get("status") or {}, scheduled, by_type=True)
        self.objects.update("pods", (target.namespace, target.name), pod, request)
        return {"kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201}

    def _evict(self, target: "_Target", eviction: Object, path: str) -> Object:
        """Delete the Pod, unless a PodDisruptionBudget that selects it allows no disruption."""
        request, key = f"POST {path}", (target.namespace, target.name)
        pod = self.objects.get("pods", key, request)
        here = memory_objects.parse_selector(target.namespace, {})
        for found in self.objects.all("poddisruptionbudgets", here):
            budget = api_objects.parse_disruption_budget(found)
            if selectors.matches(budget.selector, pod["metadata"].get("labels") or {}) and budget.allowed < 1:
                raise errors.ApiBusy(f"{request}: 429 TooManyRequests: the disruption budget {budget.name} needs Pods")
        preconditions = (eviction.get("deleteOptions") or {}).get("preconditions") or {}
        self.objects.delete("pods", key, preconditions, request)
        return {"kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201}


class _Target:
    """The parts of a path."""

    def __init__(self, plural: str, namespace: str, name: str, subresource: str) -> None:
        self.plural = plural
        self.namespace = namespace
        self.name = name
        self.subresource = subresource


def _parse(path: str) -> _Target:
    parts = path.strip("/").split("/")
    # Both Event resources are one collection, as in a real API.
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    namespace = ""
    if rest and rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    if not rest:
        raise memory_objects.refusal(404, "NotFound", "the server could not find the requested resource", path)
    plural, name, subresource = (*rest, "", "", "")[:3]
    return _Target(plural, namespace, name, subresource)


def _line(kind: str, obj: Object) -> bytes:
    return orjson.dumps({"type": kind, "object": obj}) + b"\n"
