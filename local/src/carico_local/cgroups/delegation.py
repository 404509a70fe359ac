"""Delegation in a v2 tree: controllers are enabled level by level, and systemd gives a user a group of their own."""

import contextlib
import errno
import os
import pathlib
import subprocess
from collections.abc import Iterator, Sequence

# Needed for the limits of nodes and Pods.
NEEDED = ("cpu", "memory")
CONTROL = "cgroup.subtree_control"
OFFERED = "cgroup.controllers"
# The group below a delegated one, for the processes that were in that one itself.
FIRST = "first"
# The attribute that systemd sets on groups with Delegate=yes (https://systemd.io/CGROUP_DELEGATION/).
_MARK = "user.delegate"
# `systemd-run` may take this long to report that it cannot reach a service manager.
_ASK_S = 5.0
# Rounds of moving: processes may fork while others are moved.
_MOVES_MOST = 50
_SCOPE = ("systemd-run", "--user", "--scope", "-p", "Delegate=yes")


def pass_down_to(path: str, *, root: pathlib.Path, welcome: Sequence[str] = ()) -> None:
    """Enable the needed controllers in every group above `path`, and the `welcome` ones where they are available.

    Raises OSError, which names the file and the reason.
    """
    for directory in _above(path, root):
        pass_down(directory, NEEDED)
        # One at a time: a refused one (by the owner of the level above, for example) must not block the others.
        for controller in welcome:
            with contextlib.suppress(OSError):
                pass_down(directory, (controller,))


def pass_down(directory: pathlib.Path, controllers: Sequence[str]) -> None:
    """Enable these controllers for the groups in `directory`. Raises OSError as `pass_down_to` does."""
    control = directory / CONTROL
    enabled = control.read_text(encoding="ascii").split()
    missing = [name for name in controllers if name not in enabled]
    if not missing:
        return
    offered = (directory / OFFERED).read_text(encoding="ascii").split()
    absent = [name for name in missing if name not in offered]
    if absent:
        # The kernel's own error would be "no such file", although the file exists.
        raise OSError(errno.ENOENT, f"no controller {' nor '.join(absent)}", str(directory / OFFERED))
    try:
        # For root these can only be a container's own processes, which must not be moved.
        if os.getuid() != 0 and _is_marked(directory):
            _move_down(directory)
        control.write_text(" ".join(f"+{name}" for name in missing), encoding="ascii")
    except OSError as error:
        # The error of a write has no file name.
        raise OSError(error.errno, _reason(error), str(control)) from error


def given(root: pathlib.Path, own: pathlib.Path = pathlib.Path("/proc/self/cgroup")) -> pathlib.Path | None:
    """Return the nearest group at or above this process's that systemd has delegated; None without one.

    The group of the user's own service manager does not count: the manager creates groups there itself.
    """
    try:
        line = own.read_text(encoding="utf-8").splitlines()[-1]
    except (OSError, IndexError):
        return None
    here = pathlib.PurePosixPath(line.partition("::/")[2])
    nearest = next((path for path in (here, *here.parents) if _is_marked(root / path)), None)
    return None if nearest is None or nearest.name.startswith("user@") else root / nearest


def way_in(error: OSError, root: pathlib.Path) -> str:
    """Return advice for a user who may not create a group: a command, where it works here; else empty."""
    if error.errno not in (errno.EACCES, errno.EPERM) or os.access(root, os.W_OK):
        return ""
    try:
        subprocess.run((*_SCOPE, "true"), capture_output=True, check=True, timeout=_ASK_S)
    except (OSError, subprocess.SubprocessError):
        return ""
    return f"; for a cgroup of your own, with quota and limits, use `{' '.join(_SCOPE)} carico ...`"


def _is_marked(directory: pathlib.Path) -> bool:
    try:
        return os.getxattr(directory, _MARK) == b"1"
    except OSError:
        return False


def _move_down(directory: pathlib.Path) -> None:
    """Move the group's own processes into one below it: only then v2 lets the group enable controllers."""
    below = directory / FIRST
    below.mkdir(exist_ok=True)
    for _ in range(_MOVES_MOST):
        pids = (directory / "cgroup.procs").read_text(encoding="ascii").split()
        if not pids:
            return
        for pid in pids:
            # A process may have ended meanwhile.
            with contextlib.suppress(ProcessLookupError):
                (below / "cgroup.procs").write_text(pid, encoding="ascii")


def _reason(error: OSError) -> str:
    if error.errno == errno.EBUSY:
        # Documentation/admin-guide/cgroup-v2.rst, "No Internal Process Constraint": for all groups but the root.
        return "the group contains processes itself, so it cannot enable controllers for groups below"
    return error.strerror or "not writable"


def _above(path: str, root: pathlib.Path) -> Iterator[pathlib.Path]:
    directory = root
    for part in pathlib.PurePosixPath(path).parts:
        yield directory
        directory = directory / part
