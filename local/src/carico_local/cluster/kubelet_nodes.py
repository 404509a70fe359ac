"""The services of a cluster whose nodes are real kubelets: a relay to the API, and one service a node.

A node is a container where there is an engine, and else a set of namespaces (`host_kubelets`). The control plane
listens on loopback, as in every local cluster; the relay lets the nodes' own network in.
"""

import asyncio
import ipaddress
import json
import pathlib
import re
from collections.abc import Mapping

from carico_local.cgroups import node_group
from carico_local.cluster import host_nodes, kubelet_programs, machine, readiness, state
from carico_local.cluster import plan as plans
from carico_local.cluster import service as parts
from carico_local.control_plane import identity
from carico_local.kubelets import configuration, instructions, network, nodes
from carico_local.kubelets import engine as engines

RELAY = "relay"
# What a killed tool left under the node's name would be in the way.
_RUN = (
    'name=$1; cid=$2; shift 2; docker rm -f -v "$name" > /dev/null 2>&1; rm -f "$cid"; '
    'exec docker run --rm --cidfile "$cid" "$@"'
)


def prepare(plan: plans.Plan, paths: state.Paths, environ: Mapping[str, str]) -> network.Network:
    """The cluster's network, made where there is none. Raises `EnvironmentUnfit` without what nodes run on."""
    with_engine = kubelet_programs.has_engine(plan.binaries)
    # Before anything is made: a tool that is killed in between must leave word of what `clear` has to look for.
    _directory(paths).mkdir(parents=True, exist_ok=True)
    _write_network(paths, name=network.name(plan.name) if with_engine else "")
    if with_engine:
        engine = engines.Engine(environ=environ)
        engine.check()
        found = network.ensure(engine, plan.name)
    else:
        found = host_nodes.network_of(plan)
    _write_network(paths, name=found.name, addresses=str(found.addresses), gateway=found.gateway)
    return found


def gateway(plan: plans.Plan, paths: state.Paths) -> str:
    """The machine's address on the nodes' network; empty where the nodes are of another kind."""
    return _read_network(paths).gateway if plan.node_kind is plans.NodeKind.KUBELET else ""


def users(plan: plans.Plan) -> dict[str, identity.User]:
    """The identities of what runs in the nodes."""
    return instructions.users(_members(plan)) if plan.node_kind is plans.NodeKind.KUBELET else {}


def write(plan: plans.Plan, paths: state.Paths, *, keys: identity.Identities, port: int) -> None:
    """Writes what each node is told, keys too."""
    found, on = _read_network(paths), machine.read_machine()
    with_engine = kubelet_programs.has_engine(plan.binaries)
    instructions.write(
        _directory(paths), nodes=_members(plan), network=found.addresses, cluster=plan.name, identities=keys,
        url=f"https://{found.gateway}:{port}",
        machine=configuration.Machine(cpus=on.cpus, memory_bytes=on.memory_available_bytes),
        plugins=configuration.PLUGINS if with_engine else host_nodes.PLUGINS,
    )  # fmt: skip


def relay(paths: state.Paths, environ: Mapping[str, str], *, port: int) -> parts.Service:
    """The service that lets the nodes reach the API at `port`."""
    host = _read_network(paths).gateway
    argv = (*parts.python("carico_local.kubelets.relay"), host, str(port), str(port))
    command = parts.command(RELAY, argv, paths, environ)
    return parts.Service(name=RELAY, command=command, probe=_Listening(host=host, port=port), http_port=None)


def node(plan: plans.Plan, paths: state.Paths, environ: Mapping[str, str], name: str) -> parts.Service:
    """A node, in the foreground."""
    found = next(each for each in _members(plan) if each.name == name)
    service, ready = f"node/{name}", _ready_file(paths, name)
    if kubelet_programs.has_engine(plan.binaries):
        fleet = _fleet(plan, paths, environ)
        argv = ("/bin/sh", "-c", _RUN, "sh", fleet.container(found), str(ready), *fleet.arguments(found))
    else:
        within = _read_network(paths)
        argv = host_nodes.command(plan, paths, found, network=within, config=_directory(paths) / name, ready=ready)
    return parts.Service(
        name=service, command=parts.command(service, argv, paths, environ), probe=readiness.File(path=ready),
        http_port=None, after=RELAY,
    )  # fmt: skip


