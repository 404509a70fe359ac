"""Services and their endpoints, reduced to what resolves a virtual address to Pods."""

import dataclasses
import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any

from carico_core.domain.pod_telemetry import Endpoint
from carico_core.wire.kubernetes import object_fields as fields

Object = Mapping[str, Any]

# https://kubernetes.io/docs/concepts/services-networking/endpoint-slices/#ownership
SERVICE_NAME = "kubernetes.io/service-name"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAddresses:
    """Virtual addresses of a Service, and its TCP ports by name."""

    namespace: str
    name: str
    addresses: tuple[str, ...]
    ports: Mapping[str, int]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Addresses of Pods behind a Service, and their TCP ports by name. `service` is empty if it belongs to none."""

    namespace: str
    service: str
    addresses: tuple[str, ...]
    ports: Mapping[str, int]


def parse_service(obj: Object) -> ServiceAddresses:
    """Return the Service of an API object. Raises `ValueError` with the path of the bad field."""
    metadata, spec = fields.mapping(obj, "metadata"), fields.mapping(obj, "spec")
    return ServiceAddresses(
        namespace=fields.required(metadata, "namespace", "metadata."),
        name=fields.required(metadata, "name", "metadata."),
        # A Service without an address of its own has "None".
        addresses=_addresses(fields.words(spec, "clusterIPs", "spec.")),
        ports=_ports(spec, "spec."),
    )


def parse_slice(obj: Object) -> Slice:
    """Return the EndpointSlice of an API object. Raises `ValueError` with the path of the bad field."""
    metadata = fields.mapping(obj, "metadata")
    endpoints = fields.objects(obj, "endpoints")
    return Slice(
        namespace=fields.required(metadata, "namespace", "metadata."),
        service=fields.texts(metadata, "labels", "metadata.").get(SERVICE_NAME, ""),
        addresses=_addresses(text for each in endpoints for text in fields.words(each, "addresses", "endpoints.")),
        ports=_ports(obj, ""),
    )


def resolve(services: Iterable[ServiceAddresses], slices: Iterable[Slice]) -> dict[Endpoint, tuple[Endpoint, ...]]:
    """Return the endpoints behind each virtual endpoint; a port of a Service is that of the same name in its slices."""
    behind: dict[tuple[str, str], list[Slice]] = {}
    for each in slices:
        behind.setdefault((each.namespace, each.service), []).append(each)
    return {
        Endpoint(virtual, port): tuple(
            Endpoint(address, part.ports[name])
            for part in behind.get((service.namespace, service.name), ())
            if name in part.ports
            for address in part.addresses
        )
        for service in services
        for virtual in service.addresses
        for name, port in service.ports.items()
    }


def _ports(obj: Object, path: str) -> dict[str, int]:
    return {
        fields.optional(each, "name", f"{path}ports."): fields.integer(each, "port", f"{path}ports.")
        for each in fields.objects(obj, "ports", path)
        if (fields.optional(each, "protocol", f"{path}ports.") or "TCP") == "TCP"
    }


def _addresses(texts: Iterable[str]) -> tuple[str, ...]:
    """Return addresses as agents write them; what is none, as a host name, is left out."""
    found = []
    for text in texts:
        try:
            found.append(str(ipaddress.ip_address(text)))
        except ValueError:
            continue
    return tuple(found)
