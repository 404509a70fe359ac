"""What kubelet nodes run on this machine, beside the programs of Kubernetes: found or made before a cluster starts.

Where an engine answers, nodes are containers; else they are namespaces of this machine, for which it must have the
programs that a container would bring.
"""

import pathlib
from collections.abc import Callable, Mapping

from carico_core.domain import errors
from carico_local.binaries import tools
from carico_local.host_kubelets import programs, sandbox
from carico_local.kubelets import engine as engines
from carico_local.kubelets import image, workload_image

# Among the plan's programs: the image that the nodes run, ...
IMAGE = "node-image"
# ... or, without an engine, the folder of the network's plugins and the archive of the sandboxes' image ...
NETWORK_PLUGINS, SANDBOX = "cni-plugins", "sandbox-image"
# ... and the archive of the workloads' image.
WORKLOADS = "workload-image"
ENTRY = "carico-node"


def check(environ: Mapping[str, str]) -> None:
    """Nothing, at once. Raises `EnvironmentUnfit` where there is nothing that nodes could run on."""
    _on_host(environ)


def obtain(
    found: Mapping[str, tools.Found], *, base: str | None, environ: Mapping[str, str], tell: Callable[[str], None]
) -> dict[str, str]:
    """Further entries of the plan's programs. Raises `EnvironmentUnfit`.

    base: the Debian image that the nodes' image is built on, where there is an engine; None: one that is pulled.
    """
    host = _on_host(environ)
    workloads = {WORKLOADS: str(workload_image.ensure(environ, tell=tell))}
    if host is None:
        recipe = image.Recipe(binaries=found, base=base or image.DEFAULT_BASE)
        return {IMAGE: image.ensure(engines.Engine(environ=environ), recipe, tell=tell), **workloads}
    tell("no Docker engine answers: kubelets run in namespaces of this machine")
    return {
        **{name: str(path) for name, path in host.commands.items()},
        NETWORK_PLUGINS: str(host.plugins),
        SANDBOX: str(sandbox.ensure(host.commands["busybox"], environ)),
        **workloads,
    }


def has_engine(binaries: Mapping[str, str]) -> bool:
    """Whether the plan's nodes are containers."""
    return IMAGE in binaries


def archives(binaries: Mapping[str, str]) -> list[pathlib.Path]:
    """The images that a node of the plan has from its start; in a container, beside the sandboxes'."""
    return [pathlib.Path(binaries[name]) for name in (SANDBOX, WORKLOADS) if name in binaries]


def commands(binaries: Mapping[str, str]) -> dict[str, str]:
    """The programs of a node that is no container, by the name that it knows."""
    known = (*programs.NODE, *programs.TABLES, *programs.MAKER, *image.BINARIES)
    return {**{name: binaries[name] for name in known if name in binaries}, ENTRY: str(image.FOLDER / ENTRY)}


def _on_host(environ: Mapping[str, str]) -> programs.Programs | None:
    """The programs of nodes that are no containers; None where an engine answers. Raises `EnvironmentUnfit`."""
    try:
        engines.Engine(environ=environ).check()
    except errors.EnvironmentUnfit as no_engine:
        try:
            programs.check()
            return programs.find(environ)
        except errors.EnvironmentUnfit as unfit:
            raise errors.EnvironmentUnfit(
                f"{no_engine}; without an engine kubelets can run on this machine itself, but {unfit}"
            ) from unfit
    return None
