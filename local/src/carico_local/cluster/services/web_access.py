"""The bus for browsers: NATS' WebSocket of a local cluster, and what who comes by it may do.

On loopback everyone of this machine may do everything, but a browser brings pages of all the world: by the WebSocket
come readers only, from the page's own address only (https://docs.nats.io/running-a-nats-service/configuration/websocket).
"""

import dataclasses
from typing import Any

from carico_auth import server_config
from carico_core.wire import roles

READER, LOCAL = "reader", "local"
# Both connect without credentials, each by its own listener; these words are no secret and open nothing else.
_NO_SECRET = "unnamed"


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


def configuration(access: WebAccess) -> dict[str, Any]:
    """Return what the server's configuration needs for this."""
    reader = {
        "permissions": server_config.permissions(roles.Role.READER),
        "allowed_connection_types": [roles.WEBSOCKET],
    }
    local = {"allowed_connection_types": [roles.STANDARD]}
    users = [{"user": name, "password": _NO_SECRET, **rest} for name, rest in ((LOCAL, local), (READER, reader))]
    origins = [f"http://{name}:{access.page_port}" for name in ("127.0.0.1", "localhost", "[::1]")]
    return {
        "authorization": {"users": users},
        "no_auth_user": LOCAL,
        "websocket": {
            "host": "127.0.0.1",
            "port": access.websocket_port,
            "no_tls": True,
            "no_auth_user": READER,
            "allowed_origins": origins,
            "compression": False,
        },
    }
