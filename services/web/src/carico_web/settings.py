"""The settings of the web page's server."""

import dataclasses
import urllib.parse

from carico_core.domain import errors
from carico_core.runtime.process import settings

PREFIX = "web"
PROGRAM = "carico-web"
DEFAULT_PORT = 8090
# Placeholder in `bus_websocket` for the host name of the page.
HOST_FIELD = "{host}"
ANY_HOST = "*"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    """Read once in `main`: environment CARICO_WEB_..., flags --..."""

    bus_websocket: str = settings.setting(
        "", help="address of NATS' WebSocket as browsers reach it (ws://... or wss://...); {host} in it is the name by "
        "which the page was reached; empty: the path /bus of the page's own address",
        why="an Ingress can put both under one name",
    )  # fmt: skip
    hosts: str = settings.setting(
        "localhost,127.0.0.1,[::1]", help="names by which the page may be reached, with commas; * any",
        why="DNS rebinding: a foreign site whose name resolves to this address must not read what the page reads",
    )  # fmt: skip
    cluster: str = settings.setting("", help="name of the cluster, shown on the page")
    nkey: str = settings.setting("", help="path of a reader's seed, by which the page signs on to the bus")
    token_file: str = settings.setting("", help="path of a reader's token, which the page sends to the bus")
    lease_s: float = settings.setting(
        10.0, help="silence after which a node is absent", unit="s", minimum=1.0, maximum=600.0,
        why="the lease of scheduler and aggregator",
    )  # fmt: skip
    http_host: str = settings.setting("127.0.0.1", help="address of the page, /healthz, /readyz and /metrics")
    http_port: int = settings.setting(DEFAULT_PORT, help="its port; 0 a free one", minimum=0, maximum=65535)
    log: settings.LogSettings = dataclasses.field(default_factory=settings.LogSettings)

    def __post_init__(self) -> None:
        if self.nkey and self.token_file:
            raise errors.SettingsError("--nkey, --token-file: got both, expected one of them")
        if self.bus_websocket and not _is_websocket(self.bus_websocket):
            raise errors.SettingsError(
                f"--bus-websocket: got {self.bus_websocket!r}, expected ws://HOST[:PORT][/PATH] or wss://..."
            )
        if not self.allowed_hosts():
            raise errors.SettingsError("--hosts: got none, expected the names by which the page is reached, or *")

    def allowed_hosts(self) -> frozenset[str]:
        """Return the names of `hosts`, in lower case."""
        return frozenset(filter(None, (name.strip().lower() for name in self.hosts.split(","))))


def _is_websocket(text: str) -> bool:
    try:
        parts = urllib.parse.urlsplit(text.replace(HOST_FIELD, "host"))
        # `port` raises for a non-number; spaces and quotes would end the header that contains the address.
        return parts.scheme in ("ws", "wss") and bool(parts.hostname) and parts.port != 0 and _is_plain(text)
    except ValueError:
        return False


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and not any(mark in text for mark in " ;,'\"\\@")
