"""Creates and updates objects, with the checks of kube-apiserver's registry store in the same order.

Source: k8s.io/apiserver/pkg/registry/generic/registry/store.go and registry/rest/{create,update}.go.
"""

import dataclasses
import secrets
import uuid
from collections.abc import Callable
from typing import Any

from carico_core.runtime.process import clock as clocks
from carico_core.wire.kubernetes import instants
from carico_local import qos
from carico_local.api.lifecycle import nodes
from carico_local.api.model import objects, resources, schema, statuses
from carico_local.api.rules import configuration, defaulting, validation
from carico_local.api.storage import store

# k8s.io/apiserver/pkg/storage/names/generate.go: no vowels, so that no real word appears by chance.
_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
_MAX_GENERATED_PREFIX = 58
# The most unknown fields that one answer lists.
_MAX_NAMED = 10
_PRESERVED = (
    "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation",
)  # fmt: skip

# Returns the new object, given a copy of the present one.
Edit = Callable[[objects.Object], Any]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """The mode of a write: of the status only, strict about unknown fields, or without storing anything."""

    status: bool = False
    strict: bool = False
    dry_run: bool = False


PLAIN = Mode()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Written:
    """The result of a write, and the unknown fields that were dropped from the client's body."""

    stored: objects.Stored
    unknown: tuple[str, ...]
    removed: bool = False


class Writer:
    """Creates and updates objects in one store."""

    def __init__(self, kept: store.Store, clock: clocks.Clock) -> None:
        self._store = kept
        self._clock = clock

    def now(self) -> str:
        """Return the current time in the format of objects."""
        return instants.format_time(self._clock.wall_ns())

    def find(self, resource: resources.Resource, key: objects.Key) -> objects.Stored:
        """Return an object; raise `RequestFailed` (404)."""
        stored = self._store.get(resource.storage, key)
        if stored is None:
            raise statuses.not_found(resource.plural, key[1], group=resource.group)
        return stored

    def create(self, resource: resources.Resource, namespace: str, body: object, mode: Mode = PLAIN) -> Written:
        """Create an object; raise `RequestFailed` (400, 403, 404, 409, 422)."""
        data, unknown = decode(resource, body, strict=mode.strict)
        metadata = data["metadata"]
        self._place(resource, metadata, namespace)
        if metadata.get("resourceVersion"):
            raise statuses.bad_request("resourceVersion should not be set on objects to be created")
        for field in _PRESERVED:
            metadata.pop(field, None)
        metadata |= {"uid": str(uuid.uuid4()), "creationTimestamp": self.now()}
        if resource.counts_generations:
            metadata["generation"] = 1
        _prepare_new(resource, data)
        validation.check(resource, data)
        if self._store.get(resource.storage, objects.key_of(data)) is not None:
            raise statuses.already_exists(resource.plural, metadata["name"], group=resource.group)
        stored = objects.freeze(data, 0) if mode.dry_run else self._store.put(resource.storage, data)
        return Written(stored=stored, unknown=tuple(unknown))

    def update(self, resource: resources.Resource, key: objects.Key, edit: Edit, mode: Mode) -> Written:
        """Update an object by an edit; raise `RequestFailed` (400, 404, 409, 422)."""
        old = self.find(resource, key)
        draft = {"kind": resource.kind, "apiVersion": resource.api_version, **objects.copy(old)}
        data, unknown = decode(resource, edit(draft), strict=mode.strict)
        self._carry_over(resource, old, data, status=mode.status)
        if not mode.status:
            defaulting.set_defaults(resource, data)
        validation.check(resource, data)
        validation.check_update(resource, old.data, data)
        if data == old.data:
            return Written(stored=old, unknown=tuple(unknown))
        if resource.counts_generations and data.get("spec") != old.data.get("spec"):
            data["metadata"]["generation"] = old.data["metadata"].get("generation", 0) + 1
        if mode.dry_run:
            return Written(stored=objects.freeze(data, old.version), unknown=tuple(unknown))
        return self._keep(resource, data, tuple(unknown))

    def _keep(self, resource: resources.Resource, data: objects.Object, unknown: tuple[str, ...]) -> Written:
        """Store an object, or remove it once its last finalizer is gone and it is being deleted."""
        metadata = data["metadata"]
        waiting = (
            metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds") or resource is resources.NAMESPACES
        )
        if metadata.get("deletionTimestamp") and not waiting:
            return Written(stored=self._store.remove(resource.storage, data), unknown=unknown, removed=True)
        return Written(stored=self._store.put(resource.storage, data), unknown=unknown)

    def _place(self, resource: resources.Resource, metadata: objects.Object, namespace: str) -> None:
        """Set the name and namespace of a new object."""
        if not metadata.get("name") and metadata.get("generateName"):
            suffix = "".join(secrets.choice(_SUFFIX_LETTERS) for _ in range(_SUFFIX_LENGTH))
            metadata["name"] = metadata["generateName"][:_MAX_GENERATED_PREFIX] + suffix
        if not resource.namespaced:
            if metadata.pop("namespace", ""):
                raise statuses.bad_request("namespace may not be set on a cluster-wide object")
            return
        if metadata.setdefault("namespace", namespace) != namespace:
            raise statuses.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        home = self._store.get("namespaces", ("", namespace))
        if home is None:
            raise statuses.not_found("namespaces", namespace)
        if home.data["metadata"].get("deletionTimestamp"):
            detail = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise statuses.forbidden(resource.plural, metadata.get("name", ""), detail, group=resource.group)

    def _carry_over(
        self, resource: resources.Resource, old: objects.Stored, data: objects.Object, *, status: bool
    ) -> None:
        """Check the client's preconditions, and restore the fields that clients may not change."""
        before, metadata = old.data["metadata"], data["metadata"]
        for field in ("name", "namespace"):
            if metadata.setdefault(field, before.get(field, "")) != before.get(field, ""):
                got, expected = metadata[field], before.get(field, "")
                raise statuses.bad_request(
                    f"the {field} of the object ({got}) does not match the {field} on the URL ({expected})"
                )
        if not metadata["namespace"]:
            del metadata["namespace"]
        version = metadata.get("resourceVersion")
        if version and version != before["resourceVersion"]:
            raise statuses.conflict(resource.plural, before["name"], statuses.STALE, group=resource.group)
        if not version and resource is resources.LEASES:
            cause = statuses.Cause(
                reason="FieldValueInvalid",
                message="Invalid value: 0: must be specified for an update",
                field="metadata.resourceVersion",
            )
            raise statuses.invalid(resource.kind, before["name"], [cause], group=resource.group)
        if metadata.get("uid") and metadata["uid"] != before["uid"]:
            detail = statuses.uid_mismatch(metadata["uid"], before["uid"])
            raise statuses.conflict(resource.plural, before["name"], detail, group=resource.group)
        metadata["resourceVersion"] = before["resourceVersion"]
        for field in _PRESERVED:
            metadata.pop(field, None)
            if field in before:
                metadata[field] = before[field]
        if resource.has_status:
            _restore(data, old.data, ("spec",) if status else ("status",))


