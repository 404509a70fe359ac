"""One process of a cluster: its name, how it is started and with which variables, how one knows that it is ready."""

import dataclasses
from collections.abc import Iterable, Mapping

from carico_local import arguments
from carico_local.cluster import processes, state
from carico_local.cluster.services import readiness

_PREFIX = "CARICO_"
# A collector of traces is chosen by the user, and belongs to no cluster: settings of services that go on to them.
OF_ANY_CLUSTER = frozenset(
    f"{_PREFIX}{service}_{name}" for service in ("AGENT", "SCHEDULER") for name in ("TRACES", "TRACES_SHARE")
)
# Addresses of the cluster that a shell works with.
_FOREIGN = ("NATS_URL", "KUBECONFIG")
_OF_SERVICES = ("AGENT", "AGGREGATOR", "API", "BUS", "FLEET", "KUBE", "LEADER", "NODE", "SCHEDULER")
# The flag of `carico up` that says the same.
_FLAGS = {
    "CARICO_AGENT_CEILING_CPU": "--ceiling",
    "CARICO_AGENT_ESTIMATOR": "--estimator",
    "CARICO_AGGREGATOR_MERGE": "--merge",
    "CARICO_NODE_CGROUPS": "--node-cgroups",
    "CARICO_NODE_CORES": "--cores",
    "CARICO_NODE_SCALE": "--scale",
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One process of a cluster. `after`: the service that must be ready before this one can be started at all."""

    name: str
    command: processes.Command
    probe: readiness.Probe
    http_port: int | None
    after: str | None = None


def log_name(service: str) -> str:
    """Return the name of a service's log: `node/node-1` writes node-1's kubelet."""
    return service.replace("/", "-")


def logged(paths: state.Paths) -> list[str]:
    """Return the services that have written a log, by name, in order."""
    stems = sorted(log.stem for log in paths.logs.glob("*.log"))
    return [stem.replace("-", "/", 1) if stem.startswith(("node-", "agent-")) else stem for stem in stems]


def flags(options: Mapping[str, object]) -> list[str]:
    """Return settings as a program takes them: `--memory-bytes 1000`; True as a flag alone."""
    return arguments.flags(options)


def python(module: str, **options: object) -> tuple[str, ...]:
    """Return how a module of ours is started."""
    return arguments.python(module, **options)


def command(
    name: str, argv: tuple[str, ...], paths: state.Paths, environ: Mapping[str, str]
) -> processes.Command:  # fmt: skip
    """Return the command of a service, which writes to the service's log."""
    return processes.Command(
        name=name, argv=argv, environ=environ, log=paths.log(log_name(name)), directory=paths.root
    )  # fmt: skip


def stripped(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for services: without settings that a shell of another cluster may have set."""
    return {name: value for name, value in environ.items() if _is_inherited(name)}


def notes(environ: Mapping[str, str]) -> Iterable[str]:
    """Yield a line for each setting of the shell that the cluster's services would read and do not get."""
    for name in sorted(environ):
        group = name.removeprefix(_PREFIX).partition("_")[0]
        if name.startswith(_PREFIX) and group in _OF_SERVICES and not _is_inherited(name):
            instead = f": use {_FLAGS[name]}" if name in _FLAGS else ""
            yield f"{name} of this shell does not reach the cluster's services{instead}"


def _is_inherited(name: str) -> bool:
    return name in OF_ANY_CLUSTER or not (name.startswith(_PREFIX) or name in _FOREIGN)