def cgroup(plan: plans.Plan, paths: state.Paths, environ: Mapping[str, str], name: str) -> str:
    """The path of the node's cgroup below the machine's roots; the roots' own while its container does not run."""
    if not kubelet_programs.has_engine(plan.binaries):
        return node_group.node_path(plan.name, name)
    try:
        container = _ready_file(paths, name).read_text(encoding="ascii").strip()
        shown = engines.Engine(environ=environ).inspect("--type", "container", container)[0]
        lines = pathlib.Path(f"/proc/{shown['State']['Pid']}/cgroup").read_text(encoding="utf-8")
    except (OSError, engines.EngineRefused):
        # Asked before the node is up too; an agent is started after it, and with what is true then.
        return "."
    # v1: the hierarchy of the quota; v2: the only one, where the entry script leaves its own group for its programs.
    path = re.search(r"^\d+:(?:cpuacct|cpu,cpuacct|cpu):/(\S*)$", lines, re.MULTILINE) or re.search(
        r"^0::/(\S*?)(?:/init)?$", lines, re.MULTILINE
    )
    return path[1] if path is not None else "."


def clear(paths: state.Paths, environ: Mapping[str, str]) -> None:
    """Nothing; no node of the cluster is left, nor its network. Raises `EnvironmentUnfit`."""
    try:
        name = json.loads(_network_file(paths).read_text(encoding="utf-8"))["name"]
    except FileNotFoundError:
        return  # nothing was made yet
    if name:
        nodes.sweep(engines.Engine(environ=environ), paths.name)
    else:
        host_nodes.sweep(paths.name, environ)


class _Listening:
    """Ready where a connection is taken."""

    def __init__(self, *, host: str, port: int) -> None:
        self._host, self._port = host, port

    async def why_not(self) -> str | None:
        """That nobody listens."""
        try:
            async with asyncio.timeout(readiness.ANSWER_TIMEOUT_S):
                _, writer = await asyncio.open_connection(self._host, self._port)
        except (OSError, TimeoutError):
            return f"nothing answers on {self._host}:{self._port}"
        writer.close()
        return None


def _fleet(plan: plans.Plan, paths: state.Paths, environ: Mapping[str, str]) -> nodes.Fleet:
    return nodes.Fleet(
        engine=engines.Engine(environ=environ), cluster=plan.name, directory=_directory(paths),
        image=plan.binaries[kubelet_programs.IMAGE], network=_read_network(paths), nodes=_members(plan),
        archives=kubelet_programs.archives(plan.binaries),
    )  # fmt: skip


def _members(plan: plans.Plan) -> list[configuration.Node]:
    return [
        configuration.Node(name=name, number=number, cpus=plan.cores * plan.scale, memory_bytes=plan.memory_bytes)
        for number, name in enumerate(plan.node_names, 1)
    ]


def _directory(paths: state.Paths) -> pathlib.Path:
    return paths.data / "kubelets"


def _write_network(paths: state.Paths, **written: str) -> None:
    # As a whole: a tool may be killed at any moment.
    unfinished = _network_file(paths).with_suffix(".unfinished")
    unfinished.write_text(json.dumps(written), encoding="utf-8")
    unfinished.replace(_network_file(paths))


def _read_network(paths: state.Paths) -> network.Network:
    found = json.loads(_network_file(paths).read_text(encoding="utf-8"))
    return network.Network(
        name=found["name"], addresses=ipaddress.IPv4Network(found["addresses"]), gateway=found["gateway"]
    )  # fmt: skip


def _network_file(paths: state.Paths) -> pathlib.Path:
    return paths.run / "network.json"


def _ready_file(paths: state.Paths, name: str) -> pathlib.Path:
    return paths.run / f"{name}.container"
