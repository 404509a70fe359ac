"""Kubelet nodes of a cluster on a machine without an engine: how each is started, and what is swept after all."""

import dataclasses
import json
import pathlib
from collections.abc import Mapping

from carico_core.domain import errors
from carico_local.cluster import kubelet_programs, state
from carico_local.cluster import plan as plans
from carico_local.cluster import service as parts
from carico_local.host_kubelets import cgroups, launcher, links, programs
from carico_local.kubelets import configuration, network

# Where a node finds the plugins of its network: bound there, wherever the machine has them.
PLUGINS = "/carico-cni"


def network_of(plan: plans.Plan) -> network.Network:
    """The cluster's network, made where there is none. Raises `EnvironmentUnfit`."""
    return links.ensure(pathlib.Path(plan.binaries["ip"]), plan.name)


def command(
    plan: plans.Plan, paths: state.Paths, node: configuration.Node, *, network: network.Network, config: pathlib.Path,
    ready: pathlib.Path,
) -> tuple[str, ...]:  # fmt: skip
    """How a node is started; writes what its launcher reads."""
    told = launcher.Node(
        cluster=plan.name, name=node.name, number=node.number, cpus=node.cpus, memory_bytes=node.memory_bytes,
        gateway=network.gateway, prefix=network.addresses.prefixlen, config=str(config),
        data=str(paths.data / "nodes" / node.name), ready=str(ready),
        plugins=plan.binaries[kubelet_programs.NETWORK_PLUGINS],
        commands=kubelet_programs.commands(plan.binaries),
        images=[str(path) for path in kubelet_programs.archives(plan.binaries)],
    )  # fmt: skip
    # Asked for how a service is started long after it was: the file of a running node stays as it is.
    written, text = paths.run / f"{node.name}.json", json.dumps(dataclasses.asdict(told))
    if not written.exists() or written.read_text(encoding="utf-8") != text:
        written.write_text(text, encoding="utf-8")
    return (*parts.python("carico_local.host_kubelets.launcher"), str(written))


def sweep(cluster: str, environ: Mapping[str, str]) -> None:
    """Nothing; no process, cgroup, interface or mount of the cluster is left. Raises `EnvironmentUnfit`."""
    if not cgroups.remove(cluster):
        raise errors.EnvironmentUnfit(f"cgroups of {cluster} could not be removed: a process in them does not end")
    links.remove(programs.ip(environ), cluster)
