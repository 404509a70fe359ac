"""A dead peer is noticed by the kernel."""

import socket

from carico_core.runtime.kube import http_client


def test_a_silent_peer_is_asked_after() -> None:
    address = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", 0))
    with http_client.create_socket(address) as made:
        assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) != 0
        options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        assert [made.getsockopt(socket.IPPROTO_TCP, each) for each in options] == [15, 5, 3]
