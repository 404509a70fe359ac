"""The kernel's list of the TCP sockets of one network namespace, and its events of those that have ended.

Any user may read them. To enter the namespace of another process takes CAP_SYS_ADMIN, and CAP_SYS_PTRACE to look it up.
"""

import contextlib
import ctypes
import errno
import os
import pathlib
import socket
import threading
from typing import NamedTuple

from carico_agent.traffic import inet_diag

NETLINK_SOCK_DIAG = 4
_CLONE_NEWNET = 0x4000_0000
_READ_BYTES = 1 << 16
# Room for the events of some thousand connections; without CAP_NET_ADMIN the kernel gives `net.core.rmem_max` at most.
_EVENTS_BYTES = 4 << 20
_SO_RCVBUFFORCE = 33
# Events that are kept between two polls, about 10 MB. Further ones stay in the kernel, until it has no room for them.
EVENTS_MOST = 1 << 14
# A dump that the kernel does not end.
_DUMP_WITHIN_S = 5.0


class Ended(NamedTuple):
    """Sockets that have ended since the last call, and how many times the kernel had no room for an event."""

    sockets: list[inet_diag.Socket]
    lost: int


class Diagnostics:
    """Two netlink sockets: for dumps, and for events."""

    def __init__(self) -> None:
        """Open them in this thread's network namespace. Raises `OSError`."""
        with contextlib.ExitStack() as opened:
            self._events = opened.enter_context(_netlink())
            _enlarge(self._events)
            self._events.setblocking(False)
            # Before the first dump, so that nothing ends unnoticed between them.
            self._events.bind((0, inet_diag.DESTROY_GROUPS))
            self._dumps = opened.enter_context(_netlink())
            self._dumps.settimeout(_DUMP_WITHIN_S)
            self._dumps.bind((0, 0))
            opened.pop_all()
        self._parse = inet_diag.Parser().parse
        self._drained: list[bytes] = []
        self._lost = 0

    def fileno(self) -> int:
        """Return the file that is readable when sockets have ended."""
        return self._events.fileno()

    def dump(self) -> list[inet_diag.Socket]:
        """Return all TCP sockets. Raises `OSError`."""
        found: list[inet_diag.Socket] = []
        for family in inet_diag.FAMILIES:
            self._dumps.send(inet_diag.request(family))
            is_last = False
            while not is_last:
                sockets, is_last = self._parse(self._dumps.recv(_READ_BYTES))
                found += sockets
        return found

    @property
    def waiting(self) -> int:
        """The number of events that were taken from the kernel since the last call of `ended`."""
        return len(self._drained)

    def drain(self) -> None:
        """Take the events that wait in the kernel, so that its buffer does not overflow between two polls.

        Raises `OSError`.
        """
        while len(self._drained) < EVENTS_MOST:
            try:
                self._drained.append(self._events.recv(_READ_BYTES))
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                # Events were lost; the next ones can be read.
                self._lost += 1

    def ended(self) -> Ended:
        """Return the sockets that have ended since the last call. Raises `OSError`."""
        self.drain()
        drained, self._drained = self._drained, []
        lost, self._lost = self._lost, 0
        return Ended([each for data in drained for each in self._parse(data).sockets], lost)

    def close(self) -> None:
        """Close both sockets."""
        self._events.close()
        self._dumps.close()


def open_in(namespace: pathlib.Path) -> Diagnostics:
    """Return the diagnostics of another network namespace, such as /proc/<pid>/ns/net. Raises `OSError`.

    A socket stays in the namespace in which it was opened. A thread of its own enters it and ends, so that no other
    code ever runs there.
    """
    opened: list[Diagnostics] = []
    failed: list[OSError] = []

    def enter() -> None:
        try:
            with open(namespace, "rb") as file:
                _set_namespace(file.fileno())
            opened.append(Diagnostics())
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=enter, name="network-namespace")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return opened[0]


def _set_namespace(file: int) -> None:
    # os.setns is in Python 3.12.
    library = ctypes.CDLL(None, use_errno=True)
    if library.setns(file, _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _netlink() -> socket.socket:
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_SOCK_DIAG)


def _enlarge(events: socket.socket) -> None:
    try:
        events.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _EVENTS_BYTES)
    except OSError:
        events.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _EVENTS_BYTES)
