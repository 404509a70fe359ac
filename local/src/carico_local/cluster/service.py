"""One process of a cluster: its name, how it is started, how one knows that it is ready."""

import dataclasses
from collections.abc import Mapping

from carico_local import arguments
from carico_local.cluster import processes, readiness, state


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One process of a cluster. `after`: the service that must be ready before this one can be started at all."""

    name: str
    command: processes.Command
    probe: readiness.Probe
    http_port: int | None
    after: str | None = None


def log_name(service: str) -> str:
    """The name of a service's log: `node/node-1` writes node-1's kubelet."""
    return service.replace("/", "-")


def logged(paths: state.Paths) -> list[str]:
    """The services that have written a log, by name, in order."""
    stems = sorted(log.stem for log in paths.logs.glob("*.log"))
    return [stem.replace("-", "/", 1) if stem.startswith(("node-", "agent-")) else stem for stem in stems]


def flags(options: Mapping[str, object]) -> list[str]:
    """Settings as a program takes them: `--memory-bytes 1000`; True as a flag alone."""
    return arguments.flags(options)


def python(module: str, **options: object) -> tuple[str, ...]:
    """How a module of ours is started."""
    return arguments.python(module, **options)


def command(
    name: str, argv: tuple[str, ...], paths: state.Paths, environ: Mapping[str, str]
) -> processes.Command:  # fmt: skip
    """The command of a service, which writes to the service's log."""
    return processes.Command(
        name=name, argv=argv, environ=environ, log=paths.log(log_name(name)), directory=paths.root
    )  # fmt: skip
