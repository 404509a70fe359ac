"""The environment of this process, read once: where clusters are kept, and what the terminal can do.

A misspelt `CARICO_...` is refused: it must not fall back to a default unnoticed.
"""

import dataclasses
import pathlib
from collections.abc import Mapping

from carico_core.domain import errors, names
from carico_core.runtime.process import settings
from carico_local.cluster import folders

PREFIX = "CARICO_"
# Groups of settings of the services and of docker-compose.yml; each service itself refuses a name it does not know.
# Listed here rather than imported, so that no command waits for a service's modules.
OF_SERVICES = (
    "AGENT", "AGGREGATOR", "API", "AUTH", "BUS", "COMPOSE", "CONTAINER", "EXTENDER", "FLEET", "KUBE", "LEADER", "NODE",
    "RECOMMENDER", "RESCHEDULER", "SCHEDULER", "TEST", "WEB",
)  # fmt: skip
# Set by `carico env`, for a cluster's own processes and Pods, and by the tests.
OF_PROCESSES = (
    "CARICO_CLUSTER", "CARICO_CLUSTER_RUN", "CARICO_CLUSTER_RUNTIME", "CARICO_POD_IP", "CARICO_SCALE",
    "CARICO_SHARED_DATA", "CARICO_TERMINATION_MESSAGE_PATH",
)  # fmt: skip
# Kubernetes sets these in every Pod for each Service of its namespace: https://kubernetes.io/docs/concepts/services-networking/
_SERVICE_LINK = ("_SERVICE_HOST", "_SERVICE_PORT", "_PORT")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Passed to every command. `plain`: there is no terminal to draw on."""

    home: pathlib.Path
    environ: Mapping[str, str]
    plain: bool


def read(*, is_terminal: bool) -> Context:
    """Return the context of this process."""
    environ = settings.environment()
    # NO_COLOR (https://no-color.org) and a terminal that cannot move its cursor both mean plain lines.
    plain = not is_terminal or environ.get("TERM", "dumb") == "dumb" or bool(environ.get("NO_COLOR"))
    return Context(home=folders.home(environ), environ=environ, plain=plain)


def check(environ: Mapping[str, str]) -> None:
    """Check the names. Raises `SettingsError` with the first unknown `CARICO_...` and the nearest known name."""
    for name in sorted(environ):
        if name.startswith(PREFIX) and not _is_known(name):
            known = [*OF_PROCESSES, *(f"{PREFIX}{group}_" for group in OF_SERVICES)]
            near = names.nearest(name, known, most=1, alike=0.5) or _same_group(name)
            hint = f" (nearest: {near[0]}{'...' if near[0].endswith('_') else ''})" if near else ""
            raise errors.SettingsError(f"environment: unknown setting {name}{hint}: unset it or fix the name")


def _is_known(name: str) -> bool:
    group = name.removeprefix(PREFIX).partition("_")[0]
    is_link = "_SERVICE_" in name or "_PORT_" in name or name.endswith(_SERVICE_LINK)
    return name in OF_PROCESSES or (group in OF_SERVICES and name != PREFIX + group) or is_link


def _same_group(name: str) -> list[str]:
    """Return the group of settings whose name is nearest to the variable's first word."""
    near = names.nearest(name.removeprefix(PREFIX).partition("_")[0], OF_SERVICES, most=1)
    return [f"{PREFIX}{group}_" for group in near]
