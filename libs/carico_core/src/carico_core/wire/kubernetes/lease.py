"""coordination.k8s.io/v1 Leases <-> a record: who leads, since when, and how long the lease is valid."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from carico_core.wire.kubernetes import instants


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A Lease. Times are the holder's wall clock in nanoseconds; `resource_version` guards updates."""

    namespace: str
    name: str
    holder: str
    duration_s: int
    acquired_at_ns: int
    renewed_at_ns: int
    transitions: int = 0
    resource_version: str = ""


def parse_lease(obj: Mapping[str, Any]) -> Lease:
    """Return the Lease that an API object describes; unset fields are empty or 0. Raises `ValueError`."""
    metadata, spec = obj.get("metadata"), obj.get("spec") or {}
    if not isinstance(metadata, Mapping) or not isinstance(spec, Mapping):
        raise ValueError("lease: expected metadata and spec to be objects")
    try:
        return Lease(
            namespace=str(metadata.get("namespace") or ""),
            name=str(metadata["name"]),
            holder=str(spec.get("holderIdentity") or ""),
            duration_s=int(spec.get("leaseDurationSeconds") or 0),
            acquired_at_ns=_nanoseconds(spec.get("acquireTime")),
            renewed_at_ns=_nanoseconds(spec.get("renewTime")),
            transitions=int(spec.get("leaseTransitions") or 0),
            resource_version=str(metadata.get("resourceVersion") or ""),
        )
    except (KeyError, TypeError, OverflowError) as error:
        raise ValueError(f"lease: {error!r}") from error


def lease_body(lease: Lease) -> dict[str, Any]:
    """Return the API object of a Lease."""
    metadata: dict[str, Any] = {"namespace": lease.namespace, "name": lease.name}
    if lease.resource_version:
        metadata["resourceVersion"] = lease.resource_version
    spec = {
        "holderIdentity": lease.holder,
        "leaseDurationSeconds": lease.duration_s,
        "acquireTime": instants.format_instant(lease.acquired_at_ns),
        "renewTime": instants.format_instant(lease.renewed_at_ns),
        "leaseTransitions": lease.transitions,
    }
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


def _nanoseconds(text: str | None) -> int:
    return 0 if text is None else round(instants.parse_instant(text) * 1e6) * 1000
