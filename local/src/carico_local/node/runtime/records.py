"""The files of a node about its containers, by which its next process finds them.

Those that a Pod's own processes use are below SHARED, which is ROOT/shared where Pods run as the node's user. A node of
root keeps ROOT to itself, and Pods' files in a directory of /var/lib/carico/pods that any user may pass through.

ROOT/runtime.json                                    the zygote: pid and start time
ROOT/runtime.sock                                    the socket on which it listens
ROOT/pods/<uid>/<container>/<attempt>/started.json   pid, start time in ticks, wall time
                                     /failed.json    why its command could not be run
                                     /exit.json      exit code, signal, wall time
                                     /log            its output
                                     /variables.json its variables from ConfigMaps and Secrets; only the owner may read
SHARED/<uid>/<container>/<attempt>/message           its termination message
SHARED/<uid>/volumes~/<name>/                        an emptyDir
"""

import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
import shutil
from typing import Any

from carico_local import atomic_files

RUNTIME = "runtime.json"
SOCKET = "runtime.sock"
STARTED = "started.json"
FAILED = "failed.json"
EXITED = "exit.json"
LOG = "log"
MESSAGE = "message"
VARIABLES = "variables.json"
VOLUMES = "volumes~"
# A kubelet keeps one dead container of each name for `logs --previous`.
KEPT_ATTEMPTS = 2
POD_FILES = pathlib.Path("/var/lib/carico/pods")
_PASSAGE = 0o711


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One start of a container, from its files. `started` None: it never ran; `exited` None: its end was not seen."""

    number: int
    directory: pathlib.Path
    started: dict[str, Any] | None
    failed: dict[str, Any] | None
    exited: dict[str, Any] | None


def write_json(path: pathlib.Path, document: dict[str, Any], *, mode: int = 0o666) -> None:
    """Replace the file atomically. `mode`: permissions of the new file, less the umask."""
    atomic_files.write(path, json.dumps(document).encode(), mode=mode)


def read_json(path: pathlib.Path) -> dict[str, Any] | None:
    """Return the document; None where there is no readable one."""
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) else None


class Records:
    """The directory of one node, and the one that it shares with its Pods."""

    def __init__(self, root: pathlib.Path, shared: pathlib.Path | None = None) -> None:
        self.root = root
        self.shared = shared_in(root) if shared is None else shared

    def pod(self, uid: str) -> pathlib.Path:
        """Return the directory of a Pod."""
        return self.root / "pods" / uid

    def volumes(self, uid: str) -> pathlib.Path:
        """Return the directory of a Pod's own volumes; its name cannot be a container's."""
        return self.shared / uid / VOLUMES

    def message(self, uid: str, container: str, number: int) -> pathlib.Path:
        """Return the file for the termination message of one start of a container."""
        return self.shared / uid / container / str(number) / MESSAGE

    def make_shared(self, directory: pathlib.Path) -> None:
        """Create a directory below `shared`, so that any user may pass through it, but only its owner list it."""
        for folder in reversed((directory, *directory.parents)):
            if folder.is_relative_to(self.shared) and not folder.exists():
                folder.mkdir(mode=_PASSAGE)
                folder.chmod(_PASSAGE)

    def pods(self) -> tuple[str, ...]:
        """Return the UIDs of the Pods with records."""
        with contextlib.suppress(FileNotFoundError):
            return tuple(sorted(os.listdir(self.root / "pods")))
        return ()

    def attempt(self, uid: str, container: str, number: int) -> pathlib.Path:
        """Return the directory of one start of a container."""
        return self.pod(uid) / container / str(number)

    def begin(self, uid: str, container: str, number: int) -> pathlib.Path:
        """Create the directory of one start of a container; remove those beyond the last `KEPT_ATTEMPTS`."""
        directory = self.attempt(uid, container, number)
        directory.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self.attempt(uid, container, number - KEPT_ATTEMPTS), ignore_errors=True)
        shutil.rmtree(self.message(uid, container, number - KEPT_ATTEMPTS).parent, ignore_errors=True)
        return directory

    def last_attempt(self, uid: str, container: str) -> Attempt | None:
        """Return the last start of a container, or None where it was never started."""
        with contextlib.suppress(FileNotFoundError):
            numbers = [int(name) for name in os.listdir(self.pod(uid) / container) if name.isdigit()]
            if numbers:
                return self.read_attempt(uid, container, max(numbers))
        return None

    def read_attempt(self, uid: str, container: str, number: int) -> Attempt:
        """Read one start of a container from its files."""
        directory = self.attempt(uid, container, number)
        return Attempt(
            number=number,
            directory=directory,
            started=read_json(directory / STARTED),
            failed=read_json(directory / FAILED),
            exited=read_json(directory / EXITED),
        )

    def forget(self, uid: str) -> None:
        """Remove the records and files of a Pod."""
        shutil.rmtree(self.pod(uid), ignore_errors=True)
        shutil.rmtree(self.shared / uid, ignore_errors=True)

    def discard(self) -> None:
        """Remove the records and files of all Pods."""
        shutil.rmtree(self.root / "pods", ignore_errors=True)
        shutil.rmtree(shared_in(self.root), ignore_errors=True)
        remove_pod_files(self.root)


def open_root(root: pathlib.Path, *, is_private: bool) -> Records:
    """Return a node's records; create their directories where absent. Raises OSError.

    `is_private`: the node runs its Pods as another user, who must not read them.
    """
    root.mkdir(parents=True, exist_ok=True)
    root = root.resolve()
    if not is_private:
        shared_in(root).mkdir(exist_ok=True)
        return Records(root)
    root.chmod(0o700)
    shared = _pod_files(root)
    while True:
        # Tried again where the last node of another cluster removes a parent at this moment, as it ends.
        with contextlib.suppress(FileNotFoundError):
            for folder in (shared.parent.parent, shared.parent, shared):
                folder.mkdir(mode=_PASSAGE, parents=True, exist_ok=True)
                # Whatever the umask is.
                folder.chmod(folder.stat().st_mode | _PASSAGE)
            return Records(root, shared)


def shared_in(root: pathlib.Path) -> pathlib.Path:
    """Return the directory that a node shares with its Pods where they run as its user."""
    return root / "shared"


def remove_pod_files(root: pathlib.Path) -> None:
    """Remove the files that a node of root shares with its Pods, if any; `root`: the node's directory."""
    shared = _pod_files(root)
    shutil.rmtree(shared, ignore_errors=True)
    for folder in (shared.parent, shared.parent.parent):
        with contextlib.suppress(OSError):
            folder.rmdir()  # succeeds only after the last node


def _pod_files(root: pathlib.Path) -> pathlib.Path:
    return POD_FILES / hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:16]
