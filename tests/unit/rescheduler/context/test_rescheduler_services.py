"""Services and EndpointSlices: virtual endpoints to those of Pods."""

import pytest

from carico_rescheduler.context import services

SERVICE = {
    "metadata": {"namespace": "shop", "name": "cart"},
    "spec": {
        "clusterIPs": ["10.96.0.7", "FD00::0007"],
        "ports": [
            {"name": "http", "port": 80, "targetPort": "web", "protocol": "TCP"}, {"name": "grpc", "port": 9000},
            {"name": "dns", "port": 53, "protocol": "UDP"},
        ],
    },
}  # fmt: skip
SLICE = {
    "metadata": {"namespace": "shop", "name": "cart-x1", "labels": {services.SERVICE_NAME: "cart"}},
    "endpoints": [{"addresses": ["10.0.1.1"], "conditions": {"ready": True}}, {"addresses": ["10.0.2.1"]}],
    "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
}


def test_ports_are_matched_by_their_names() -> None:
    found = services.resolve([services.parse_service(SERVICE)], [services.parse_slice(SLICE)])
    pods = (("10.0.1.1", 8080), ("10.0.2.1", 8080))
    assert found == {
        ("10.96.0.7", 80): pods, ("fd00::7", 80): pods, ("10.96.0.7", 9000): (), ("fd00::7", 9000): (),
    }  # fmt: skip


def test_services_without_an_address_and_slices_of_host_names_resolve_nothing() -> None:
    headless = {**SERVICE, "spec": {"clusterIPs": ["None"], "ports": [{"port": 80}]}}
    named = {**SLICE, "addressType": "FQDN", "endpoints": [{"addresses": ["example.org"]}]}
    assert services.resolve([services.parse_service(headless)], [services.parse_slice(named)]) == {}


@pytest.mark.parametrize("ports", ["http", [{"port": "80"}], [{"name": 7, "port": 80}]])
def test_a_bad_object_is_refused_with_its_field(ports: object) -> None:
    with pytest.raises(ValueError, match="ports"):
        services.parse_slice({**SLICE, "ports": ports})
