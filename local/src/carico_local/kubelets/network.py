"""The nodes' network: a free range of addresses, one bridge on this machine, and a link from it into each node.

It adds no firewall rules.
"""

import dataclasses
import hashlib
import ipaddress
import json
import pathlib
import subprocess
from collections.abc import Iterator

from carico_core.domain import errors

# Private ranges (RFC 1918) that Docker assigns last and few others use, except a cloud whose machines are in the first.
# The first free one is taken.
CANDIDATES = tuple(
    ipaddress.IPv4Network(f"172.{second}.{third}.0/24") for second in (31, 30, 29) for third in range(64)
)
# The routes of all tables, readable without `ip`. /proc/net/route has only the main table, but routes of VPNs and CNI
# plugins are often in other tables, which take precedence.
ROUTES = pathlib.Path("/proc/net/fib_trie")
# Entries of broadcast and multicast addresses; each network has an entry of its own.
_TO_MANY = ("BROADCAST", "MULTICAST")
# Linux limits the name of an interface to 15 characters.
_BRIDGE_HASH = 10
_TIMEOUT_S = 20.0
_HASH = 8


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """The nodes' network. `gateway`: the machine's own address on it, where the API server is reachable."""

    addresses: ipaddress.IPv4Network
    gateway: str


def ensure(ip: pathlib.Path, cluster: str) -> Network:
    """Return the network of the cluster's bridge; create the bridge where absent. Raises `EnvironmentUnfit`."""
    name = bridge(cluster)
    own = _address(ip, name)
    if own is None:
        chosen = free()[0]
        own = ipaddress.IPv4Interface(f"{chosen[1]}/{chosen.prefixlen}")
        # An earlier start that was killed may have left a bridge without an address.
        _try(ip, "link", "delete", name)
        _run(ip, "link", "add", name, "type", "bridge")
        _run(ip, "address", "add", str(own), "dev", name)
        _run(ip, "link", "set", name, "up")
    return Network(addresses=own.network, gateway=str(own.ip))


def plug(ip: pathlib.Path, cluster: str, number: int, *, pid: int) -> None:
    """Add an interface `eth0` on the bridge to the process's network namespace. Raises `EnvironmentUnfit`."""
    name = _link(cluster, number)
    # The link of an ended node disappears a moment later.
    _try(ip, "link", "delete", name)
    _run(ip, "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
    _run(ip, "link", "set", name, "master", bridge(cluster), "up")


def remove(ip: pathlib.Path, cluster: str) -> None:
    """Remove the cluster's bridge and links."""
    for name in of(ip, cluster):
        _try(ip, "link", "delete", name)


def of(ip: pathlib.Path, cluster: str) -> list[str]:
    """Return the names of the cluster's bridge and links that exist."""
    names = [str(link["ifname"]) for link in json.loads(_run(ip, "-json", "link", "show") or "[]")]
    return [name for name in names if name == bridge(cluster) or name.startswith(f"crn-{_hash(cluster)}-")]


def _link(cluster: str, number: int) -> str:
    return f"crn-{_hash(cluster)}-{number}"


def _hash(cluster: str) -> str:
    return hashlib.sha256(cluster.encode()).hexdigest()[:_HASH]


def _address(ip: pathlib.Path, name: str) -> ipaddress.IPv4Interface | None:
    """Return the address of an interface; None where it has none or does not exist."""
    links = json.loads(_run(ip, "-4", "-json", "address", "show") or "[]")
    found = (each for link in links if link.get("ifname") == name for each in link.get("addr_info", ()))
    return next((ipaddress.IPv4Interface(f"{each['local']}/{each['prefixlen']}") for each in found), None)


def _run(ip: pathlib.Path, *arguments: str) -> str:
    done = _try(ip, *arguments)
    if done.returncode != 0:
        raise errors.EnvironmentUnfit(f"`ip {' '.join(arguments)}` failed: {done.stderr.strip()}")
    return done.stdout


def _try(ip: pathlib.Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([ip, *arguments], capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)


def bridge(cluster: str) -> str:
    """Return the name of the network's bridge."""
    return f"crc-{hashlib.sha256(cluster.encode()).hexdigest()[:_BRIDGE_HASH]}"


def free() -> list[ipaddress.IPv4Network]:
    """Return the candidates in which this machine has no address and no route. Raises `EnvironmentUnfit`."""
    routes = list(_routes(ROUTES.read_text()))
    # A route that covers all of them, such as the default route or a VPN's, would leave no choice: ignore it.
    specific = [each for each in routes if not all(each.overlaps(candidate) for candidate in CANDIDATES)]
    found = [candidate for candidate in CANDIDATES if not any(map(candidate.overlaps, specific))]
    if not found:
        raise errors.EnvironmentUnfit(
            f"no range from {CANDIDATES[-1]} to {CANDIDATES[0]} is free for the nodes' network"
        )
    return found


def _routes(text: str) -> Iterator[ipaddress.IPv4Network]:
    """Yield the destinations in `ROUTES`: below each address, a line with prefix length, scope and kind."""
    address = ""
    for line in text.splitlines():
        match line.split():
            case ["|--", address]:
                pass
            case [length, _, kind, *_] if length.startswith("/") and kind not in _TO_MANY:
                yield ipaddress.IPv4Network(f"{address}{length}")
