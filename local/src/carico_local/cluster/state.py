"""The files by which other shells find a cluster: one directory with a state.json and a lock."""

import contextlib
import dataclasses
import difflib
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
from carico_local import private_files
from carico_local.cluster import plan as plans
from carico_local.cluster import processes

# 3: the embedded API requires a token.
VERSION = 3
# A command that checks the lock has it for microseconds on an idle machine; a supervisor has it until it ends.
_LOCK_TRIES, _LOCK_PAUSE_S = 20, 0.01


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


@dataclasses.dataclass(frozen=True, slots=True)
class Paths:
    """Paths in the directory of one cluster."""

    root: pathlib.Path

    @property
    def name(self) -> str:
        """The cluster's name."""
        return self.root.name

    @property
    def state(self) -> pathlib.Path:
        """Written only by the supervisor."""
        return self.root / "state.json"

    @property
    def plan(self) -> pathlib.Path:
        """Read by the supervisor at its start."""
        return self.root / "plan.json"

    @property
    def lock(self) -> pathlib.Path:
        """Held by the supervisor while it runs."""
        return self.root / "lock"

    @property
    def kubeconfig(self) -> pathlib.Path:
        """The kubeconfig for kubectl and every service."""
        return self.root / "kubeconfig"

    @property
    def data(self) -> pathlib.Path:
        """Data of NATS, of the API and of the nodes."""
        return self.root / "data"

    @property
    def run(self) -> pathlib.Path:
        """Ready files and configuration of the services."""
        return self.root / "run"

    @property
    def logs(self) -> pathlib.Path:
        """One log file for each service."""
        return self.root / "logs"

    def log(self, service: str) -> pathlib.Path:
        """Return the log of one service."""
        return self.logs / f"{service}.log"


def home(environ: Mapping[str, str]) -> pathlib.Path:
    """Return the directory of all clusters: $XDG_STATE_HOME/carico, by default ~/.local/state/carico (XDG)."""
    base = environ.get("XDG_STATE_HOME", "")
    # By the XDG specification, relative paths are invalid and ignored.
    root = pathlib.Path(base) if base.startswith("/") else pathlib.Path(environ.get("HOME", "/root")) / ".local/state"
    return root / "carico"


def cluster_names(home_path: pathlib.Path) -> list[str]:
    """Return the names of the clusters that run or were left behind, in order."""
    if not home_path.is_dir():
        return []
    return sorted(entry.name for entry in home_path.iterdir() if (entry / "plan.json").exists())


def logged_names(home_path: pathlib.Path) -> list[str]:
    """Return the names of the clusters with logs, in order."""
    return sorted({path.parent.parent.name for path in home_path.glob("*/logs/*.log")})


def find(home_path: pathlib.Path, name: str) -> Paths:
    """Return the paths of an existing cluster. Raises `SettingsError` that lists the existing ones."""
    if name in cluster_names(home_path):
        return Paths(home_path / name)
    existing = cluster_names(home_path)
    if not existing:
        raise errors.SettingsError(f"no cluster named {name!r}: there is none: start one with `carico up`")
    near = "".join(f"; did you mean {each!r}?" for each in difflib.get_close_matches(name, existing, n=1))
    there = f"there {'is' if len(existing) == 1 else 'are'} {', '.join(existing)}"
    raise errors.SettingsError(f"no cluster named {name!r}: {there}{near}")


def find_logs(home_path: pathlib.Path, name: str) -> Paths:
    """Return the paths of a cluster that exists or has left logs. Raises `SettingsError` that lists the known ones.

    >>> find_logs(pathlib.Path("/nowhere"), "demo")
    Traceback (most recent call last):
    carico_core.domain.errors.SettingsError: no cluster named 'demo': there is none: start one with `carico up`
    """
    # Only a valid cluster name: it becomes part of a path.
    if names.is_label(name) and any((home_path / name / "logs").glob("*.log")):
        return Paths(home_path / name)
    return find(home_path, name)


def is_running(paths: Paths) -> bool:
    """Return True where a supervisor holds the cluster's lock."""
    try:
        with paths.lock.open("rb") as file:
            # Shared: two concurrent checks must not take each other for a supervisor.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (FileNotFoundError, NotADirectoryError):
        return False
    return False


def running(home_path: pathlib.Path, name: str) -> tuple[Paths, ClusterState]:
    """Return the paths and the state of a running cluster. Raises `SettingsError` for any other, with what to do."""
    paths = find(home_path, name)
    found = read(paths) if is_running(paths) else None
    if found is None or found.phase is Phase.STOPPING:
        raise errors.SettingsError(f"cluster {name!r} is not running: start it with `carico up --name {name}`")
    return paths, found


def acquire(paths: Paths) -> IO[bytes]:
    """Take the cluster's lock, held until the file is closed in every process that has it.

    Raises `SettingsError` where another process has it: a supervisor, or a command that starts or removes the cluster.
    """
    for _ in range(_LOCK_TRIES):
        file = paths.lock.open("wb")
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(file, paths.lock):
                return file
        file.close()
        # `carico status` has the lock for an instant; a command that removes the cluster, on a file that is deleted.
        time.sleep(_LOCK_PAUSE_S)
    raise errors.SettingsError(f"cluster {paths.name!r} is running already: `carico down --name {paths.name}` stops it")


def inherited(descriptor: int) -> IO[bytes]:
    """Return the lock that the command passed on to this supervisor; services do not inherit it."""
    os.set_inheritable(descriptor, False)
    return os.fdopen(descriptor, "wb")


def _is_at(file: IO[bytes], path: pathlib.Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def write(paths: Paths, state: ClusterState) -> None:
    """Replace state.json, which contains the bus's password, as a whole: a reader never sees half of it."""
    private_files.write(paths.state, orjson.dumps({"version": VERSION, **to_json(state)}, option=orjson.OPT_INDENT_2))


def read(paths: Paths) -> ClusterState | None:
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


def read_supervisor(paths: Paths) -> processes.ProcessId | None:
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


def empty(paths: Paths) -> None:
    """Delete the files of a cluster except its lock, which the caller holds."""
    for entry in paths.root.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        elif entry != paths.lock:
            entry.unlink(missing_ok=True)


def remove(paths: Paths, *, keep_logs: bool) -> None:
    """Delete the files of a cluster."""
    if keep_logs:
        # Another command may have removed the directory meanwhile.
        for entry in paths.root.iterdir() if paths.root.exists() else ():
            if entry != paths.logs:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink(missing_ok=True)
        return
    # The plan first: without it, what an interrupted deletion leaves does not count as a cluster.
    paths.plan.unlink(missing_ok=True)
    shutil.rmtree(paths.root, ignore_errors=True)
    with contextlib.suppress(OSError):
        os.rmdir(paths.root.parent)  # succeeds only after the last cluster
