"""The options of a NATS connection, and the callbacks that watch it."""

import pathlib
import random
import re
from collections.abc import Callable
from typing import Any

from carico_core.domain import errors
from carico_core.runtime.bus import port as buses
from carico_core.runtime.bus.security import tls, token_expiry
from carico_core.runtime.observe import logs

CONNECT_TIMEOUT_S = 5
# A half-open connection is noticed after two missed pings.
PING_INTERVAL_S = 5
RECONNECT_FIRST_S = 0.1
RECONNECT_MOST_S = 2.0
# Different errors that are remembered as said; a flood of them must not grow it.
SAID_MOST = 64


class Watch:
    """The client's callbacks: one line per change of state, and never an exception, which would end nats-py's loops."""

    def __init__(self, log: logs.Log, settings: buses.BusSettings) -> None:
        self.log = log
        self.is_closing = False
        self.on_back: Callable[[], None] = lambda: None
        self.on_end: Callable[[], None] = lambda: None
        self._settings = settings
        self._away = False
        self._said: set[str] = set()

    async def on_error(self, error: Exception) -> None:
        """Say what went wrong: each thing once until the connection is back, since retries go on for ever."""
        text = tls.explain(error, self._settings)
        if text in self._said:
            return
        if len(self._said) < SAID_MOST:
            self._said.add(text)
        if re.search("authorization|permissions|authentication|certificate", text, re.IGNORECASE):
            self.log.error("refused by NATS" if "certificate" not in text else "NATS is not trusted", error=text)
        elif not self._away:
            self._away = isinstance(error, OSError)
            self.log.warning("NATS is away" if self._away else "NATS error", error=text)

    async def on_disconnect(self) -> None:
        """Log it, unless we left."""
        if not self.is_closing:
            self.log.warning("disconnected from NATS")
        self._away = True

    async def on_reconnect(self) -> None:
        """Log it, and start over what the old connection held."""
        self._away = False
        self._said.clear()
        self.log.info("reconnected to NATS")
        self.on_back()

    async def on_close(self) -> None:
        """Note that the connection is gone for good."""
        self.on_end()


def options(settings: buses.BusSettings, *, name: str, inbox: str, watch: Watch, rng: random.Random) -> dict[str, Any]:
    """Return the arguments of nats-py's `connect`. Raises `SettingsError` where a file of ours cannot be read."""
    return {
        "servers": [part.strip() for part in settings.url.split(",")],
        "name": name,
        "inbox_prefix": settings.inbox_prefix or inbox,
        "error_cb": watch.on_error,
        "disconnected_cb": watch.on_disconnect,
        "reconnected_cb": watch.on_reconnect,
        "closed_cb": watch.on_close,
        "max_reconnect_attempts": -1,
        # Jitter, so that a thousand agents do not come back in one instant.
        "reconnect_time_wait": rng.uniform(RECONNECT_FIRST_S, RECONNECT_MOST_S),
        "ping_interval": PING_INTERVAL_S,
        "max_outstanding_pings": 2,
        "connect_timeout": CONNECT_TIMEOUT_S,
        # Negative: publishing while disconnected raises. Old signals are worthless.
        "pending_size": -1,
        **_identity(settings),
    }


def _identity(settings: buses.BusSettings) -> dict[str, Any]:
    """Options of whatever proves who we are. Raises `SettingsError` where a file cannot be read."""
    found: dict[str, Any] = {}
    for path in (settings.credentials, settings.nkey, settings.token_file):
        if path and not pathlib.Path(path).is_file():
            raise errors.SettingsError(f"bus: got {path}, expected a file that can be read")
    if settings.credentials:
        found["user_credentials"] = settings.credentials
    if settings.nkey:
        _check_seed(pathlib.Path(settings.nkey))
        found["nkeys_seed"] = settings.nkey
    if settings.token_file:
        found["token"] = lambda: token_expiry.read(pathlib.Path(settings.token_file))
    return found


def _check_seed(path: pathlib.Path) -> None:
    """Raise `SettingsError` for a file that holds no nkey seed; nothing of it is shown."""
    # Most set-ups have no nkeys, and cryptography costs an agent memory.
    from carico_core.runtime.bus.security import nkeys

    try:
        nkeys.read(path)
    except (OSError, ValueError) as error:
        raise errors.SettingsError(f"bus: got {path}, expected the seed of an nkey (SU...) in it") from error
