"""Free TCP ports of 127.0.0.1, each given to one process of this machine.

Between the choice of a port and the moment when a service listens on it, the port looks free to everyone. So a process
that chooses one binds the UDP port of the same number, which no service of a cluster uses. The kernel lets one process
have it, whichever user that is, and frees it when the process ends, however it ends: a file of reservations would need
all of that.
"""

import collections
import itertools
import os
import socket
import zlib
from collections.abc import Callable

# Below the kernel's range for outgoing connections (32768 and up, ip_local_port_range): a client that tries to reach a
# server that is away is given the server's own port there sooner or later, and holds it when the server comes back.
FIRST, LAST = 20_000, 32_000
# Reservations that a process keeps until it ends, the newest; each is an open file, and the usual limit is 1024.
KEPT = 512
_HOST = "127.0.0.1"
# Descriptors: Python warns of each socket that is still open at the end.
_kept: collections.deque[int] = collections.deque()
_calls = itertools.count()


def is_free(port: int) -> bool:
    """Return True where a server may listen on 127.0.0.1:`port` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError:
            return False
    return True


def reserve(port: int) -> bool:
    """Reserve a port until this process ends; return False where another one has it, or listens on it."""
    mark = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        mark.bind((_HOST, port))
        is_ours = is_free(port)
    except OSError:
        is_ours = False
    if not is_ours:
        mark.close()
        return False
    _kept.append(mark.detach())
    if len(_kept) > KEPT:
        os.close(_kept.popleft())
    return True


def choose(name: str, count: int, *, reserve: Callable[[int], bool] = reserve) -> list[int]:
    """Reserve and return `count` free ports; the search starts at a port that `name` determines.

    So a cluster gets the same ports again where they are free. Raises `OSError` where there are not enough.
    """
    span = LAST - FIRST
    start = zlib.crc32(name.encode()) % span
    found: list[int] = []
    for offset in range(span):
        port = FIRST + (start + offset) % span
        if reserve(port):
            found.append(port)
        if len(found) == count:
            return found
    raise OSError(f"no {count} free ports between {FIRST} and {LAST} on {_HOST}")


def choose_one() -> int:
    """Reserve and return a free port, another at each call."""
    (port,) = choose(f"{os.getpid()} {next(_calls)}", 1)
    return port
