"""The kernel's messages about TCP sockets: requests for dumps, and sockets in dumps and events. Pure.

https://man7.org/linux/man-pages/man7/sock_diag.7.html; structures in linux/inet_diag.h, linux/tcp.h, linux/netlink.h
"""

import functools
import ipaddress
import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple

from carico_core.domain import pod_telemetry

# SKNLGRP_INET_TCP_DESTROY (1) and SKNLGRP_INET6_TCP_DESTROY (3), as bits of the groups of a bind.
DESTROY_GROUPS = 0b101
FAMILIES = (socket.AF_INET, socket.AF_INET6)

_SOCK_DIAG_BY_FAMILY = 20
_ERROR, _DONE = 2, 3
# NLM_F_REQUEST, and NLM_F_ROOT with NLM_F_MATCH.
_DUMP = 0x301
# Attributes, and tcp_info among those that a dump is to have.
_INFO, _CGROUP_ID = 2, 21
_WANTED = 1 << (_INFO - 1)


# TCP_ESTABLISHED, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT, LAST_ACK, LISTEN and CLOSING of net/tcp_states.h: the states of a
# socket that has, or listens for, a connection.
_LISTEN = 10
_STATES = sum(1 << state for state in (1, 4, 5, 8, 9, _LISTEN, 11))
# nlmsghdr: length, type, flags, sequence, port.
_HEADER = struct.Struct("=IHHII")
# inet_diag_req_v2 with an empty inet_diag_sockid.
_REQUEST = struct.Struct("=BBBxI48x")
# inet_diag_msg: family, state, ports with addresses, cookie, inode. Skipped: timer, interface, expires, queues, user.
_SOCKET = struct.Struct("=BBxx36s4xQ16xI")
_ENDS = struct.Struct(">HH16s16s")
_ATTRIBUTE = struct.Struct("=HH")
_ERRNO = struct.Struct("=i")
# Attributes with their headers: cgroup; tcpi_bytes_acked and tcpi_bytes_received, which are 120 bytes into tcp_info.
_CGROUP = struct.Struct("=HHQ")
_BYTES = struct.Struct("=HH120xQQ")
# Lengths of messages whose layout is kept: a handful in practice.
_LAYOUTS_MOST = 64


class Socket(NamedTuple):
    """A TCP socket. `inode` is 0 without a process, `cgroup` 0 where the kernel does not state it (as in events).

    `sent_bytes` have been acknowledged; the kernel counts SYN and FIN as a byte each. `ends` is packed, because only
    those of a new socket are needed.
    """

    cookie: int
    inode: int
    cgroup: int
    is_listening: bool
    family: int
    ends: bytes
    sent_bytes: int
    received_bytes: int

    @property
    def local(self) -> pod_telemetry.Endpoint:
        """The end on this machine."""
        return endpoints(self.family, self.ends)[0]

    @property
    def remote(self) -> pod_telemetry.Endpoint:
        """The other end."""
        return endpoints(self.family, self.ends)[1]


class Part(NamedTuple):
    """The sockets in a part of a dump, and whether it was the last part."""

    sockets: list[Socket]
    is_last: bool


class _Layout(NamedTuple):
    """Where both attributes are, from the start of a message's body."""

    cgroup: int
    info: int


def request(family: int) -> bytes:
    """Return the request for a dump of one address family."""
    body = _REQUEST.pack(family, socket.IPPROTO_TCP, _WANTED, _STATES)
    return _HEADER.pack(_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, _DUMP, 1, 0) + body


class Parser:
    """Parses what a netlink socket returns.

    Messages of one length nearly always have one layout. It is kept and checked, because to search for the attributes
    takes longer than the dump itself.
    """

    def __init__(self) -> None:
        self._layouts: dict[int, _Layout] = {}

    def parse(self, data: bytes) -> Part:
        """Return the sockets of one read. Raises `OSError` if the kernel refuses the request."""
        found: list[Socket] = []
        for kind, start, end in _messages(data):
            if kind == _SOCK_DIAG_BY_FAMILY and end - start >= _SOCKET.size:
                found.append(self._socket(data, start, end))
            elif kind == _DONE:
                return Part(found, True)
            elif kind == _ERROR and end - start >= _ERRNO.size:
                (number,) = _ERRNO.unpack_from(data, start)
                if number:
                    raise OSError(-number, "the kernel does not list TCP sockets")
        return Part(found, False)

    def _socket(self, data: bytes, start: int, end: int) -> Socket:
        family, state, ends, cookie, inode = _SOCKET.unpack_from(data, start)
        is_listening = state == _LISTEN
        layout = self._layouts.get(end - start)
        if layout is not None:
            _, cgroup_kind, cgroup = _CGROUP.unpack_from(data, start + layout.cgroup)
            _, info_kind, sent, received = _BYTES.unpack_from(data, start + layout.info)
            if cgroup_kind == _CGROUP_ID and info_kind == _INFO:
                return Socket(cookie, inode, cgroup, is_listening, family, ends, sent, received)
        places = _attributes(data, start, end)
        cgroup = sent = received = 0
        if _CGROUP_ID in places:
            *_, cgroup = _CGROUP.unpack_from(data, start + places[_CGROUP_ID])
        if _INFO in places:
            *_, sent, received = _BYTES.unpack_from(data, start + places[_INFO])
        if len(places) == 2 and len(self._layouts) < _LAYOUTS_MOST:
            self._layouts[end - start] = _Layout(places[_CGROUP_ID], places[_INFO])
        return Socket(cookie, inode, cgroup, is_listening, family, ends, sent, received)


def _attributes(data: bytes, start: int, end: int) -> dict[int, int]:
    """Return where the attributes that are used and complete are, from the start of the message's body."""
    sizes = {_CGROUP_ID: _CGROUP.size, _INFO: _BYTES.size}
    found = {}
    at = start + _SOCKET.size
    while at + _ATTRIBUTE.size <= end:
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        if length < _ATTRIBUTE.size or at + length > end:
            break
        if kind in sizes and length >= sizes[kind]:
            found[kind] = at - start
        at += (length + 3) & ~3
    return found


def _messages(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield type, start and end of the body of each message; what is cut is left out."""
    at, total = 0, len(data)
    while at + _HEADER.size <= total:
        length, kind, *_ = _HEADER.unpack_from(data, at)
        if length < _HEADER.size or at + length > total:
            return
        yield kind, at + _HEADER.size, at + length
        at += (length + 3) & ~3


@functools.lru_cache(maxsize=4096)
def endpoints(family: int, ends: bytes) -> tuple[pod_telemetry.Endpoint, pod_telemetry.Endpoint]:
    """Return the local and the remote end of a socket."""
    local_port, remote_port, local, remote = _ENDS.unpack(ends)
    return (
        pod_telemetry.Endpoint(_address(family, local), local_port),
        pod_telemetry.Endpoint(_address(family, remote), remote_port),
    )


def _address(family: int, packed: bytes) -> str:
    """Return an address as text; one of IPv4 in IPv6 as that of IPv4, so that both ends write it alike.

    >>> _address(socket.AF_INET6, bytes(10) + b"\\xff\\xff" + bytes((10, 0, 0, 1)))
    '10.0.0.1'
    """
    if family == socket.AF_INET:
        return socket.inet_ntop(socket.AF_INET, packed[:4])
    address = ipaddress.IPv6Address(packed)
    return str(address.ipv4_mapped or address)
