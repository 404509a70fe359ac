"""Which processes make up a cluster, how each is started, and how one knows that it is ready."""

import dataclasses
import json
import pathlib
import sys
from collections.abc import Mapping

import orjson

from carico_local import nats_server
from carico_local.cgroups import node_group
from carico_local.cluster import plan as plans
from carico_local.cluster import processes, readiness, state

NATS, API, AGGREGATOR, SCHEDULER = "nats", "api", "aggregator", "scheduler"
# Ended in this order: first who decides, then who reports, then the nodes with their Pods, then what they talk to.
_STOP_ORDER = ("scheduler", "agent", "aggregator", "node", "api", "nats")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One process of a cluster. `after`: the service that must be ready before this one can be started at all."""

    name: str
    command: processes.Command
    probe: readiness.Probe
    http_port: int | None
    after: str | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where a cluster's services listen."""

    nats_url: str
    api_url: str
    ports: Mapping[str, int]


def service_names(plan: plans.Plan) -> list[str]:
    """The names of all services of a plan, as `carico logs` takes them."""
    aggregators = [AGGREGATOR, *(f"{AGGREGATOR}-{number}" for number in range(2, plan.aggregators + 1))]
    nodes = [f"node/{name}" for name in plan.node_names]
    agents = [f"agent/{name}" for name in plan.node_names]
    return [NATS, API, *aggregators, SCHEDULER, *nodes, *agents]


def addresses(plan: plans.Plan, free_ports: list[int]) -> Addresses:
    """One port for each service that listens; nodes choose their own. Needs `ports_needed` free ports."""
    listening = [name for name in service_names(plan) if not name.startswith("node/")]
    ports = dict(zip(listening, free_ports, strict=True))
    return Addresses(nats_url=f"nats://127.0.0.1:{ports[NATS]}", api_url=f"http://127.0.0.1:{ports[API]}", ports=ports)


def ports_needed(plan: plans.Plan) -> int:
    """How many ports `addresses` takes."""
    return len(service_names(plan)) - plan.nodes


def log_name(service: str) -> str:
    """The name of a service's log: `node/node-1` writes node-1's kubelet."""
    return service.replace("/", "-")


def write_configuration(plan: plans.Plan, where: Addresses, paths: state.Paths) -> None:
    """Writes the kubeconfig and the configuration of NATS."""
    paths.kubeconfig.write_text(json.dumps(_kubeconfig(plan.name, where.api_url), indent=1), encoding="utf-8")
    config = nats_server.configuration(store_dir=paths.data / "nats", port=where.ports[NATS])
    (paths.run / "nats.conf").write_text(config, encoding="utf-8")


def services(plan: plans.Plan, where: Addresses, paths: state.Paths, environ: Mapping[str, str]) -> list[Service]:
    """Every service of the plan, in the order in which they are started."""
    build = _Builder(plan, where, paths, environ)
    found = [build.nats(), build.api()]
    found += [build.node(name) for name in plan.node_names]
    found += [build.aggregator(name) for name in service_names(plan) if name.startswith(AGGREGATOR)]
    found.append(build.scheduler())
    found += [build.agent(name) for name in plan.node_names]
    return found


def stop_groups(names: list[str]) -> list[list[str]]:
    """Services in groups: each group is ended when the one before it is gone."""
    return [[name for name in names if name.startswith(kind)] for kind in _STOP_ORDER]


