"""What a node keeps on disk about its containers, so that its next process finds them.

ROOT/runtime.json                                    the zygote: pid and start time
ROOT/pods/<uid>/<container>/<attempt>/started.json   pid, start time in ticks, wall time
                                     /failed.json    why its command could not be run
                                     /exit.json      exit code, signal, wall time
                                     /log            its output
                                     /message        what it left as its termination message
                                     /variables.json its variables of ConfigMaps and Secrets, for its owner alone
ROOT/pods/<uid>/volumes~/<name>/                     an emptyDir
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
from typing import Any

RUNTIME = "runtime.json"
STARTED = "started.json"
FAILED = "failed.json"
EXITED = "exit.json"
LOG = "log"
MESSAGE = "message"
VARIABLES = "variables.json"
VOLUMES = "volumes~"
# A kubelet keeps one dead container of each name for `logs --previous`.
KEPT_ATTEMPTS = 2


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One start of a container, by its files. `started` None: it never ran; `exited` None: its end was not seen."""

    number: int
    directory: pathlib.Path
    started: dict[str, Any] | None
    failed: dict[str, Any] | None
    exited: dict[str, Any] | None


def write_json(path: pathlib.Path, document: dict[str, Any], *, mode: int = 0o666) -> None:
    """Replace the file as a whole. `mode`: of a new file, less the umask."""
    temporary = path.with_name(path.name + ".new")
    with open(temporary, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
        file.write(json.dumps(document).encode())
    temporary.replace(path)


def read_json(path: pathlib.Path) -> dict[str, Any] | None:
    """Return the document, or None where there is none that can be read."""
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) else None


class Records:
    """The directory of one node."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root

    def pod(self, uid: str) -> pathlib.Path:
        """Return the directory of a Pod."""
        return self.root / "pods" / uid

    def volumes(self, uid: str) -> pathlib.Path:
        """Return the directory of a Pod's own volumes: no container has such a name."""
        return self.pod(uid) / VOLUMES

    def pods(self) -> tuple[str, ...]:
        """Return UIDs of the Pods that there are records of."""
        with contextlib.suppress(FileNotFoundError):
            return tuple(sorted(os.listdir(self.root / "pods")))
        return ()

    def attempt(self, uid: str, container: str, number: int) -> pathlib.Path:
        """Return the directory of one start of a container."""
        return self.pod(uid) / container / str(number)

    def begin(self, uid: str, container: str, number: int) -> pathlib.Path:
        """Return the new directory of one start of a container; those beyond the last `KEPT_ATTEMPTS` are removed."""
        directory = self.attempt(uid, container, number)
        directory.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self.attempt(uid, container, number - KEPT_ATTEMPTS), ignore_errors=True)
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
        """Remove the records of a Pod."""
        shutil.rmtree(self.pod(uid), ignore_errors=True)
