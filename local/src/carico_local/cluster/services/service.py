"""One process of a cluster: its name, command, environment and readiness check."""

import dataclasses
import sys
from collections.abc import Iterable, Mapping

from carico_core.runtime.process import setting_values
from carico_local.cluster import folders, processes
from carico_local.cluster.services import readiness

_PREFIX = "CARICO_"
# Settings for the user's own collector of traces, which belongs to no cluster: services inherit them.
OF_ANY_CLUSTER = frozenset(
    f"{_PREFIX}{service}_{name}" for service in ("AGENT", "SCHEDULER") for name in ("TRACES", "TRACES_SHARE")
)
# Read by nothing but the rescheduler of `carico up --rescheduler`, which has no flags for them.
_OF_RESCHEDULER = f"{_PREFIX}RESCHEDULER_"
# Addresses of another cluster that the shell may work with.
_FOREIGN = ("NATS_URL", "KUBECONFIG")
_OF_SERVICES = ("AGENT", "AGGREGATOR", "API", "BUS", "FLEET", "KUBE", "LEADER", "NODE", "SCHEDULER")
# The corresponding flags of `carico up`.
_FLAGS = {
    "CARICO_AGENT_CEILING_CPU": "--ceiling",
    "CARICO_AGENT_ESTIMATOR": "--estimator",
    "CARICO_AGGREGATOR_MERGE": "--merge",
    "CARICO_NODE_ALLOW_ROOT": "--allow-root",
    "CARICO_NODE_CGROUPS": "--node-cgroups",
    "CARICO_NODE_CORES": "--cores",
    "CARICO_NODE_SCALE": "--scale",
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One process of a cluster. `after`: the service that must be ready before this one is started."""

    name: str
    command: processes.Command
    probe: readiness.Check
    after: str | None = None


def log_name(service: str) -> str:
    """Return the name of a service's log file: `node/node-1` logs to `node-node-1`."""
    return service.replace("/", "-")


def logged(paths: folders.Paths) -> list[str]:
    """Return the names of the services that have written a log, in order."""
    stems = sorted(log.stem for log in paths.logs.glob("*.log"))
    return [stem.replace("-", "/", 1) if stem.startswith(("node-", "agent-")) else stem for stem in stems]


def python(module: str, **options: object) -> tuple[str, ...]:
    """Return the command line that runs a Python module."""
    return (sys.executable, "-m", module, *setting_values.flags(options))


def command(
    name: str, argv: tuple[str, ...], paths: folders.Paths, environ: Mapping[str, str]
) -> processes.Command:  # fmt: skip
    """Return the command of a service; its output goes to the service's log."""
    return processes.Command(
        name=name, argv=argv, environ=environ, log=paths.log(log_name(name)), directory=paths.root
    )  # fmt: skip


def stripped(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for services, without settings that the shell may have for another cluster."""
    return {name: value for name, value in environ.items() if _is_inherited(name)}


def notes(environ: Mapping[str, str]) -> Iterable[str]:
    """Yield a line for each setting of the shell that is withheld from the services that would read it."""
    for name in sorted(environ):
        group = name.removeprefix(_PREFIX).partition("_")[0]
        if name.startswith(_PREFIX) and group in _OF_SERVICES and not _is_inherited(name):
            instead = f": use {_FLAGS[name]}" if name in _FLAGS else ""
            yield f"{name} of the shell that started the cluster does not reach its services{instead}"


def _is_inherited(name: str) -> bool:
    if name in OF_ANY_CLUSTER or name.startswith(_OF_RESCHEDULER):
        return True
    return not (name.startswith(_PREFIX) or name in _FOREIGN)
