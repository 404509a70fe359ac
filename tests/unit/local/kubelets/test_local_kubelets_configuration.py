"""The configuration of a kubelet node: addresses apart, only its own share of the machine, routes to all others."""

import ipaddress
import itertools
import json
import tomllib

import pytest

from carico_local.kubelets import configuration
from carico_local.kubelets.compose import plane

NETWORK = ipaddress.IPv4Network("172.31.0.0/24")
MACHINE = configuration.HostSize(cpus=8.0, memory_bytes=16 * 2**30)
KUBECONFIGS = configuration.Kubeconfigs(kubelet="k", proxy="p", dns="d")


def nodes(count: int) -> tuple[configuration.Node, ...]:
    return tuple(
        configuration.Node(name=f"node-{number}", number=number, cpus=1.5, memory_bytes=2 * 2**30)
        for number in range(1, count + 1)
    )


def files(count: int = 3) -> dict[str, str]:
    """Those of the first of so many nodes."""
    others = nodes(count)
    return configuration.files(
        others[0],
        others=others,
        network=NETWORK,
        machine=MACHINE,
        kubeconfigs=KUBECONFIGS,
        authority="ca",
        plugins="/cni",
    )


def test_only_nodes_of_compose_have_a_provider() -> None:
    composed = plane.node("172.31.0.10", name="node-3", cpus=1.0, memory_bytes=2**30)
    for node, provider_id in ((nodes(1)[0], ""), (composed, f"{configuration.COMPOSE_PROVIDER}node-3")):
        made = configuration.files(
            node, others=(node,), network=NETWORK, machine=MACHINE, kubeconfigs=KUBECONFIGS, authority="ca",
            plugins="/cni",
        )  # fmt: skip
        assert json.loads(made["kubelet.json"])["providerID"] == provider_id


def test_addresses_and_ranges_of_all_nodes_are_apart() -> None:
    many = nodes(200)
    assert len({node.address(NETWORK) for node in many}) == 200
    ranges = [node.pods for node in many]
    assert all(each.subnet_of(configuration.CLUSTER_RANGE) for each in ranges)
    assert not any(one.overlaps(other) for one, other in itertools.pairwise(ranges))


def test_a_node_has_a_route_to_each_other_and_none_to_itself() -> None:
    assert files()["routes"].splitlines() == ["10.244.2.0/24 172.31.0.11", "10.244.3.0/24 172.31.0.12"]


def test_what_the_kubelet_leaves_out_is_the_rest_of_the_machine() -> None:
    kubelet = json.loads(files()["kubelet.json"])
    assert kubelet["kubeReserved"] == {"cpu": "6500m", "memory": str(14 * 2**30)}
    assert kubelet["clusterDNS"] == ["172.31.0.10"]


@pytest.mark.parametrize("cpus", [0.5, 1.0])
def test_a_machine_smaller_than_its_node_reserves_nothing(cpus: float) -> None:
    node = nodes(1)[0]
    told = configuration.files(
        node, others=(node,), network=NETWORK, kubeconfigs=KUBECONFIGS, authority="ca", plugins="/cni",
        machine=configuration.HostSize(cpus=cpus, memory_bytes=2**30),
    )  # fmt: skip
    assert json.loads(told["kubelet.json"])["kubeReserved"] == {"cpu": "0m", "memory": "0"}


def test_each_file_is_what_its_name_says() -> None:
    told = files()
    for name in ("kubelet.json", "kube-proxy.json", "10-carico.conflist"):
        assert json.loads(told[name])
    cri = tomllib.loads(told["containerd.toml"])["plugins"]["io.containerd.grpc.v1.cri"]
    assert cri["sandbox_image"] == configuration.SANDBOX_IMAGE
    assert "bind 172.31.0.10" in told["Corefile"]
    assert dict(line.split("=") for line in told["node.env"].splitlines()) == {
        "NODE_NAME": "node-1", "NODE_IP": "172.31.0.10", "POD_RANGE": "10.244.1.0/24", "CLUSTER_RANGE": "10.244.0.0/16",
    }  # fmt: skip
