"""What a group of a v2 tree delegates: controllers, level by level, and itself to the user whom systemd names."""

import contextlib
import errno
import os
import pathlib
import subprocess
from collections.abc import Iterator, Sequence

# What the limits of nodes and Pods need.
NEEDED = ("cpu", "memory")
CONTROL = "cgroup.subtree_control"
OFFERED = "cgroup.controllers"
# The group below one that was given away, for the processes that it was given away with.
FIRST = "first"
# systemd marks so what it has given away with Delegate=yes (https://systemd.io/CGROUP_DELEGATION/).
_MARK = "user.delegate"
# `systemd-run` takes this long to say that it reaches no service manager.
_ASK_S = 5.0
# Processes that are forked while others are moved.
_MOVES_MOST = 50
_SCOPE = ("systemd-run", "--user", "--scope", "-p", "Delegate=yes")


def pass_down_to(path: str, *, root: pathlib.Path, welcome: Sequence[str] = ()) -> None:
    """Have every group above `path` pass down what is needed, and what is welcome where it is available.

    Raises OSError, which names the file and what stands in the way.
    """
    for directory in _above(path, root):
        pass_down(directory, NEEDED)
        # Each by itself: one that is refused (by an owner of the level above, say) must not keep the others out.
        for controller in welcome:
            with contextlib.suppress(OSError):
                pass_down(directory, (controller,))


def pass_down(directory: pathlib.Path, controllers: Sequence[str]) -> None:
    """Enable these controllers for the groups in `directory`. Raises OSError as `pass_down_to`."""
    control = directory / CONTROL
    enabled = control.read_text(encoding="ascii").split()
    missing = [name for name in controllers if name not in enabled]
    if not missing:
        return
    offered = (directory / OFFERED).read_text(encoding="ascii").split()
    absent = [name for name in missing if name not in offered]
    if absent:
        # The kernel's own word for it would be that a file does not exist, which it does.
        raise OSError(errno.ENOENT, f"no controller {' nor '.join(absent)}", str(directory / OFFERED))
    try:
        # Root has a container's processes there, at most, which are not for us to move.
        if os.getuid() != 0 and _is_marked(directory):
            _move_down(directory)
        control.write_text(" ".join(f"+{name}" for name in missing), encoding="ascii")
    except OSError as error:
        # An error of a write does not know its file.
        raise OSError(error.errno, _said(error), str(control)) from error


def given(root: pathlib.Path, own: pathlib.Path = pathlib.Path("/proc/self/cgroup")) -> pathlib.Path | None:
    """Return the nearest group, at or above this process's, that systemd has delegated; None without one.

    That of a person's own service manager is not for us: it makes its groups there itself.
    """
    try:
        line = own.read_text(encoding="utf-8").splitlines()[-1]
    except (OSError, IndexError):
        return None
    here = pathlib.PurePosixPath(line.partition("::/")[2])
    nearest = next((path for path in (here, *here.parents) if _is_marked(root / path)), None)
    return None if nearest is None or nearest.name.startswith("user@") else root / nearest


def way_in(error: OSError, root: pathlib.Path) -> str:
    """Return what a person can do about a group that he may not make: a command, where it works here; else nothing."""
    if error.errno not in (errno.EACCES, errno.EPERM) or os.access(root, os.W_OK):
        return ""
    try:
        subprocess.run((*_SCOPE, "true"), capture_output=True, check=True, timeout=_ASK_S)
    except (OSError, subprocess.SubprocessError):
        return ""
    return f"; a group of your own, with quota and limits, comes with `{' '.join(_SCOPE)} carico ...`"


def _is_marked(directory: pathlib.Path) -> bool:
    try:
        return os.getxattr(directory, _MARK) == b"1"
    except OSError:
        return False


def _move_down(directory: pathlib.Path) -> None:
    """Move what runs in the group itself into one below it: only then v2 lets it pass controllers down."""
    below = directory / FIRST
    below.mkdir(exist_ok=True)
    for _ in range(_MOVES_MOST):
        pids = (directory / "cgroup.procs").read_text(encoding="ascii").split()
        if not pids:
            return
        for pid in pids:
            # One that has ended meanwhile is no process.
            with contextlib.suppress(ProcessLookupError):
                (below / "cgroup.procs").write_text(pid, encoding="ascii")


def _said(error: OSError) -> str:
    if error.errno == errno.EBUSY:
        # Documentation/admin-guide/cgroup-v2.rst, "No Internal Process Constraint": all groups but a machine's root.
        return "processes in the group itself keep it from passing controllers down"
    return error.strerror or "cannot be written"


def _above(path: str, root: pathlib.Path) -> Iterator[pathlib.Path]:
    directory = root
    for part in pathlib.PurePosixPath(path).parts:
        yield directory
        directory = directory / part
