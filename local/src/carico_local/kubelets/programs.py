"""What a node runs of this machine: which programs it needs, what is missing of them, and what a plan keeps of them."""

import dataclasses
import os
import pathlib
import shutil
from collections.abc import Callable, Mapping

from carico_core.domain import errors
from carico_local.kubelets import images

# Kubernetes' own, of its version.
KUBERNETES = ("kubelet", "kube-proxy", "coredns")

# The node's own: these are what `apt install containerd runc containernetworking-plugins iptables iproute2
# busybox-static` brings, under the same names everywhere.
NODE = ("containerd", "containerd-shim-runc-v2", "ctr", "runc", "ip", "busybox")
_TABLES = ("iptables", "iptables-save", "iptables-restore")
TABLES = (*_TABLES, *(f"ip6{name.removeprefix('ip')}" for name in _TABLES))
# util-linux, which makes the node.
MAKER = ("unshare", "mount", "umount", "pivot_root")
PLUGINS = ("bridge", "host-local", "loopback", "portmap")
# Scripts that start a node, the second in the view that the first has made.
HOST_ENTRY, ENTRY = (pathlib.Path(__file__).with_name(name) for name in ("carico-host-node", "carico-node"))
# Among a plan's programs: the folder of the network's plugins, and the archives of images that nodes start with.
NETWORK_PLUGINS, SANDBOX, WORKLOADS = "cni-plugins", "sandbox-image", "workload-image"
# Debian's place, and that of the plugins' own releases; CNI_PATH comes first (containernetworking/cni, SPEC.md).
_PLUGIN_FOLDERS = ("/usr/lib/cni", "/opt/cni/bin")
_SYSTEM_FOLDERS = ("/usr/sbin", "/sbin")
_INSTALL = "apt install containerd runc containernetworking-plugins iptables iproute2 busybox-static"
_NEAREST = "or use --nodes process, which needs none of it"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """Where each command is, and the folder of the network plugins."""

    commands: Mapping[str, pathlib.Path]
    plugins: pathlib.Path


def find(environ: Mapping[str, str]) -> Programs:
    """Return the programs of this machine. Raises `EnvironmentUnfit` that names every missing one."""
    found = {name: shutil.which(name, path=_path(environ)) for name in (*NODE, *TABLES, *MAKER)}
    # Where there are no tables of IPv6, kube-proxy does without.
    missing = [name for name, place in found.items() if place is None and not name.startswith("ip6")]
    plugins = _plugins(environ)
    missing += [] if plugins is not None else ["the CNI plugins (CNI_PATH)"]
    if plugins is None or missing:
        raise errors.EnvironmentUnfit(f"--nodes kubelet: {', '.join(missing)} not found: `{_INSTALL}`, {_NEAREST}")
    return Programs(
        commands={name: pathlib.Path(place) for name, place in found.items() if place is not None}, plugins=plugins
    )


def ip(environ: Mapping[str, str]) -> pathlib.Path:
    """Return the command that knows interfaces. Raises `EnvironmentUnfit`."""
    found = shutil.which("ip", path=_path(environ))
    if found is None:
        raise errors.EnvironmentUnfit(f"ip not found: `{_INSTALL}`")
    return pathlib.Path(found)


def check() -> None:
    """Raise `EnvironmentUnfit` where this user or this machine cannot make nodes."""
    if os.geteuid() != 0:
        raise errors.EnvironmentUnfit(f"--nodes kubelet needs root, {_NEAREST}")
    if not pathlib.Path("/proc/self/ns/cgroup").exists():
        raise errors.EnvironmentUnfit(f"--nodes kubelet needs Linux with cgroup namespaces (4.6), {_NEAREST}")


def obtain(environ: Mapping[str, str], *, tell: Callable[[str], None]) -> dict[str, str]:
    """Return what a plan keeps of the programs, by name, next to those of Kubernetes. Raises `EnvironmentUnfit`."""
    check()
    found = find(environ)
    return {
        **{name: str(path) for name, path in found.commands.items()},
        NETWORK_PLUGINS: str(found.plugins),
        SANDBOX: str(images.ensure_sandbox(found.commands["busybox"], environ)),
        WORKLOADS: str(images.ensure_workloads(environ, tell=tell)),
    }


def archives(binaries: Mapping[str, str]) -> list[pathlib.Path]:
    """Return the images that a node of a plan has from its start."""
    return [pathlib.Path(binaries[name]) for name in (SANDBOX, WORKLOADS)]


def commands(binaries: Mapping[str, str]) -> dict[str, str]:
    """Return the programs of a plan's node, by the name that it knows."""
    known = (*NODE, *TABLES, *MAKER, *KUBERNETES)
    return {**{name: binaries[name] for name in known if name in binaries}, ENTRY.name: str(ENTRY)}


def _path(environ: Mapping[str, str]) -> str:
    return os.pathsep.join((environ.get("PATH", os.defpath), *_SYSTEM_FOLDERS))


def _plugins(environ: Mapping[str, str]) -> pathlib.Path | None:
    given = environ.get("CNI_PATH", "").split(os.pathsep)
    folders = [pathlib.Path(folder) for folder in (*filter(None, given), *_PLUGIN_FOLDERS)]
    return next((folder for folder in folders if all((folder / name).exists() for name in PLUGINS)), None)
