"""Which Pod has a socket: by the cgroup in which it was opened, or by the process that has it.

The kernel reports the cgroup of a socket in the unified tree, by its inode. Where Pods are in v1 trees only, the open
files of their processes are read, which needs the same user or CAP_SYS_PTRACE.
"""

import contextlib
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from carico_agent.telemetry.cgroups import hierarchy
from carico_agent.traffic import inet_diag

_SOCKET = "socket:["
# Where the kernel does not state a cgroup.
_UNKNOWN = 0
_FOREIGN_MOST = 10_000


class Member(NamedTuple):
    """A Pod with a process, and the network namespace of that process."""

    uid: str
    pid: int
    namespace: int


class Owners:
    """The sockets of the Pods below a node's cgroup."""

    def __init__(self, group: hierarchy.Group, *, proc: pathlib.Path) -> None:
        self._unified = group.unified
        v1 = (group.v1[name] for name in ("cpuacct", "cpu", "memory") if name in group.v1)
        # Processes are in every v1 tree, and in a unified one only if there is no other.
        self._root = next(v1, group.unified)
        self._proc = proc
        self._by_cgroup: dict[int, str] = {}
        # Cgroups of the sockets of other processes. Their numbers are not used again.
        self._foreign: set[int] = set()
        self._by_inode: dict[int, str] = {}

    def of(self, found: inet_diag.Socket) -> str | None:
        """Return the UID of the Pod that has a socket; None if none of the node's has it, as of the last look."""
        return self._by_cgroup.get(found.cgroup) or self._by_inode.get(found.inode)

    def look_up(self, sockets: Sequence[inet_diag.Socket]) -> None:
        """Look at the Pods that run now, if the owner of one of the sockets is not known.

        Raises `OSError` if no more files can be opened.
        """
        # Of cgroups, the sockets of a process that was seen before need no look.
        if all(each.cgroup in self._by_cgroup or each.cgroup in self._foreign for each in sockets):
            return
        self._by_cgroup = dict(self._cgroups())
        is_stated = any(each.cgroup != _UNKNOWN for each in sockets)
        if self._by_cgroup and is_stated:
            self._foreign |= {each.cgroup for each in sockets} - self._by_cgroup.keys() - {_UNKNOWN}
            if len(self._foreign) > _FOREIGN_MOST:
                self._foreign.clear()
        else:
            self._by_inode = {
                inode: uid
                for uid, folder in _pods(self._root)
                for pid in _processes(folder)
                for inode in self._inodes(pid)
            }  # fmt: skip

    def _cgroups(self) -> Iterator[tuple[int, str]]:
        for uid, folder in _pods(self._unified):
            for each in (folder, *_below(folder)):
                with contextlib.suppress(OSError):  # it has just ended
                    yield each.stat().st_ino, uid

    def members(self, known: Mapping[str, Member]) -> tuple[list[Member], int]:
        """Return one process of each running Pod, and the number of Pods of which none can be read.

        `known` ones are not looked up again. Raises `OSError` as `look_up` does.
        """
        found, unread = [], 0
        for uid, folder in _pods(self._root):
            member = known.get(uid) or self._member(uid, folder)
            if member is not None:
                found.append(member)
            else:
                unread += _has_process(folder)
        return found, unread

    def _member(self, uid: str, folder: pathlib.Path) -> Member | None:
        for pid in _processes(folder):
            namespace = namespace_of(self._proc / str(pid))
            if namespace is not None:
                return Member(uid, pid, namespace)
        return None

    def _inodes(self, pid: int) -> Iterator[int]:
        folder = f"{self._proc}/{pid}/fd"
        try:
            names = os.listdir(folder)
        except OSError:
            return  # it has just ended, or is another user's
        for name in names:
            with contextlib.suppress(OSError):
                target = os.readlink(f"{folder}/{name}")
                if target.startswith(_SOCKET):
                    yield int(target[len(_SOCKET) : -1])


def namespace_of(process: pathlib.Path) -> int | None:
    """Return the number of the network namespace of a folder in /proc; None if it cannot be read."""
    try:
        return (process / "ns" / "net").stat().st_ino
    except OSError:
        return None


def _pods(root: pathlib.Path | None) -> Iterator[tuple[str, pathlib.Path]]:
    for folder in () if root is None else hierarchy.pods_of_kubelet(root):
        uid = hierarchy.pod_uid(folder.name)
        if uid is not None:
            yield uid, folder


def _below(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    for each in hierarchy.folders(folder):
        yield each
        yield from _below(each)


def _processes(folder: pathlib.Path) -> Iterator[int]:
    """Yield the processes of a cgroup and those below it; those of a PID namespace that is not visible are 0."""
    for each in (folder, *_below(folder)):
        with contextlib.suppress(OSError):  # it has just ended
            for pid in (each / "cgroup.procs").read_text(encoding="ascii").split():
                yield int(pid)


def _has_process(folder: pathlib.Path) -> bool:
    return next(_processes(folder), None) is not None
