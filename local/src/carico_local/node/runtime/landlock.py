"""Landlock: a process gives up the right to read the files of some folders for good, and so do all that it starts.

Needs no rights, but Linux 5.13, and an engine whose seccomp profile permits it (Docker 23).
Source: https://docs.kernel.org/userspace-api/landlock.html
"""

import ctypes
import os
import pathlib
import stat
from collections.abc import Iterable, Iterator, Sequence

# Numbers of the system calls, the same on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_RULE_PATH_BENEATH = 1
# Of files alone: a folder may still be listed, and nothing is said of writing, for which there are permissions.
_READ_FILE = 1 << 2
# Moves and links from one folder to another, which every ruleset refuses where it does not allow them.
_REFER = 1 << 13
_CREATE_RULESET_VERSION = 1
# Linux 5.19. Before, nothing can allow them.
REFER_SINCE = 2
_PR_SET_NO_NEW_PRIVS = 38


class _RulesetAttr(ctypes.Structure):
    _fields_ = (("handled_access_fs", ctypes.c_uint64),)


class _PathBeneathAttr(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def version() -> int:
    """Return the version of the kernel's Landlock, 0 where the kernel or the engine has none."""
    found: int = ctypes.CDLL(None).syscall(_CREATE_RULESET, None, 0, _CREATE_RULESET_VERSION)
    return max(found, 0)


def close(folders: Sequence[str], *, still_open: Iterable[pathlib.Path] = ()) -> None:
    """Give up the right to read files below these folders; without any, or without Landlock, do nothing.

    Landlock names what is allowed: all that is next to the folders and to those above them, as it is now, and what is
    `still_open`: folders below them. Processes that have not given up the same cannot be traced either, so that nothing
    is read in their memory, or in /proc. Raises OSError.
    """
    if not folders or not (has := version()):
        return
    rights = _READ_FILE | (_REFER if has >= REFER_SINCE else 0)
    libc = ctypes.CDLL(None, use_errno=True)
    attr = _RulesetAttr(handled_access_fs=rights)
    ruleset_fd = _checked(libc.syscall(_CREATE_RULESET, ctypes.byref(attr), ctypes.sizeof(attr), 0))
    try:
        for path in (*_others([pathlib.Path(each).resolve() for each in folders]), *still_open):
            _allow(libc, ruleset_fd, path, rights)
        _checked(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        _checked(libc.syscall(_RESTRICT_SELF, ruleset_fd, 0))
    finally:
        os.close(ruleset_fd)


def _others(closed: Sequence[pathlib.Path], folder: pathlib.Path = pathlib.Path("/")) -> Iterator[pathlib.Path]:
    """Yield everything that has none of the closed folders in it, in as few paths as possible."""
    try:
        paths = list(folder.iterdir())
    except PermissionError:
        # Only the way to what is closed is known: nothing next to it is allowed.
        paths = [folder / each.relative_to(folder).parts[0] for each in closed if each.is_relative_to(folder)]
    for path in paths:
        # What a link leads to is allowed where it is; the link may lead to what is above the closed folders.
        if path in closed or path.is_symlink():
            continue
        if any(each.is_relative_to(path) for each in closed):
            yield from _others(closed, path)
        else:
            yield path


def _allow(libc: ctypes.CDLL, ruleset_fd: int, path: pathlib.Path, rights: int) -> None:
    try:
        path_fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        # It has gone, or leads nowhere.
        return
    try:
        is_folder = stat.S_ISDIR(os.fstat(path_fd).st_mode)
        rule = _PathBeneathAttr(allowed_access=rights if is_folder else _READ_FILE, parent_fd=path_fd)
        _checked(libc.syscall(_ADD_RULE, ruleset_fd, _RULE_PATH_BENEATH, ctypes.byref(rule), 0))
    finally:
        os.close(path_fd)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
