"""What the control plane and the nodes of `docker compose` (compose/kube) know of each other without asking."""

import ipaddress
import pathlib

from carico_local.kubelets import configuration

# The control plane's own folder, which nodes read: each takes its token from it.
PLANE = pathlib.Path("/plane")
# kubeconfigs, for everybody else.
SHARED = pathlib.Path("/kube")
NAME, HOST, PORT = "compose", "api", 6443
# Where the image has the plugins of a node's network: Debian's place.
PLUGINS = "/usr/lib/cni"
# Every address of a /24, so that any container can be any node.
_LAST = 254
_PREFIX = 24


def network(address: str) -> ipaddress.IPv4Network:
    """Return the part of the containers' network in which nodes are."""
    return ipaddress.IPv4Interface(f"{address}/{_PREFIX}").network


def node(address: str, *, name: str = "", cpus: float = 1.0, memory_bytes: int = 0) -> configuration.Node:
    """Return the node at an address: its range of Pods follows from it, so that every other one knows it, too."""
    number = int(ipaddress.IPv4Address(address)) - int(network(address).network_address)
    return configuration.Node(
        name=name or f"at-{number}", number=number, cpus=cpus, memory_bytes=memory_bytes, first=1
    )  # fmt: skip


def others(own: configuration.Node, address: str) -> tuple[configuration.Node, ...]:
    """Return every other node that there could be; routes to absent ones do no harm."""
    base = network(address)
    return tuple(node(str(base[number])) for number in range(1, _LAST + 1) if number != own.number)


def names() -> tuple[str, ...]:
    """Return the names that nodes may have: the engine numbers the containers of the service `node`."""
    return tuple(f"node-{number}" for number in range(1, _LAST + 1))
