"""A network of a cluster's own, on which the control plane and the nodes have fixed addresses."""

import dataclasses
import hashlib
import ipaddress
import pathlib
from collections.abc import Iterator

from carico_core.domain import errors
from carico_local.kubelets import engine as engines

# Private ranges (RFC 1918) that Docker hands out last and few others use, but for a cloud whose machines are in the
# first; the first that is free is taken.
CANDIDATES = tuple(
    ipaddress.IPv4Network(f"172.{second}.{third}.0/24") for second in (31, 30, 29) for third in range(64)
)
# Where Linux says what it sends where, of every table: a VPN's and a CNI plugin's routes are often in one of their own,
# which rules ask before the main one, and /proc/net/route has the main one alone. Read by whoever has no `ip`, too.
ROUTES = pathlib.Path("/proc/net/fib_trie")
# The addresses that mean all of a network, which is told itself, and groups.
_TO_MANY = ("BROADCAST", "MULTICAST")
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


def free() -> list[ipaddress.IPv4Network]:
    """The candidates in which this machine has no address and nothing to send to. Raises `EnvironmentUnfit`."""
    routes = list(_routes(ROUTES.read_text()))
    # One to all of them, such as the default one or that of a VPN, would leave no choice.
    telling = [each for each in routes if not all(each.overlaps(candidate) for candidate in CANDIDATES)]
    found = [candidate for candidate in CANDIDATES if not any(map(candidate.overlaps, telling))]
    if not found:
        raise errors.EnvironmentUnfit(f"no range of {CANDIDATES[-1]} to {CANDIDATES[0]} is free for a network of nodes")
    return found


def _routes(text: str) -> Iterator[ipaddress.IPv4Network]:
    """Where the routes of `ROUTES` lead: under each address, how much of it, in which scope, and of what kind."""
    address = ""
    for line in text.splitlines():
        match line.split():
            case ["|--", address]:
                pass
            case [length, _, kind, *_] if length.startswith("/") and kind not in _TO_MANY:
                yield ipaddress.IPv4Network(f"{address}{length}")


def name(cluster: str) -> str:
    """The name of the network in an engine."""
    return f"carico-{cluster}"


def bridge(cluster: str) -> str:
    """The name of the network's interface on the machine."""
    return f"crc-{hashlib.sha256(cluster.encode()).hexdigest()[:_BRIDGE_HASH]}"


def _make(engine: engines.Engine, cluster: str) -> Network:
    for addresses in free():
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
    raise errors.EnvironmentUnfit("the engine finds no range free for a network of nodes")


def _read(engine: engines.Engine, network: str) -> Network:
    found = engine.inspect("--type", "network", network)[0]
    pool = found["IPAM"]["Config"][0]
    addresses = ipaddress.IPv4Network(pool["Subnet"])
    # Engines that were not told a gateway take the first address, and some do not say so.
    return Network(name=found["Name"], addresses=addresses, gateway=pool.get("Gateway") or str(addresses[1]))