def decode(resource: resources.Resource, body: object, *, strict: bool) -> tuple[objects.Object, list[str]]:
    """Return the object in a body, without its kind, and the unknown fields; raise `RequestFailed` (400)."""
    data, unknown = schema.decode(resource.definition, body)
    if strict and unknown:
        listed = ", ".join(f'unknown field "{path}"' for path in unknown[:_MAX_NAMED])
        raise statuses.bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
            f"strict decoding error: {listed}"
        )
    for field, expected in (("kind", resource.kind), ("apiVersion", resource.api_version)):
        got = data.pop(field, "")
        if got and got != expected:
            raise statuses.bad_request(
                f"the {field} in the data ({got}) does not match the expected {field} ({expected})"
            )
    data.setdefault("metadata", {})
    for field in ("labels", "annotations", "finalizers", "ownerReferences"):
        if not data["metadata"].get(field, True):
            del data["metadata"][field]
    data["metadata"].pop("managedFields", None)
    if resource in (resources.CONFIG_MAPS, resources.SECRETS):
        configuration.settle(data)
    return data, unknown


def _restore(data: objects.Object, old: objects.Object, fields: tuple[str, ...]) -> None:
    for field in fields:
        data.pop(field, None)
        if field in old:
            data[field] = old[field]


def _prepare_new(resource: resources.Resource, data: objects.Object) -> None:
    defaulting.set_defaults(resource, data)
    if resource is resources.NODES:
        nodes.admit(data)
    if resource is resources.PODS:
        defaulting.admit_pod(data)
        data["status"] = {"phase": "Pending", "qosClass": qos.pod_class(data["spec"])}
        if gates := data["spec"].get("schedulingGates"):
            data["status"]["conditions"] = [_gated(gates)]


def _gated(gates: list[Any]) -> objects.Object:
    return {
        "type": "PodScheduled",
        "status": "False",
        "reason": "SchedulingGated",
        "message": f"Scheduling is blocked due to non-empty scheduling gates ({len(gates)})",
    }
