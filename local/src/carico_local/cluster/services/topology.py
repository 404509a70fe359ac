"""The processes of a cluster, how each is started, and when it is ready."""

import dataclasses
import os
import pathlib
import secrets
from collections.abc import Mapping

import orjson

from carico_auth import arrangements
from carico_local import atomic_files, nats_server
from carico_local.cgroups import layout as layouts
from carico_local.cgroups import node_group
from carico_local.cluster import folders, processes
from carico_local.cluster import plan as plans
from carico_local.cluster.services import control_planes, kubelet_nodes, probes, readiness, web_access
from carico_local.cluster.services import service as parts

NATS, API, KWOK = probes.NATS, probes.API, probes.KWOK
AGGREGATOR, SCHEDULER, RESCHEDULER = "aggregator", "scheduler", "rescheduler"
# Creates the Nodes that kwok plays, and plays their agents.
FLEET = "fleet"
# Ports besides those of the services: NATS' for browsers, and the one reserved for `carico web`.
NATS_WEBSOCKET, WEB = "nats-websocket", "web"
# Stopped in this order: first the rescheduler, which undoes a move under way, and the schedulers; then what reports,
# then the nodes with their Pods, then API and bus.
# An API server that has lost its etcd takes most of a minute to end.
_STOP_ORDER = (
    "rescheduler", "scheduler", "agent", "fleet", "aggregator", "node", "relay", "metrics-", "kwok", "kube-", "api",
    "etcd", "nats",
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where a cluster's services listen. `bus` is the host and port of NATS."""

    bus: str
    bus_password: str = dataclasses.field(repr=False)
    api_url: str
    ports: Mapping[str, int]

    @property
    def nats_url(self) -> str:
        """The bus for everyone but agents."""
        return web_access.url(self.bus, arrangements.LOCAL, self.bus_password)

    @property
    def agents_url(self) -> str:
        """The bus for agents, which have an account of their own."""
        return web_access.url(self.bus, arrangements.AGENTS, self.bus_password)

    @property
    def web(self) -> web_access.WebAccess:
        """How browsers reach the bus."""
        return web_access.WebAccess(websocket_port=self.ports[NATS_WEBSOCKET], page_port=self.ports[WEB])


def service_names(plan: plans.Plan) -> list[str]:
    """Return the names of all services of a plan, as in `carico logs`."""
    aggregators, schedulers = _replicas(AGGREGATOR, plan.aggregators), _replicas(SCHEDULER, plan.schedulers)
    nodes = [f"node/{name}" for name in plan.service_nodes]
    agents = [f"agent/{name}" for name in plan.service_nodes]
    extra = {plans.NodeKind.KWOK: [KWOK, FLEET], plans.NodeKind.KUBELET: [kubelet_nodes.RELAY, kubelet_nodes.METRICS]}
    fleet = extra.get(plan.node_kind, [])
    others = [RESCHEDULER] if plan.rescheduler else []
    return [NATS, *probes.control_plane(plan), *aggregators, *schedulers, *others, *fleet, *nodes, *agents]


def _replicas(service: str, count: int) -> list[str]:
    """aggregator, aggregator-2, ..."""
    return [service, *(f"{service}-{number}" for number in range(2, count + 1))]


def addresses(plan: plans.Plan, free_ports: list[int]) -> Addresses:
    """Assign `ports_needed` free ports, one to each service that listens; nodes choose their own. Make a password."""
    listening = [name for name in service_names(plan) if not name.startswith("node/") and name != kubelet_nodes.RELAY]
    ports = dict(zip([*listening, NATS_WEBSOCKET, WEB], free_ports, strict=True))
    scheme = "http" if plan.control_plane is plans.ControlPlane.EMBEDDED else "https"
    return Addresses(
        bus=f"127.0.0.1:{ports[NATS]}", bus_password=secrets.token_urlsafe(24),
        api_url=f"{scheme}://127.0.0.1:{ports[API]}", ports=ports,
    )  # fmt: skip


def ports_needed(plan: plans.Plan) -> int:
    """Return how many ports `addresses` needs."""
    relays = 1 if plan.node_kind is plans.NodeKind.KUBELET else 0
    return len(service_names(plan)) - len(plan.service_nodes) - relays + len((NATS_WEBSOCKET, WEB))


def write_configuration(plan: plans.Plan, where: Addresses, paths: folders.Paths, environ: Mapping[str, str]) -> None:
    """Write kubeconfigs and the configuration of NATS. Raises `EnvironmentUnfit` without openssl."""
    if plan.node_kind is plans.NodeKind.KUBELET:
        kubelet_nodes.prepare(plan, paths)
    control_planes.of(plan, where.ports, paths, environ).write_configuration()
    if plan.node_kind is plans.NodeKind.KUBELET:
        keys = control_planes.real(plan, where.ports, paths, environ).plane.identities
        kubelet_nodes.write(plan, paths, keys=keys, port=where.ports[API])
    for_browsers = web_access.configuration(where.web, where.bus_password)
    config = nats_server.configuration(store_dir=paths.data / "nats", port=where.ports[NATS], extra=for_browsers)
    atomic_files.write(paths.run / "nats.conf", config.encode())


def services(
    plan: plans.Plan, where: Addresses, paths: folders.Paths, environ: Mapping[str, str]
) -> list[parts.Service]:
    """Return every service of the plan, in start order."""
    build = _Builder(plan, where, paths, environ)
    found = [build.nats(), *build.control_plane.services(environ)]
    if plan.node_kind is plans.NodeKind.KWOK:
        found += [build.kwok(), build.fleet()]
    if plan.node_kind is plans.NodeKind.KUBELET:
        found.append(kubelet_nodes.relay(paths, environ, port=where.ports[API]))
        found.append(kubelet_nodes.metrics(plan, paths, environ, port=where.ports[kubelet_nodes.METRICS]))
    found += [build.node(name) for name in plan.service_nodes]
    found += [build.aggregator(name) for name in _replicas(AGGREGATOR, plan.aggregators)]
    found += [build.scheduler(name) for name in _replicas(SCHEDULER, plan.schedulers)]
    if plan.rescheduler:
        found.append(build.rescheduler())
    found += [build.agent(name) for name in plan.service_nodes]
    return found


def stop_groups(names: list[str]) -> list[list[str]]:
    """Return services in groups: each group is stopped once the one before it has ended."""
    groups = [[name for name in names if name.startswith(kind)] for kind in _STOP_ORDER]
    return [group for group in groups if group]


class _Builder:
    """Builds the services of a plan."""

    def __init__(self, plan: plans.Plan, where: Addresses, paths: folders.Paths, environ: Mapping[str, str]) -> None:
        self._plan = plan
        self._where = where
        self._paths = paths
        self._environ = environ
        self.control_plane = control_planes.of(plan, where.ports, paths, environ)

    def nats(self) -> parts.Service:
        config = str(self._paths.run / "nats.conf")
        port = self._where.ports[NATS]
        argv = (str(nats_server.binary()), "-c", config)
        command = self._command(NATS, argv)
        return parts.Service(name=NATS, command=command, probe=probes.of(self._plan, NATS, port))

    def aggregator(self, name: str) -> parts.Service:
        options = {"replica": name, **({"merge": self._plan.merge} if self._plan.merge else {})}
        return self._service(name, "carico_aggregator", **options)

    def scheduler(self, name: str) -> parts.Service:
        # The supervisor guarantees that there is only one; after a crash it need not wait until its own Lease expires.
        sharing = self._plan.sharing
        is_alone = self._plan.schedulers == 1 and sharing != "shared"
        options: dict[str, object] = {"replica": name, **({"no_leader_election": True} if is_alone else {})}
        if sharing is not None:
            options["sharing"] = sharing
        kubeconfig = str(self._paths.kubeconfig)
        return self._service(name, "carico_scheduler", after=None, kubeconfig=kubeconfig, **options)

    def rescheduler(self) -> parts.Service:
        options: dict[str, object] = {"no_leader_election": True, "kubeconfig": str(self._paths.kubeconfig)}
        return self._service(RESCHEDULER, "carico_rescheduler", after=API, **options)

    def node(self, node: str) -> parts.Service:
        plan = self._plan
        if plan.node_kind is plans.NodeKind.KUBELET:
            return kubelet_nodes.node(plan, self._paths, self._environ, node)
        ready = ready_file(self._paths, node)
        argv = parts.python(
            "carico_local.node",
            name=node,
            cores=plan.cores,
            scale=plan.scale,
            memory_bytes=plan.memory_bytes,
            cgroups=plan.node_cgroups,
            cluster=plan.name,
            root=str(self._paths.data / "nodes" / node),
            ready_file=str(ready),
            **({"allow_root": True} if plan.allow_root else {}),
            # The Pods of an ordinary user are that user's own processes: tokens and keys of all clusters are in there.
            **({"closed": str(self._paths.root.parent)} if os.geteuid() else {}),
            **self.control_plane.node_options(node),
        )
        name = f"node/{node}"
        return parts.Service(name=name, command=self._command(name, argv), probe=readiness.File(path=ready), after=API)

    def kwok(self) -> parts.Service:
        port = self._where.ports[KWOK]
        plane = control_planes.real(self._plan, self._where.ports, self._paths, self._environ).plane
        command = self._command(KWOK, plane.kwok())
        return parts.Service(name=KWOK, command=command, probe=probes.of(self._plan, KWOK, port), after=API)

    def fleet(self) -> parts.Service:
        plan = self._plan
        shape = {"nodes": plan.nodes, "cores": plan.cores, "kubeconfig": str(self._paths.kubeconfig)}
        return self._service(FLEET, "carico_local.played_nodes", after=KWOK, **shape)

    def agent(self, node: str) -> parts.Service:
        plan = self._plan
        tuning: dict[str, object] = {"pod_classes": "roster"}
        if plan.estimator is not None:
            tuning["estimator"] = plan.estimator
        if plan.ceiling_cpu is not None:
            tuning["ceiling_cpu"] = plan.ceiling_cpu
        facts = node_facts(plan, self._paths, node)
        if plan.rescheduler and facts["scope"] == "cgroup":
            tuning["traffic"] = "sockets"
        found = self._service(f"agent/{node}", "carico_agent", after=f"node/{node}", **(facts | tuning))
        environ = found.command.environ
        if environ.get("PYTHONDONTWRITEBYTECODE"):
            # Compiling at each start would cost a third of a second.
            return found
        # Without docstrings, each agent takes 2.7 MB less.
        lean = dataclasses.replace(found.command, environ={**environ, "PYTHONOPTIMIZE": "2"})
        return dataclasses.replace(found, command=lean)

    def _service(self, name: str, module: str, *, after: str | None = None, **options: object) -> parts.Service:
        port = self._where.ports[name]
        command = self._command(name, parts.python(module, **options, http_port=port, log_json=True))
        # Every user of this machine can read a command line.
        bus_url = self._where.agents_url if name == FLEET or name.startswith("agent/") else self._where.nats_url
        environ = {**command.environ, "CARICO_BUS_URL": bus_url}
        return parts.Service(
            name=name,
            command=dataclasses.replace(command, environ=environ),
            probe=probes.of(self._plan, name, port),
            after=after,
        )

    def _command(self, name: str, argv: tuple[str, ...]) -> processes.Command:
        return parts.command(name, argv, self._paths, self._environ)


def node_facts(plan: plans.Plan, paths: folders.Paths, node: str) -> dict[str, object]:
    """Return the settings with which an agent measures a node: its cgroup, or else its processes."""
    if plan.node_kind is plans.NodeKind.KUBELET:
        return {
            "node": node,
            "scope": "cgroup",
            "cgroup": node_group.node_path(plan.name, node),
            "pod_events": "cgroup",
        }
    facts: dict[str, object] = {
        "node": node, "cores": plan.cores, "scale": plan.scale, "memory_bytes": plan.memory_bytes,
    }  # fmt: skip
    ready = read_ready(paths, node)
    if ready.get("fallback"):
        # It has no cgroup to measure.
        kubeconfig = str(paths.kubeconfig)
        return {
            **facts, "scope": "process", "root_pid": ready["pid"], "pod_events": "kubernetes", "kubeconfig": kubeconfig
        }  # fmt: skip
    return {**facts, "scope": "cgroup", "cgroup": _cgroup(plan, ready, node), "pod_events": "cgroup"}


def _cgroup(plan: plans.Plan, ready: Mapping[str, object], node: str) -> str:
    found = ready.get("cgroup")
    if isinstance(found, dict) and found.get("layout") == layouts.Version.V2:
        # The tree that systemd delegates to a user begins below the mount point.
        return str(found["trees"][layouts.UNIFIED])
    return node_group.node_path(plan.name, node)


def ready_file(paths: folders.Paths, node: str) -> pathlib.Path:
    """Return the file in which a node reports that it is ready, with its cgroup."""
    return paths.run / f"{node}.ready.json"


def read_ready(paths: folders.Paths, node: str) -> dict[str, object]:
    """Return the content of a node's ready file; empty while it is not ready."""
    try:
        found = orjson.loads(ready_file(paths, node).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return {}
    return found if isinstance(found, dict) else {}
