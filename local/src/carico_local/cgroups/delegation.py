"""Controllers of v2 trees: a group's children have none unless the group passes them down, level by level."""

import contextlib
import errno
import pathlib
from collections.abc import Iterator, Sequence

# What the limits of nodes and Pods need.
NEEDED = ("cpu", "memory")
CONTROL = "cgroup.subtree_control"
OFFERED = "cgroup.controllers"


def pass_down_to(path: str, *, root: pathlib.Path, welcome: Sequence[str] = ()) -> None:
    """Nothing; every group above `path` has passed down what is needed, and what is welcome where that is to be had.

    Raises OSError, which names the file and what stands in the way.
    """
    for directory in _above(path, root):
        pass_down(directory, NEEDED)
        # Each by itself: one that is refused (by an owner of the level above, say) must not keep the others out.
        for controller in welcome:
            with contextlib.suppress(OSError):
                pass_down(directory, (controller,))


def pass_down(directory: pathlib.Path, controllers: Sequence[str]) -> None:
    """Nothing; the groups in `directory` have these controllers. Raises OSError as `pass_down_to`."""
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
        control.write_text(" ".join(f"+{name}" for name in missing), encoding="ascii")
    except OSError as error:
        # An error of a write does not know its file.
        raise OSError(error.errno, _said(error), str(control)) from error


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
