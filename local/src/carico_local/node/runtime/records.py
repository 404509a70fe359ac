"""What a node keeps on disk about its containers, so that a node process that starts anew finds them.

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
    """One start of a container, as its files tell it. `pid` None: it never ran; `exited` None: no one saw it end."""

    number: int
    directory: pathlib.Path
    started: dict[str, Any] | None
    failed: dict[str, Any] | None
    exited: dict[str, Any] | None


def write_json(path: pathlib.Path, document: dict[str, Any], *, mode: int = 0o666) -> None:
    """Nothing; the file holds all of the document or what it held before. `mode`: of a new file, less the umask."""
    temporary = path.with_name(path.name + ".new")
    with open(temporary, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
        file.write(json.dumps(document).encode())
    temporary.replace(path)


def read_json(path: pathlib.Path) -> dict[str, Any] | None:
    """The document, or None where there is none that can be read."""
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
        """The directory of a Pod."""
        return self.root / "pods" / uid

    def volumes(self, uid: str) -> pathlib.Path:
        """The directory of a Pod's own volumes: no container has such a name."""
        return self.pod(uid) / VOLUMES

    def pods(self) -> tuple[str, ...]:
        """UIDs of the Pods that there are records of."""
        with contextlib.suppress(FileNotFoundError):
            return tuple(sorted(os.listdir(self.root / "pods")))
        return ()

    def attempt(self, uid: str, container: str, number: int) -> pathlib.Path:
        """The directory of one start of a container."""
        return self.pod(uid) / container / str(number)

    def begin(self, uid: str, container: str, number: int) -> pathlib.Path:
        """The new directory of one start of a container; those beyond the last `KEPT_ATTEMPTS` are removed."""
        directory = self.attempt(uid, container, number)
        directory.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self.attempt(uid, container, number - KEPT_ATTEMPTS), ignore_errors=True)
        return directory

    def last_attempt(self, uid: str, container: str) -> Attempt | None:
        """The last start of a container, or None where it was never started."""
        with contextlib.suppress(FileNotFoundError):
            numbers = [int(name) for name in os.listdir(self.pod(uid) / container) if name.isdigit()]
            if numbers:
                return self.read_attempt(uid, container, max(numbers))
        return None

    def read_attempt(self, uid: str, container: str, number: int) -> Attempt:
        """One start of a container as its files tell it."""
        directory = self.attempt(uid, container, number)
        return Attempt(
            number=number,
            directory=directory,
            started=read_json(directory / STARTED),
            failed=read_json(directory / FAILED),
            exited=read_json(directory / EXITED),
        )

    def forget(self, uid: str) -> None:
        """Nothing; the records of a Pod are gone."""
        shutil.rmtree(self.pod(uid), ignore_errors=True)
