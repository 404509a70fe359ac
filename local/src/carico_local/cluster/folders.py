"""The directory of each cluster on this machine: its paths, its lock, and which clusters there are."""

import contextlib
import dataclasses
import fcntl
import os
import pathlib
import shutil
import time
from collections.abc import Mapping
from typing import IO

from carico_core.domain import errors, names

# A command that checks the lock has it for microseconds on an idle machine; a supervisor has it until it ends.
_LOCK_TRIES, _LOCK_PAUSE_S = 20, 0.01


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
    """Return the names of the clusters that run or were left behind, in order; only those that this user may read."""
    return sorted(path.parent.name for path in home_path.glob("*/plan.json"))


def logged_names(home_path: pathlib.Path) -> list[str]:
    """Return the names of the clusters with logs, in order."""
    return sorted({path.parent.parent.name for path in home_path.glob("*/logs/*.log")})


def find(home_path: pathlib.Path, name: str) -> Paths:
    """Return the paths of an existing cluster. Raises `SettingsError` that lists the existing ones."""
    if name in cluster_names(home_path):
        return Paths(home_path / name)
    existing = cluster_names(home_path)
    if not existing:
        raise errors.SettingsError(f"no cluster named {name!r}: there is none: start it with `carico up --name {name}`")
    near = "".join(f"; did you mean {each!r}?" for each in names.nearest(name, existing, most=1))
    there = f"there {'is' if len(existing) == 1 else 'are'} {', '.join(existing)}"
    raise errors.SettingsError(f"no cluster named {name!r}: {there}{near}")


def find_logs(home_path: pathlib.Path, name: str) -> Paths:
    """Return the paths of a cluster that exists or has left logs. Raises `SettingsError` that lists the known ones.

    >>> find_logs(pathlib.Path("/nowhere"), "x")
    Traceback (most recent call last):
    carico_core.domain.errors.SettingsError: no cluster named 'x': there is none: start it with `carico up --name x`
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
