"""Keeps a process, and what it starts, from writing to folders that others may write to: in a mount namespace.

Source: mount(2), mount_namespaces(7). As with a kubelet's `readOnly`, what is mounted further below stays as it was.
"""

import ctypes
import functools
import os
import pathlib
from collections.abc import Iterable

# linux/sched.h and linux/mount.h; os.unshare came with Python 3.12.
_CLONE_NEWNS = 0x20000
_MS_RDONLY, _MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
# linux/capability.h
_CAP_SYS_ADMIN = 21


@functools.cache
def is_possible() -> bool:
    """True where this process, and so its children, may have mount namespaces."""
    for line in pathlib.Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> _CAP_SYS_ADMIN & 1)
    return False


def protect(paths: Iterable[str]) -> None:
    """Nothing; this process cannot write below the paths any more. For a child that has not begun. Raises `OSError`."""
    wanted = tuple(paths)
    if not wanted:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    _checked(libc.unshare(_CLONE_NEWNS), "a mount namespace")
    # What is mounted here is nobody else's to see.
    _checked(libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None), "/")
    for path in wanted:
        name = os.fsencode(path)
        _checked(libc.mount(name, name, None, _MS_BIND | _MS_REC, None), path)
        # A remount says all flags anew: those that the place had stay.
        kept = os.statvfs(path).f_flag & (os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC)
        _checked(libc.mount(None, name, None, _MS_BIND | _MS_REMOUNT | _MS_RDONLY | kept, None), path)


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{os.strerror(number)}: read-only {what}")
