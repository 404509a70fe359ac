"""What the services of a cluster get of the environment of the shell that starts it, and what they do not."""

from collections.abc import Iterable, Mapping

_PREFIX = "CARICO_"
# A collector of traces is chosen by whoever looks, and belongs to no cluster: settings of services that go on to them.
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


def stripped(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment for services: without settings that a shell of another cluster may have set."""
    return {name: value for name, value in environ.items() if _is_inherited(name)}


def notes(environ: Mapping[str, str]) -> Iterable[str]:
    """A line for each setting of the shell that a service of its cluster would read by itself and does not get."""
    for name in sorted(environ):
        group = name.removeprefix(_PREFIX).partition("_")[0]
        if name.startswith(_PREFIX) and group in _OF_SERVICES and not _is_inherited(name):
            instead = f": use {_FLAGS[name]}" if name in _FLAGS else ""
            yield f"{name} of this shell does not reach the cluster's services{instead}"


def _is_inherited(name: str) -> bool:
    return name in OF_ANY_CLUSTER or not (name.startswith(_PREFIX) or name in _FOREIGN)
