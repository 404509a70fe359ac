"""What is written about a cluster, so that other shells find it: one directory, one state.json, one lock."""

import contextlib
import dataclasses
import enum
import fcntl
import os
import pathlib
import shutil
import time
from collections.abc import Mapping
from typing import IO, Any

import orjson

from carico_core.domain import errors, names
from carico_local.cluster import plan as plans
from carico_local.cluster import processes

# 3: the embedded API asks for a token.
VERSION = 3
# A look at the lock takes microseconds, where nothing else keeps the CPU; a supervisor has it for good.
_LOOKERS_WITHIN, _LOOK_S = 20, 0.01


class Phase(enum.StrEnum):
    """Where a cluster is in its life."""

    STARTING = "starting"
    READY = "ready"
    STOPPING = "stopping"
    FAILED = "failed"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """A service that ended by itself: when, how, and its last words."""

    service: str
    at_ns: int
    how: str
    last_lines: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ServiceState:
    """A service as its supervisor sees it; `process` is None while it waits to be restarted."""

    name: str
    process: processes.ProcessId | None
    ready: bool
    restarts: int
    http_port: int | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """All that another shell needs to know of a cluster."""

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
    # Where browsers reach the bus, and the address kept for the page; empty in a cluster of an older carico.
    websocket_url: str = ""
    page_url: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Paths:
    """Places in the directory of one cluster."""

    root: pathlib.Path

    @property
    def name(self) -> str:
        """The cluster's name."""
        return self.root.name

    @property
    def state(self) -> pathlib.Path:
        """Written by the supervisor alone."""
        return self.root / "state.json"

    @property
    def plan(self) -> pathlib.Path:
        """Read by the supervisor at its start."""
        return self.root / "plan.json"

    @property
    def lock(self) -> pathlib.Path:
        """Held by the supervisor for as long as it lives."""
        return self.root / "lock"

    @property
    def kubeconfig(self) -> pathlib.Path:
        """For kubectl and for every service."""
        return self.root / "kubeconfig"

    @property
    def data(self) -> pathlib.Path:
        """Stores of NATS, of the API and of the nodes."""
        return self.root / "data"

    @property
    def run(self) -> pathlib.Path:
        """Files by which services say that they are ready."""
        return self.root / "run"

    @property
    def logs(self) -> pathlib.Path:
        """One file a service."""
        return self.root / "logs"

    def log(self, service: str) -> pathlib.Path:
        """Return the log of one service."""
        return self.logs / f"{service}.log"


def home(environ: Mapping[str, str]) -> pathlib.Path:
    """Return the directory of all clusters: $XDG_STATE_HOME/carico, by default ~/.local/state/carico (XDG)."""
    base = environ.get("XDG_STATE_HOME", "")
    # The specification: relative paths are invalid and ignored.
    root = pathlib.Path(base) if base.startswith("/") else pathlib.Path(environ.get("HOME", "/root")) / ".local/state"
    return root / "carico"


def cluster_names(home_path: pathlib.Path) -> list[str]:
    """Return names of the clusters that have left or keep a state, in order."""
    if not home_path.is_dir():
        return []
    return sorted(entry.name for entry in home_path.iterdir() if (entry / "plan.json").exists())


def logged_names(home_path: pathlib.Path) -> list[str]:
    """Return names of the clusters that have left or keep logs, in order."""
    return sorted({path.parent.parent.name for path in home_path.glob("*/logs/*.log")})


def find(home_path: pathlib.Path, name: str) -> Paths:
    """Return the places of an existing cluster. Raises `SettingsError` that names the ones there are."""
    if name in cluster_names(home_path):
        return Paths(home_path / name)
    existing = ", ".join(cluster_names(home_path))
    hint = f"there is {existing}" if existing else "there is none: start one with `carico up`"
    raise errors.SettingsError(f"no cluster named {name!r}: {hint}")


