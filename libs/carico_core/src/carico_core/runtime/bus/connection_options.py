"""The options of a NATS connection, and the callbacks that watch it."""

import pathlib
import random
from collections.abc import Callable
from typing import Any

from carico_core.domain import errors
from carico_core.runtime.bus import port as buses
from carico_core.runtime.bus.security import refusals, token_expiry
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks

CONNECT_TIMEOUT_S = 5
# A half-open connection is noticed after two missed pings.
PING_INTERVAL_S = 5
RECONNECT_FIRST_S = 0.1
RECONNECT_MOST_S = 2.0
# Different errors that are remembered as said; a flood of them must not grow it.
SAID_MOST = 64
_EVENTS = {refusals.Kind.CERTIFICATE: "NATS is not trusted", refusals.Kind.NO_ACCOUNTS: "NATS is not trusted"}
OnTrouble = Callable[[refusals.Trouble], None]


class Watch:
    """The client's callbacks: one line per change of state, and never an exception, which would end nats-py's loops.

    `on_trouble` is called for each thing that goes wrong, also where its line has been logged before.
    """

    def __init__(
        self, log: logs.Log, settings: buses.BusSettings, *,
        clock: clocks.Clock, on_trouble: OnTrouble = lambda _: None,
    ) -> None:  # fmt: skip
        self.log = log
        # What went wrong last, until the connection is back; a timeout does not replace a refusal before it.
        self.trouble: refusals.Trouble | None = None
        self.is_closing = False
        self.on_back: Callable[[], None] = lambda: None
        self.on_end: Callable[[], None] = lambda: None
        self._settings = settings
        self._clock = clock
        self._on_trouble = on_trouble
        self._away = False
        self._said: set[str] = set()

    async def on_error(self, error: Exception) -> None:
        """Say what went wrong: each thing once until the connection is back, since retries go on for ever."""
        trouble = self.note(error)
        # Once a kind and an error of NATS: how long ago a token has expired is another text each time.
        what = f"{trouble.kind} {error}"
        if what in self._said:
            return
        if len(self._said) < SAID_MOST:
            self._said.add(what)
        if trouble.kind in refusals.LASTING:
            self.log.error(_EVENTS.get(trouble.kind, "refused by NATS"), error=trouble.text)
        elif not self._away:
            self._away = isinstance(error, OSError)
            self.log.warning("NATS is away" if self._away else "NATS error", error=trouble.text)

    def note(self, error: Exception) -> refusals.Trouble:
        """Count what went wrong, and return it."""
        found = refusals.explain(error, self._settings, now_s=self._clock.wall_ns() / 1e9)
        if self.trouble is None or found.kind in refusals.LASTING or self.trouble.kind not in refusals.LASTING:
            self.trouble = found
        self._on_trouble(found)
        return found

    async def on_disconnect(self) -> None:
        """Log it, unless we left."""
        if not self.is_closing:
            self.log.warning("disconnected from NATS")
        self._away = True

    async def on_reconnect(self) -> None:
        """Log it, and start over what the old connection held."""
        self._away = False
        self.trouble = None
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
