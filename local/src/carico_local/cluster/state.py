"""The state of a cluster as its supervisor writes it: state.json, by which other shells find the cluster."""

import contextlib
import dataclasses
import enum
import pathlib
from collections.abc import Mapping
from typing import Any

import orjson

from carico_core.domain import errors
from carico_local import atomic_files
from carico_local.cluster import folders, processes
from carico_local.cluster import plan as plans

# 3: the embedded API requires a token.
VERSION = 3


class Phase(enum.StrEnum):
    """The phase of a cluster's life cycle."""

    STARTING = "starting"
    READY = "ready"
    STOPPING = "stopping"
    FAILED = "failed"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """A service that ended unexpectedly: when, how, and its last log lines."""

    service: str
    at_ns: int
    how: str
    last_lines: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ServiceState:
    """The state of a service; `process` is None while it waits to be restarted."""

    name: str
    process: processes.ProcessId | None
    ready: bool
    restarts: int
    http_port: int | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """All that another shell needs to know about a cluster. `nats_url` contains the bus's password."""

    plan: plans.Plan
    phase: Phase
    supervisor: processes.ProcessId
    started_ns: int
    nats_url: str
    api_url: str
    services: tuple[ServiceState, ...]
    crashes: tuple[Crash, ...]
    notes: tuple[str, ...]
    failure: str | None
    # Where browsers reach the bus, and the address reserved for the page; empty in a cluster of an older carico.
    websocket_url: str = ""
    page_url: str = ""

    @property
    def public_nats_url(self) -> str:
        """Where the bus listens, to be shown: without user and password."""
        scheme, _, rest = self.nats_url.partition("://")
        return f"{scheme}://{rest.rpartition('@')[2]}"


def running(home_path: pathlib.Path, name: str) -> tuple[folders.Paths, ClusterState]:
    """Return the paths and the state of a running cluster. Raises `SettingsError` for any other, with what to do."""
    paths = folders.find(home_path, name)
    found = read(paths) if folders.is_running(paths) else None
    if found is None or found.phase is Phase.STOPPING:
        raise errors.SettingsError(f"cluster {name!r} is not running: start it with `carico up --name {name}`")
    return paths, found


def write(paths: folders.Paths, state: ClusterState) -> None:
    """Replace state.json, which contains the bus's password, as a whole: a reader never sees half of it."""
    atomic_files.write(paths.state, orjson.dumps({"version": VERSION, **to_json(state)}, option=orjson.OPT_INDENT_2))


def read(paths: folders.Paths) -> ClusterState | None:
    """Return the state last written; None where there is none. Raises `EnvironmentUnfit` for another version's."""
    try:
        fields = orjson.loads(paths.state.read_bytes())
    except FileNotFoundError:
        return None
    except orjson.JSONDecodeError:
        fields = {}
    if fields.get("version") != VERSION:
        raise errors.EnvironmentUnfit(
            f"cluster {paths.name!r} was started by another version of carico: stop it with "
            f"`carico down --name {paths.name}` and start it again"
        )
    return from_json(fields)


def read_supervisor(paths: folders.Paths) -> processes.ProcessId | None:
    """Return the supervisor named in the state, whatever its version; None where it names none."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        found = orjson.loads(paths.state.read_bytes())["supervisor"]
        return processes.ProcessId(pid=int(found["pid"]), start_ticks=int(found["start_ticks"]))
    return None


def to_json(state: ClusterState) -> dict[str, Any]:
    """Return the state as JSON types."""
    return {**dataclasses.asdict(state), "plan": plans.to_json(state.plan), "phase": state.phase.value}


def from_json(fields: Mapping[str, Any]) -> ClusterState:
    """Return the state that `to_json` wrote."""
    return ClusterState(
        plan=plans.from_json(fields["plan"]),
        phase=Phase(fields["phase"]),
        supervisor=processes.ProcessId(**fields["supervisor"]),
        started_ns=fields["started_ns"],
        nats_url=fields["nats_url"],
        api_url=fields["api_url"],
        services=tuple(_service(service) for service in fields["services"]),
        crashes=tuple(Crash(**{**crash, "last_lines": tuple(crash["last_lines"])}) for crash in fields["crashes"]),
        notes=tuple(fields["notes"]),
        failure=fields["failure"],
        websocket_url=fields.get("websocket_url", ""),
        page_url=fields.get("page_url", ""),
    )


def _service(fields: Mapping[str, Any]) -> ServiceState:
    process = fields["process"]
    return ServiceState(**{**fields, "process": None if process is None else processes.ProcessId(**process)})