class _Builder:
    """Puts commands together."""

    def __init__(self, plan: plans.Plan, where: Addresses, paths: state.Paths, environ: Mapping[str, str]) -> None:
        self._plan = plan
        self._where = where
        self._paths = paths
        self._environ = environ

    def nats(self) -> Service:
        config = str(self._paths.run / "nats.conf")
        port = self._where.ports[NATS]
        argv = (str(nats_server.binary()), "-c", config)
        return Service(name=NATS, command=self._command(NATS, argv), probe=readiness.Tcp(port=port), http_port=None)

    def api(self) -> Service:
        port = self._where.ports[API]
        argv = self._python("carico_local.api", data=str(self._paths.data / "api"), port=port)
        return Service(name=API, command=self._command(API, argv), probe=readiness.Http(port=port), http_port=port)

    def aggregator(self, name: str) -> Service:
        options = {"replica": name, **({"merge": self._plan.merge} if self._plan.merge else {})}
        return self._service(name, "carico_aggregator", **options)

    def scheduler(self) -> Service:
        return self._service(SCHEDULER, "carico_scheduler", kubeconfig=str(self._paths.kubeconfig))

    def node(self, node: str) -> Service:
        plan = self._plan
        ready = ready_file(self._paths, node)
        argv = self._python(
            "carico_local.node",
            name=node,
            cores=plan.cores,
            scale=plan.scale,
            memory_bytes=plan.memory_bytes,
            cluster=plan.name,
            kubeconfig=str(self._paths.kubeconfig),
            root=str(self._paths.data / "nodes" / node),
            ready_file=str(ready),
        )
        name = f"node/{node}"
        return Service(
            name=name, command=self._command(name, argv), probe=readiness.File(path=ready), http_port=None, after=API
        )

    def agent(self, node: str) -> Service:
        plan = self._plan
        tuning: dict[str, object] = {"pod_classes": "kubernetes", "kubeconfig": str(self._paths.kubeconfig)}
        if plan.estimator is not None:
            tuning["estimator"] = plan.estimator
        if plan.ceiling_cpu is not None:
            tuning["ceiling_cpu"] = plan.ceiling_cpu
        return self._service(
            f"agent/{node}", "carico_agent", after=f"node/{node}", **(node_facts(plan, self._paths, node) | tuning)
        )

    def _service(self, name: str, module: str, *, after: str | None = None, **options: object) -> Service:
        port = self._where.ports[name]
        argv = self._python(module, bus_url=self._where.nats_url, http_port=port, log_json=True, **options)
        return Service(
            name=name,
            command=self._command(name, argv),
            probe=readiness.Http(port=port),
            http_port=port,
            after=after,
        )

    @staticmethod
    def _python(module: str, **options: object) -> tuple[str, ...]:
        return (sys.executable, "-m", module, *flags(options))

    def _command(self, name: str, argv: tuple[str, ...]) -> processes.Command:
        return processes.Command(
            name=name,
            argv=argv,
            environ=self._environ,
            log=self._paths.log(log_name(name)),
            directory=self._paths.root,
        )


def node_facts(plan: plans.Plan, paths: state.Paths, node: str) -> dict[str, object]:
    """The settings by which an agent measures a node of the plan: its cgroup, or its processes where it has none."""
    facts: dict[str, object] = {
        "node": node, "cores": plan.cores, "scale": plan.scale, "memory_bytes": plan.memory_bytes,
    }  # fmt: skip
    fallback = _fallback_pid(ready_file(paths, node))
    if fallback is not None:
        kubeconfig = str(paths.kubeconfig)
        return {**facts, "scope": "process", "root_pid": fallback, "pod_events": "kubernetes", "kubeconfig": kubeconfig}
    return {**facts, "scope": "cgroup", "cgroup": node_group.node_path(plan.name, node), "pod_events": "cgroup"}


def flags(options: Mapping[str, object]) -> list[str]:
    """Settings as a program takes them: `--memory-bytes 1000`; True as a flag alone."""
    found: list[str] = []
    for name, value in options.items():
        found += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    return found


def ready_file(paths: state.Paths, node: str) -> pathlib.Path:
    """The file by which a node says that it is ready, and how."""
    return paths.run / f"{node}.ready.json"


def read_ready(paths: state.Paths, node: str) -> dict[str, object]:
    """What a node says of itself; empty while it is not ready."""
    try:
        found = orjson.loads(ready_file(paths, node).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def _fallback_pid(ready: pathlib.Path) -> int | None:
    """The node's process where it has no cgroup to be measured by, else None."""
    try:
        found = orjson.loads(ready.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None
    return int(found["pid"]) if found.get("fallback") else None


def _kubeconfig(name: str, url: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": url}}],
        "users": [{"name": name, "user": {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
