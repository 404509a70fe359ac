"""The services of a cluster whose nodes are real kubelets: a relay to the API, and one launcher for each node.

The control plane listens on loopback, as in every local cluster; the relay makes it reachable from the nodes' network.
metrics-server is next to it and asks the kubelets.
"""

import dataclasses
import ipaddress
import json
import pathlib
from collections.abc import Mapping

from carico_core.domain import errors
from carico_local import atomic_files
from carico_local.cluster import folders, machine
from carico_local.cluster import plan as plans
from carico_local.cluster.services import probes, readiness
from carico_local.cluster.services import service as parts
from carico_local.control_plane import identity
from carico_local.kubelets import configuration, instructions, launcher, metrics_api, network, node_cgroups, programs

RELAY, METRICS = "relay", probes.METRICS


def prepare(plan: plans.Plan, paths: folders.Paths) -> network.Network:
    """Return the cluster's network; create it where absent. Raises `EnvironmentUnfit` where nodes cannot run here."""
    # Before anything is created: after a kill in between, `clear` must find this file.
    _directory(paths).mkdir(parents=True, exist_ok=True)
    _write_network(paths)
    found = network.ensure(pathlib.Path(plan.binaries["ip"]), plan.name)
    _write_network(paths, addresses=str(found.addresses), gateway=found.gateway)
    return found


def gateway(plan: plans.Plan, paths: folders.Paths) -> str:
    """Return the machine's address on the nodes' network; empty for nodes of another kind."""
    return _read_network(paths).gateway if plan.node_kind is plans.NodeKind.KUBELET else ""


def users(plan: plans.Plan) -> dict[str, identity.User]:
    """Return the identities of the programs in the nodes."""
    return instructions.users(_members(plan)) if plan.node_kind is plans.NodeKind.KUBELET else {}


def write(plan: plans.Plan, paths: folders.Paths, *, keys: identity.Identities, port: int) -> None:
    """Write the files of each node, including its keys."""
    found, on = _read_network(paths), machine.read_machine()
    instructions.write(
        _directory(paths), nodes=_members(plan), network=found.addresses, cluster=plan.name, identities=keys,
        url=f"https://{found.gateway}:{port}",
        machine=configuration.HostSize(cpus=on.cpus, memory_bytes=on.memory_available_bytes),
        plugins=launcher.PLUGINS,
    )  # fmt: skip


def relay(paths: folders.Paths, environ: Mapping[str, str], *, port: int) -> parts.Service:
    """Return the service that lets the nodes reach the API at `port`."""
    host = _read_network(paths).gateway
    argv = (*parts.python("carico_local.kubelets.relay"), host, str(port), str(port))
    command = parts.command(RELAY, argv, paths, environ)
    return parts.Service(name=RELAY, command=command, probe=readiness.Tcp(host=host, port=port))


def metrics(plan: plans.Plan, paths: folders.Paths, environ: Mapping[str, str], *, port: int) -> parts.Service:
    """Return the service that answers `kubectl top`."""
    admin = str(paths.kubeconfig)
    program = metrics_api.command(
        plan.binaries[METRICS], kubeconfig=admin, port=port, directory=str(paths.data / "metrics")
    )
    argv = (*parts.python("carico_local.kubelets.metrics_api"), admin, str(port), *program)
    return parts.Service(
        name=METRICS, command=parts.command(METRICS, argv, paths, environ), probe=probes.of(plan, METRICS, port),
        after=probes.API,
    )  # fmt: skip


def node(plan: plans.Plan, paths: folders.Paths, environ: Mapping[str, str], name: str) -> parts.Service:
    """Write the launcher's file of a node, and return the node's service."""
    member = next(each for each in _members(plan) if each.name == name)
    service, ready, within = f"node/{name}", paths.run / f"{name}.ready", _read_network(paths)
    launch = launcher.Launch(
        cluster=plan.name, name=name, number=member.number, cpus=member.cpus, memory_bytes=member.memory_bytes,
        gateway=within.gateway, prefix=within.addresses.prefixlen, config=str(_directory(paths) / name),
        data=str(paths.data / "nodes" / name), ready=str(ready), plugins=plan.binaries[programs.NETWORK_PLUGINS],
        commands=programs.commands(plan.binaries), images=[str(path) for path in programs.archives(plan.binaries)],
    )  # fmt: skip
    # This function is also called while the node runs: leave an unchanged file alone.
    written, text = paths.run / f"{name}.json", json.dumps(dataclasses.asdict(launch))
    if not written.exists() or written.read_text(encoding="utf-8") != text:
        written.write_text(text, encoding="utf-8")
    argv = (*parts.python("carico_local.kubelets.launcher"), str(written))
    return parts.Service(
        name=service, command=parts.command(service, argv, paths, environ), probe=readiness.File(path=ready),
        after=RELAY,
    )  # fmt: skip


def clear(paths: folders.Paths, environ: Mapping[str, str]) -> None:
    """Remove processes, cgroups, interfaces and mounts of the cluster's nodes. Raises `EnvironmentUnfit`."""
    if not _network_file(paths).exists():
        return  # nothing was created yet
    if not node_cgroups.remove(paths.name):
        raise errors.EnvironmentUnfit(f"cannot remove the cgroups of {paths.name}: a process in them does not end")
    network.remove(programs.ip(environ), paths.name)


def _members(plan: plans.Plan) -> list[configuration.Node]:
    return [
        configuration.Node(name=name, number=number, cpus=plan.cores * plan.scale, memory_bytes=plan.memory_bytes)
        for number, name in enumerate(plan.node_names, 1)
    ]


def _directory(paths: folders.Paths) -> pathlib.Path:
    return paths.data / "kubelets"


def _write_network(paths: folders.Paths, **written: str) -> None:
    # As a whole: a supervisor may be killed at any moment.
    atomic_files.write(_network_file(paths), json.dumps(written).encode())


def _read_network(paths: folders.Paths) -> network.Network:
    found = json.loads(_network_file(paths).read_text(encoding="utf-8"))
    return network.Network(addresses=ipaddress.IPv4Network(found["addresses"]), gateway=found["gateway"])


def _network_file(paths: folders.Paths) -> pathlib.Path:
    return paths.run / "network.json"