def find_logs(home_path: pathlib.Path, name: str) -> Paths:
    """Return the places of a cluster that exists or has left logs. Raises `SettingsError` that names the known ones.

    >>> find_logs(pathlib.Path("/nowhere"), "demo")
    Traceback (most recent call last):
    carico_core.domain.errors.SettingsError: no cluster named 'demo': there is none: start one with `carico up`
    """
    # Only a name that could be a cluster's: it becomes a part of a path.
    if names.is_label(name) and any((home_path / name / "logs").glob("*.log")):
        return Paths(home_path / name)
    return find(home_path, name)


def is_running(paths: Paths) -> bool:
    """Return True where a supervisor holds the cluster's lock."""
    try:
        with paths.lock.open("rb") as file:
            # Shared: two who look at the same time must not take each other for a supervisor.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (FileNotFoundError, NotADirectoryError):
        return False
    return False


def running(home_path: pathlib.Path, name: str) -> tuple[Paths, ClusterState]:
    """Return the places and the state of a cluster that runs. Raises `SettingsError` for any other, with what to do."""
    paths = find(home_path, name)
    found = read(paths) if is_running(paths) else None
    if found is None or found.phase is Phase.STOPPING:
        raise errors.SettingsError(f"cluster {name!r} does not run: `carico up --name {name}`")
    return paths, found


def acquire(paths: Paths) -> IO[bytes]:
    """Return the cluster's lock, held until the file is closed here and wherever it was passed on to.

    Raises `SettingsError` where another has it: a supervisor, or a command that starts or removes one.
    """
    for _ in range(_LOOKERS_WITHIN):
        file = paths.lock.open("wb")
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(file, paths.lock):
                return file
        file.close()
        # Who only looks, as `carico status` does, has it for an instant; who removed the cluster, a file that is gone.
        time.sleep(_LOOK_S)
    raise errors.SettingsError(f"cluster {paths.name!r} runs already: `carico down --name {paths.name}`")


def inherited(descriptor: int) -> IO[bytes]:
    """Return the lock as the command that started this supervisor has passed it on. No service gets it, too."""
    os.set_inheritable(descriptor, False)
    return os.fdopen(descriptor, "wb")


def _is_at(file: IO[bytes], path: pathlib.Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def write(paths: Paths, state: ClusterState) -> None:
    """Replace state.json as a whole, so that a reader never sees a half of it."""
    fresh = paths.state.with_suffix(".new")
    fresh.write_bytes(orjson.dumps({"version": VERSION, **to_json(state)}, option=orjson.OPT_INDENT_2))
    fresh.rename(paths.state)


def read(paths: Paths) -> ClusterState | None:
    """Return the state last written; None where there is none. Raises `EnvironmentUnfit` for an unreadable one."""
    try:
        fields = orjson.loads(paths.state.read_bytes())
    except FileNotFoundError:
        return None
    except orjson.JSONDecodeError:
        fields = {}
    if fields.get("version") != VERSION:
        raise errors.EnvironmentUnfit(
            f"cluster {paths.name!r} was started by another version of carico: end it with "
            f"`carico down --name {paths.name}` and start it again"
        )
    return from_json(fields)


def read_supervisor(paths: Paths) -> processes.ProcessId | None:
    """Return the supervisor that the state names, in whatever version it was written; None where it names none."""
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


def empty(paths: Paths) -> None:
    """Delete what was written about a cluster but its lock, which its holder goes on with."""
    for entry in paths.root.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        elif entry != paths.lock:
            entry.unlink(missing_ok=True)


def remove(paths: Paths, *, keep_logs: bool) -> None:
    """Delete what was written about a cluster."""
    if keep_logs:
        # Gone where another command has removed it meanwhile.
        for entry in paths.root.iterdir() if paths.root.exists() else ():
            if entry != paths.logs:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink(missing_ok=True)
        return
    # The plan first: without it the rest is no cluster any more, even where a deletion is cut short.
    paths.plan.unlink(missing_ok=True)
    shutil.rmtree(paths.root, ignore_errors=True)
    with contextlib.suppress(OSError):
        os.rmdir(paths.root.parent)  # only when it was the last
