"""Who may do what on the bus of a local cluster, and the bus for browsers: NATS' WebSocket.

On loopback everyone of this machine may do everything, but a browser brings pages of all the world: by the WebSocket
come readers only, from the page's own address only (https://docs.nats.io/running-a-nats-service/configuration/websocket).
Agents have the account and the rights that they have everywhere.
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


def agents_url(url: str) -> str:
    """Return the server's URL for agents, which connect to their own account.

    >>> agents_url("nats://127.0.0.1:4222")
    'nats://agent:unnamed@127.0.0.1:4222'
    """
    return url.replace("://", f"://{arrangements.AGENTS}:{arrangements.PASSWORD}@", 1)


def configuration(access: WebAccess) -> dict[str, Any]:
    """Return what the server's configuration needs for this."""
    origins = [f"http://{name}:{access.page_port}" for name in ("127.0.0.1", "localhost", "[::1]")]
    return {
        **arrangements.loopback(),
        "websocket": {
            "host": "127.0.0.1",
            "port": access.websocket_port,
            "no_tls": True,
            "no_auth_user": arrangements.READERS,
            "allowed_origins": origins,
            "compression": False,
        },
    }
