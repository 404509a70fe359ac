"""The nodes' network: a range of addresses that is free, one bridge of this machine, and a link from it into each node.

No firewall rule is made.
"""

import dataclasses
import hashlib
import ipaddress
import json
import pathlib
import subprocess
from collections.abc import Iterator

from carico_core.domain import errors

# Private ranges (RFC 1918) that Docker hands out last and few others use, but for a cloud whose machines are in the
# first; the first that is free is taken.
CANDIDATES = tuple(
    ipaddress.IPv4Network(f"172.{second}.{third}.0/24") for second in (31, 30, 29) for third in range(64)
)
# Where Linux says what it sends where, of every table: a VPN's and a CNI plugin's routes are often in one of their own,
# which rules ask before the main one, and /proc/net/route has the main one alone. Readable without `ip`, too.
ROUTES = pathlib.Path("/proc/net/fib_trie")
# The addresses that mean all of a network, which has an entry itself, and groups.
_TO_MANY = ("BROADCAST", "MULTICAST")
# Linux names an interface with 15 characters at most.
_BRIDGE_HASH = 10
_TIMEOUT_S = 20.0
_HASH = 8


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """`gateway`: the machine's own address on it, where the API server listens."""

    addresses: ipaddress.IPv4Network
    gateway: str


def ensure(ip: pathlib.Path, cluster: str) -> Network:
    """Return the cluster's bridge with its address, made where there is none. Raises `EnvironmentUnfit`."""
    name = bridge(cluster)
    own = _address(ip, name)
    if own is None:
        chosen = free()[0]
        own = ipaddress.IPv4Interface(f"{chosen[1]}/{chosen.prefixlen}")
        # One that was killed before it had an address would be in the way for ever.
        _try(ip, "link", "delete", name)
        _run(ip, "link", "add", name, "type", "bridge")
        _run(ip, "address", "add", str(own), "dev", name)
        _run(ip, "link", "set", name, "up")
    return Network(addresses=own.network, gateway=str(own.ip))


def plug(ip: pathlib.Path, cluster: str, number: int, *, pid: int) -> None:
    """Give the process's own network an interface `eth0` on the bridge. Raises `EnvironmentUnfit`."""
    name = _link(cluster, number)
    # An ended node's link goes a moment after it.
    _try(ip, "link", "delete", name)
    _run(ip, "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
    _run(ip, "link", "set", name, "master", bridge(cluster), "up")


def remove(ip: pathlib.Path, cluster: str) -> None:
    """Remove the cluster's bridge and links."""
    for name in of(ip, cluster):
        _try(ip, "link", "delete", name)


def of(ip: pathlib.Path, cluster: str) -> list[str]:
    """Return the names of the cluster's bridge and links that there are."""
    names = [str(link["ifname"]) for link in json.loads(_run(ip, "-json", "link", "show") or "[]")]
    return [name for name in names if name == bridge(cluster) or name.startswith(f"crn-{_hash(cluster)}-")]


def _link(cluster: str, number: int) -> str:
    return f"crn-{_hash(cluster)}-{number}"


def _hash(cluster: str) -> str:
    return hashlib.sha256(cluster.encode()).hexdigest()[:_HASH]


def _address(ip: pathlib.Path, name: str) -> ipaddress.IPv4Interface | None:
    """Return the address of an interface; None where it has none, or is not there."""
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
    """Return the name of the network's interface on the machine."""
    return f"crc-{hashlib.sha256(cluster.encode()).hexdigest()[:_BRIDGE_HASH]}"


def free() -> list[ipaddress.IPv4Network]:
    """Return the candidates in which this machine has no address and nothing to send to. Raises `EnvironmentUnfit`."""
    routes = list(_routes(ROUTES.read_text()))
    # One to all of them, such as the default one or that of a VPN, would leave no choice.
    telling = [each for each in routes if not all(each.overlaps(candidate) for candidate in CANDIDATES)]
    found = [candidate for candidate in CANDIDATES if not any(map(candidate.overlaps, telling))]
    if not found:
        raise errors.EnvironmentUnfit(f"no range of {CANDIDATES[-1]} to {CANDIDATES[0]} is free for a network of nodes")
    return found


def _routes(text: str) -> Iterator[ipaddress.IPv4Network]:
    """Yield where the routes of `ROUTES` lead: under each address, how much of it, in which scope, and of what kind."""
    address = ""
    for line in text.splitlines():
        match line.split():
            case ["|--", address]:
                pass
            case [length, _, kind, *_] if length.startswith("/") and kind not in _TO_MANY:
                yield ipaddress.IPv4Network(f"{address}{length}")
