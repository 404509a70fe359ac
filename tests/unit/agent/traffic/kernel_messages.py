"""Netlink messages as the kernel writes them, and sockets for tests."""

import ipaddress
import socket
import struct

from carico_agent.traffic import inet_diag
from carico_core.domain import pod_telemetry

ESTABLISHED, LISTEN = 1, 10
Address = tuple[str, int]


def packed(address: str) -> bytes:
    """An address as the kernel has it, in 16 bytes."""
    return ipaddress.ip_address(address).packed.ljust(16, b"\0")


def ends(local: Address, remote: Address) -> bytes:
    """Ports and addresses as the kernel has them."""
    return struct.pack(">HH", local[1], remote[1]) + packed(local[0]) + packed(remote[0])


def tcp(
    cookie: int, local: Address, remote: Address = ("0.0.0.0", 0), *, sent: int = 0, received: int = 0,
    inode: int | None = None, cgroup: int = 0, listening: bool = False,
) -> inet_diag.Socket:  # fmt: skip
    """A parsed socket; its inode is its cookie unless stated otherwise."""
    family = socket.AF_INET6 if ":" in local[0] else socket.AF_INET
    return inet_diag.Socket(
        cookie, cookie if inode is None else inode, cgroup, listening, family, ends(local, remote), sent, received
    )


def end(cookie: int, local: Address, remote: Address, *, sent: int, received: int) -> inet_diag.Socket:
    """The event of a socket that has ended: the FIN of each end counts."""
    return tcp(cookie, local, remote, sent=sent + 1, received=received + 1, inode=0)


def flow(pod: str | None, local: Address, remote: Address, sent: int, received: int) -> pod_telemetry.PodFlow:
    """A flow."""
    return pod_telemetry.PodFlow(
        pod, pod_telemetry.Endpoint(*local), pod_telemetry.Endpoint(*remote), sent, received
    )  # fmt: skip


def message(found: inet_diag.Socket, *, with_cgroup: bool = True, padding: int = 0) -> bytes:
    """A socket as the kernel writes it: inet_diag_msg, and the attributes cgroup and tcp_info among others."""
    state = LISTEN if found.is_listening else ESTABLISHED
    body = struct.pack("=BBBB", found.family, state, 0, 0) + found.ends + struct.pack("=IQ", 1, found.cookie)
    body += struct.pack("=IIIII", 0, 0, 0, 1000, found.inode)
    body += attribute(8, b"\0")
    if with_cgroup:
        body += attribute(21, struct.pack("=Q", found.cgroup))
    info = bytes(120) + struct.pack("=QQ", found.sent_bytes, found.received_bytes) + bytes(100 + padding)
    return netlink(20, body + attribute(2, info))


def attribute(kind: int, data: bytes) -> bytes:
    """A netlink attribute."""
    return (struct.pack("=HH", 4 + len(data), kind) + data).ljust((4 + len(data) + 3) & ~3, b"\0")


def netlink(kind: int, body: bytes) -> bytes:
    """A netlink message."""
    return struct.pack("=IHHII", 16 + len(body), kind, 2, 1, 7) + body


def done() -> bytes:
    """The end of a dump."""
    return netlink(3, bytes(4))
