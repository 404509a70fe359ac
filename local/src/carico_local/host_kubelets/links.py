"""The network of the nodes: one bridge of this machine, and a link from it into each node. No firewall rule is made."""

import hashlib
import ipaddress
import json
import pathlib
import subprocess

from carico_core.domain import errors
from carico_local.kubelets import network

_TIMEOUT_S = 20.0
# Linux names an interface with 15 characters at most.
_HASH = 8


def ensure(ip: pathlib.Path, cluster: str) -> network.Network:
    """The cluster's bridge with its address, made where there is none. Raises `EnvironmentUnfit`."""
    name = network.bridge(cluster)
    own = _address(ip, name)
    if own is None:
        chosen = network.free()[0]
        own = ipaddress.IPv4Interface(f"{chosen[1]}/{chosen.prefixlen}")
        # One that was killed before it had an address would be in the way for ever.
        _try(ip, "link", "delete", name)
        _run(ip, "link", "add", name, "type", "bridge")
        _run(ip, "address", "add", str(own), "dev", name)
        _run(ip, "link", "set", name, "up")
    return network.Network(name="", addresses=own.network, gateway=str(own.ip))


def plug(ip: pathlib.Path, cluster: str, number: int, *, pid: int) -> None:
    """Nothing; the process's own network has an interface `eth0` on the bridge. Raises `EnvironmentUnfit`."""
    name = _link(cluster, number)
    # An ended node's link goes a moment after it.
    _try(ip, "link", "delete", name)
    _run(ip, "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
    _run(ip, "link", "set", name, "master", network.bridge(cluster), "up")


def remove(ip: pathlib.Path, cluster: str) -> None:
    """Nothing; neither the bridge nor a link of the cluster is left."""
    for name in of(ip, cluster):
        _try(ip, "link", "delete", name)


def of(ip: pathlib.Path, cluster: str) -> list[str]:
    """The names of the cluster's bridge and links that there are."""
    names = [str(link["ifname"]) for link in json.loads(_run(ip, "-json", "link", "show") or "[]")]
    return [name for name in names if name == network.bridge(cluster) or name.startswith(f"crn-{_hash(cluster)}-")]


def _link(cluster: str, number: int) -> str:
    return f"crn-{_hash(cluster)}-{number}"


def _hash(cluster: str) -> str:
    return hashlib.sha256(cluster.encode()).hexdigest()[:_HASH]


def _address(ip: pathlib.Path, name: str) -> ipaddress.IPv4Interface | None:
    """The address of an interface; None where it has none, or is not there."""
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
