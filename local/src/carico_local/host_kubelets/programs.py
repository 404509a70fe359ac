"""Which programs of this machine a node needs, and what is missing of them."""

import dataclasses
import os
import pathlib
import shutil
from collections.abc import Mapping

from carico_core.domain import errors

# The node's own: these are what `apt install containerd runc containernetworking-plugins iptables iproute2
# busybox-static` brings, under the same names everywhere.
NODE = ("containerd", "containerd-shim-runc-v2", "ctr", "runc", "ip", "busybox")
_TABLES = ("iptables", "iptables-save", "iptables-restore")
TABLES = (*_TABLES, *(f"ip6{name.removeprefix('ip')}" for name in _TABLES))
# util-linux, which makes the node.
MAKER = ("unshare", "mount", "umount", "pivot_root")
PLUGINS = ("bridge", "host-local", "loopback", "portmap")
# Debian's place, and that of the plugins' own releases; CNI_PATH comes first (containernetworking/cni, SPEC.md).
_PLUGIN_FOLDERS = ("/usr/lib/cni", "/opt/cni/bin")
_SYSTEM_FOLDERS = ("/usr/sbin", "/sbin")
_INSTALL = "apt install containerd runc containernetworking-plugins iptables iproute2 busybox-static"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """Where each command is, and the folder of the network plugins."""

    commands: Mapping[str, pathlib.Path]
    plugins: pathlib.Path


def find(environ: Mapping[str, str]) -> Programs:
    """The programs of this machine. Raises `EnvironmentUnfit` that names every missing one."""
    found = {name: shutil.which(name, path=_path(environ)) for name in (*NODE, *TABLES, *MAKER)}
    # Where there are no tables of IPv6, kube-proxy does without.
    missing = [name for name, place in found.items() if place is None and not name.startswith("ip6")]
    plugins = _plugins(environ)
    missing += [] if plugins is not None else ["the CNI plugins (CNI_PATH)"]
    if plugins is None or missing:
        raise errors.EnvironmentUnfit(f"{', '.join(missing)} not found: `{_INSTALL}`")
    return Programs(
        commands={name: pathlib.Path(place) for name, place in found.items() if place is not None}, plugins=plugins
    )


def ip(environ: Mapping[str, str]) -> pathlib.Path:
    """The command that knows interfaces. Raises `EnvironmentUnfit`."""
    found = shutil.which("ip", path=_path(environ))
    if found is None:
        raise errors.EnvironmentUnfit(f"ip not found: `{_INSTALL}`")
    return pathlib.Path(found)


def check() -> None:
    """Nothing. Raises `EnvironmentUnfit` where this user or this machine may not make nodes."""
    if os.geteuid() != 0:
        raise errors.EnvironmentUnfit("it needs root")
    if not pathlib.Path("/proc/self/ns/cgroup").exists():
        raise errors.EnvironmentUnfit("it needs Linux with cgroup namespaces (4.6)")


def _path(environ: Mapping[str, str]) -> str:
    return os.pathsep.join((environ.get("PATH", os.defpath), *_SYSTEM_FOLDERS))


def _plugins(environ: Mapping[str, str]) -> pathlib.Path | None:
    given = environ.get("CNI_PATH", "").split(os.pathsep)
    folders = [pathlib.Path(folder) for folder in (*filter(None, given), *_PLUGIN_FOLDERS)]
    return next((folder for folder in folders if all((folder / name).exists() for name in PLUGINS)), None)
