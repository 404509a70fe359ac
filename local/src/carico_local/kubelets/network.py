"""A network of a cluster's own, on which the control plane and the nodes have fixed addresses."""

import dataclasses
import hashlib
import ipaddress

from carico_core.domain import errors
from carico_local.kubelets import engine as engines

# Private ranges (RFC 1918) that Docker hands out last and few others use; the first that is free is taken.
CANDIDATES = tuple(
    ipaddress.IPv4Network(f"172.{second}.{third}.0/24") for second in (31, 30, 29) for third in range(64)
)
# Linux names an interface with 15 characters at most.
_BRIDGE_HASH = 10


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """`gateway`: the machine's own address on it, where the API server listens."""

    name: str
    addresses: ipaddress.IPv4Network
    gateway: str


def ensure(engine: engines.Engine, cluster: str) -> Network:
    """The cluster's network, made where there is none. Raises `EnvironmentUnfit` where no range is free."""
    found = engine.ours("network", cluster)
    return _read(engine, found[0]) if found else _make(engine, cluster)


def name(cluster: str) -> str:
    """The name of the network in an engine."""
    return f"carico-{cluster}"


def bridge(cluster: str) -> str:
    """The name of the network's interface on the machine."""
    return f"crc-{hashlib.sha256(cluster.encode()).hexdigest()[:_BRIDGE_HASH]}"


def _make(engine: engines.Engine, cluster: str) -> Network:
    for addresses in CANDIDATES:
        try:
            engine.run(
                "network", "create", "--label", f"{engines.LABEL}={cluster}", "--subnet", str(addresses),
                "--opt", f"com.docker.network.bridge.name={bridge(cluster)}", name(cluster),
            )  # fmt: skip
        except engines.EngineRefused as error:
            if "overlap" not in error.why.lower():
                raise
        else:
            return _read(engine, name(cluster))
    raise errors.EnvironmentUnfit(f"no range of {CANDIDATES[-1]} to {CANDIDATES[0]} is free for a network of nodes")


def _read(engine: engines.Engine, network: str) -> Network:
    found = engine.inspect("--type", "network", network)[0]
    pool = found["IPAM"]["Config"][0]
    addresses = ipaddress.IPv4Network(pool["Subnet"])
    # Engines that were not told a gateway take the first address, and some do not say so.
    return Network(name=found["Name"], addresses=addresses, gateway=pool.get("Gateway") or str(addresses[1]))
