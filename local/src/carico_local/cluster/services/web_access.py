"""Who may do what on the bus of a local cluster, and the bus for browsers: NATS' WebSocket.

The cluster's password is in its state and in the environment of its services, which only their user can read. By the
WebSocket come readers only, without a password, and only from the page's own address
(https://docs.nats.io/running-a-nats-service/configuration/websocket).
"""

import dataclasses
from typing import Any

from carico_auth import arrangements


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WebAccess:
    """Ports of loopback: where NATS takes WebSockets, and where `carico web` will serve the page."""

    websocket_port: int
    page_port: int

    @property
    def websocket_url(self) -> str:
        """Where the page connects; {host} is the name by which it was reached."""
        return f"ws://{{host}}:{self.websocket_port}"

    @property
    def page_url(self) -> str:
        """Where people open the page."""
        return f"http://127.0.0.1:{self.page_port}"


def url(address: str, user: str, password: str) -> str:
    """Return the server's URL for a user of `arrangements.loopback`.

    >>> url("127.0.0.1:4222", "agent", "secret")
    'nats://agent:secret@127.0.0.1:4222'
    """
    return f"nats://{user}:{password}@{address}"


def configuration(access: WebAccess, password: str) -> dict[str, Any]:
    """Return what the server's configuration needs for this."""
    origins = [f"http://{name}:{access.page_port}" for name in ("127.0.0.1", "localhost", "[::1]")]
    return {
        **arrangements.loopback(password),
        "websocket": {
            "host": "127.0.0.1",
            "port": access.websocket_port,
            "no_tls": True,
            "no_auth_user": arrangements.READERS,
            "allowed_origins": origins,
            "compression": False,
        },
    }
