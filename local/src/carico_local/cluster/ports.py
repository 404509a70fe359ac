"""Free TCP ports on 127.0.0.1 for the services of a cluster."""

import socket
import zlib
from collections.abc import Callable

# Below the kernel's range for outgoing connections (32768 up, ip_local_port_range), so that no client takes one
# between this look and the service's own bind.
FIRST_PORT, LAST_PORT = 20_000, 32_000


def is_free(port: int) -> bool:
    """Return True where a server may listen on 127.0.0.1:`port` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def choose(name: str, count: int, *, free: Callable[[int], bool] = is_free) -> list[int]:
    """`count` free ports, searched from a place that the cluster's name decides: the same ones again if they can be.

    Raises `OSError` where there are not enough.
    """
    span = LAST_PORT - FIRST_PORT
    start = zlib.crc32(name.encode()) % span
    found: list[int] = []
    for offset in range(span):
        port = FIRST_PORT + (start + offset) % span
        if free(port):
            found.append(port)
        if len(found) == count:
            return found
    raise OSError(f"no {count} free ports between {FIRST_PORT} and {LAST_PORT} on 127.0.0.1")
