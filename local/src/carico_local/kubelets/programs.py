"""The programs of this machine that a node runs: which it needs, which are missing, and their paths for a plan."""

import dataclasses
import os
import pathlib
import shutil
from collections.abc import Callable, Mapping

from carico_core.domain import errors
from carico_local.kubelets import images

# Programs of the pinned version of Kubernetes.
KUBERNETES = ("kubelet", "kube-proxy", "coredns")

# Other programs in a node: those that `apt install containerd runc containernetworking-plugins iptables iproute2
# busybox-static` installs, which have the same names everywhere.
NODE = ("containerd", "containerd-shim-runc-v2", "ctr", "runc", "ip", "busybox")
_TABLES = ("iptables", "iptables-save", "iptables-restore")
TABLES = (*_TABLES, *(f"ip6{name.removeprefix('ip')}" for name in _TABLES))
# Programs of util-linux that create the node.
MAKER = ("unshare", "mount", "umount", "pivot_root")
PLUGINS = ("bridge", "host-local", "loopback", "portmap")
# Scripts that start a node: the second runs in the view of the machine that the first has made.
HOST_ENTRY, ENTRY = (pathlib.Path(__file__).with_name(name) for name in ("carico-host-node", "carico-node"))
# Entries in a plan's programs: the directory of network plugins, and the archives of images that nodes start with.
NETWORK_PLUGINS, SANDBOX, WORKLOADS = "cni-plugins", "sandbox-image", "workload-image"
# Debian's directory, and that of the plugins' own releases; CNI_PATH comes first (containernetworking/cni, SPEC.md).
_PLUGIN_FOLDERS = ("/usr/lib/cni", "/opt/cni/bin")
_SYSTEM_FOLDERS = ("/usr/sbin", "/sbin")
_INSTALL = "apt install containerd runc containernetworking-plugins iptables iproute2 busybox-static"
_NEAREST = "or use --nodes process, which does not need it"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """The path of each command, and the directory of the network plugins."""

    commands: Mapping[str, pathlib.Path]
    plugins: pathlib.Path


def find(environ: Mapping[str, str]) -> Programs:
    """Return the programs of this machine. Raises `EnvironmentUnfit` that lists every missing one."""
    found = {name: shutil.which(name, path=_path(environ)) for name in (*NODE, *TABLES, *MAKER)}
    # kube-proxy also works without the tables of IPv6.
    missing = [name for name, place in found.items() if place is None and not name.startswith("ip6")]
    plugins = _plugins(environ)
    missing += [] if plugins is not None else ["the CNI plugins (CNI_PATH)"]
    if plugins is None or missing:
        raise errors.EnvironmentUnfit(f"--nodes kubelet: {', '.join(missing)} not found: `{_INSTALL}`, {_NEAREST}")
    return Programs(
        commands={name: pathlib.Path(place) for name, place in found.items() if place is not None}, plugins=plugins
    )


def ip(environ: Mapping[str, str]) -> pathlib.Path:
    """Return the path of the `ip` command. Raises `EnvironmentUnfit`."""
    found = shutil.which("ip", path=_path(environ))
    if found is None:
        raise errors.EnvironmentUnfit(f"ip not found: `{_INSTALL}`")
    return pathlib.Path(found)


def check() -> None:
    """Raise `EnvironmentUnfit` where this user or this machine cannot create nodes."""
    if os.geteuid() != 0:
        raise errors.EnvironmentUnfit(f"--nodes kubelet needs root, {_NEAREST}")
    if not pathlib.Path("/proc/self/ns/cgroup").exists():
        raise errors.EnvironmentUnfit(f"--nodes kubelet needs Linux with cgroup namespaces (4.6), {_NEAREST}")


def obtain(environ: Mapping[str, str], *, report: Callable[[str], None]) -> dict[str, str]:
    """Return a plan's programs by name, without those of Kubernetes. Raises `EnvironmentUnfit`."""
    check()
    found = find(environ)
    return {
        **{name: str(path) for name, path in found.commands.items()},
        NETWORK_PLUGINS: str(found.plugins),
        SANDBOX: str(images.ensure_sandbox(found.commands["busybox"], environ)),
        WORKLOADS: str(images.ensure_workloads(environ, report=report)),
    }


def archives(binaries: Mapping[str, str]) -> list[pathlib.Path]:
    """Return the images that a plan's nodes start with."""
    return [pathlib.Path(binaries[name]) for name in (SANDBOX, WORKLOADS)]


def commands(binaries: Mapping[str, str]) -> dict[str, str]:
    """Return the programs of a plan's node, by the name that the node uses."""
    known = (*NODE, *TABLES, *MAKER, *KUBERNETES)
    return {**{name: binaries[name] for name in known if name in binaries}, ENTRY.name: str(ENTRY)}


def _path(environ: Mapping[str, str]) -> str:
    return os.pathsep.join((environ.get("PATH", os.defpath), *_SYSTEM_FOLDERS))


def _plugins(environ: Mapping[str, str]) -> pathlib.Path | None:
    given = environ.get("CNI_PATH", "").split(os.pathsep)
    folders = [pathlib.Path(folder) for folder in (*filter(None, given), *_PLUGIN_FOLDERS)]
    return next((folder for folder in folders if all((folder / name).exists() for name in PLUGINS)), None)
