"""Deletes objects: at once, or gracefully for a Pod whose kubelet must first end its containers.

Source: k8s.io/apiserver/pkg/registry/rest/delete.go (BeforeDelete) and the Pod strategy's CheckGracefulDelete.
"""

import dataclasses
import datetime
from collections.abc import Callable
from typing import Any

from carico_core.runtime.process import clock as clocks
from carico_core.wire.kubernetes import instants
from carico_local.api.model import objects, resources, statuses
from carico_local.api.rules import fields
from carico_local.api.storage import store

# Small enough that the deletion time stays before the year 9999, the last that a timestamp can express.
_MAX_GRACE_S = 2**31
_TERMINAL = ("Succeeded", "Failed")
# No object here owns another one, so all three mean the same.
_PROPAGATION = ("Foreground", "Background", "Orphan")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOptions:
    """The fields of metav1.DeleteOptions that the API supports."""

    grace_s: int | None = None
    uid: str | None = None
    version: str | None = None
    dry_run: bool = False


class Remover:
    """Deletes from one store."""

    def __init__(self, kept: store.Store, clock: clocks.Clock) -> None:
        self._store = kept
        self._clock = clock

    def delete(self, resource: resources.Resource, stored: objects.Stored, options: DeleteOptions) -> objects.Stored:
        """Delete an object, at once or gracefully, and return it as it was last; raise `RequestFailed` (403, 409)."""
        statuses.check_preconditions(
            resource.plural, stored.data["metadata"], uid=options.uid, version=options.version, group=resource.group
        )
        data = objects.copy(stored)
        metadata = data["metadata"]
        if resource is resources.NAMESPACES:
            return self._end_namespace(stored, data, options)
        grace_s = _grace_s(data, options) if resource is resources.PODS else 0
        deleting = metadata.get("deletionTimestamp")
        if deleting and metadata.get("deletionGracePeriodSeconds"):
            # The grace period of a deletion in progress can only be shortened.
            given_s = options.grace_s
            if given_s is None or given_s >= metadata["deletionGracePeriodSeconds"]:
                return stored
            grace_s = max(given_s, 0)
        if grace_s == 0 and not metadata.get("finalizers"):
            return self._remove(resource, data, options)
        if deleting and metadata.get("deletionGracePeriodSeconds") == grace_s:
            return stored
        self._mark(metadata, grace_s)
        return objects.freeze(data, 0) if options.dry_run else self._store.put(resource.storage, data)

    def _mark(self, metadata: objects.Object, grace_s: int) -> None:
        """Set the deletion deadline; a second, shorter delete counts from the first request."""
        if metadata.get("deletionTimestamp"):
            earlier_s = metadata.get("deletionGracePeriodSeconds", 0) - grace_s
            end = objects.parse_timestamp(metadata["deletionTimestamp"]) - datetime.timedelta(seconds=earlier_s)
            metadata["deletionTimestamp"] = f"{end:%Y-%m-%dT%H:%M:%SZ}"
        else:
            metadata["deletionTimestamp"] = instants.format_time(self._clock.wall_ns() + grace_s * 1_000_000_000)
            if "generation" in metadata:
                metadata["generation"] += 1
        metadata["deletionGracePeriodSeconds"] = grace_s

    def _end_namespace(self, stored: objects.Stored, data: objects.Object, options: DeleteOptions) -> objects.Stored:
        """Delete a namespace: its Pods gracefully, other objects at once, itself after the last Pod."""
        name = data["metadata"]["name"]
        if name in ("default", "kube-system", "kube-public"):
            raise statuses.forbidden("namespaces", name, "this namespace may not be deleted")
        if not data["metadata"].get("deletionTimestamp"):
            self._mark(data["metadata"], 0)
            data["status"] = {**data.get("status", {}), "phase": "Terminating"}
        if options.dry_run:
            return stored
        with self._store.batch():
            marked = self._store.put("namespaces", data)
            for resource in resources.CONTENTS:
                for item in self._store.select(resource.storage, name):
                    self._store.remove(resource.storage, item.data)
            for pod in self._store.select("pods", name):
                self.delete(resources.PODS, pod, DeleteOptions())
            self.settle_namespace(name)
        return marked

    def settle_namespace(self, name: str) -> None:
        """Remove a namespace that is being deleted and has no Pods left."""
        home = self._store.get("namespaces", ("", name))
        if home is None or not home.data["metadata"].get("deletionTimestamp"):
            return
        if not self._store.select("pods", name):
            self._store.remove("namespaces", home.data)

    def _remove(self, resource: resources.Resource, data: objects.Object, options: DeleteOptions) -> objects.Stored:
        if options.dry_run:
            return objects.freeze(data, self._store.revision)
        if resource is not resources.PODS:
            return self._store.remove(resource.storage, data)
        with self._store.batch():
            metadata = data["metadata"]
            if metadata.get("deletionGracePeriodSeconds") != 0:
                # Written before it is removed, as by the Pod strategy of a real API server: watchers see both.
                self._mark(metadata, 0)
                data = objects.copy(self._store.put(resource.storage, data))
            stored = self._store.remove(resource.storage, data)
            self.settle_namespace(metadata["namespace"])
        return stored


def parse_options(body: objects.Object, text_of: Callable[[str], str | None]) -> DeleteOptions:
    """Parse the options of a delete; the body takes precedence over the query. Raise `RequestFailed` (400, 422)."""
    grace = body.get("gracePeriodSeconds")
    if grace is None and (text := text_of("gracePeriodSeconds")):
        try:
            grace = int(text)
        except ValueError as error:
            raise statuses.bad_request(f"gracePeriodSeconds: got {text!r}, expected an integer") from error
    assumed: dict[str, Any] = body.get("preconditions") or {}
    dry_run = body.get("dryRun") or ([text_of("dryRun")] if text_of("dryRun") else [])
    if dry_run not in ([], ["All"]):
        raise statuses.bad_request(f"dryRun: got {dry_run!r}, expected All")
    policy = body.get("propagationPolicy") or text_of("propagationPolicy")
    if policy not in (None, *_PROPAGATION):
        cause = fields.not_supported("propagationPolicy", policy, (*_PROPAGATION, "nil"))
        raise statuses.invalid("DeleteOptions", "", [cause], group="meta.k8s.io")
    if grace is not None:
        grace = min(grace, _MAX_GRACE_S)
    return DeleteOptions(
        grace_s=grace, uid=assumed.get("uid"), version=assumed.get("resourceVersion"), dry_run=bool(dry_run)
    )


def _grace_s(pod: objects.Object, options: DeleteOptions) -> int:
    """Return a Pod's grace period: 0 where it is not bound or has already ended."""
    if not pod["spec"].get("nodeName") or (pod.get("status") or {}).get("phase") in _TERMINAL:
        return 0
    grace_s = options.grace_s if options.grace_s is not None else pod["spec"].get("terminationGracePeriodSeconds", 30)
    return max(int(grace_s), 1) if grace_s != 0 else 0
