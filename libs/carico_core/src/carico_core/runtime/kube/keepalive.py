"""Connections to the Kubernetes API whose dead peer is noticed, also on a watch that says nothing for minutes."""

import socket
from typing import Any

# After KEEPALIVE_IDLE_S and 3 probes.
KEEPALIVE_IDLE_S = 15
KEEPALIVE_INTERVAL_S = 5
KEEPALIVE_PROBES = 3


def create(address: Any) -> socket.socket:
    """A socket for an address as `getaddrinfo` gives it; what aiohttp calls a socket factory."""
    family, kind, protocol, _, _ = address
    connection = socket.socket(family=family, type=kind, proto=protocol)
    keep_alive(connection)
    return connection


def keep_alive(connection: socket.socket) -> None:
    """Nothing; the kernel asks after a silent peer from now on."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_PROBES)
