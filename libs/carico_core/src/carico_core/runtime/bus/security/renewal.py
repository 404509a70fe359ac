"""Replaces the connection before its token expires, without a gap.

A new connection is tried first, and the old one is given up only once the server has accepted the new one: while the
auth callout is away, clients stay connected as long as their tokens last.
"""

import asyncio
import contextlib
import pathlib
import random
from collections.abc import Callable, Mapping
from typing import Any

from carico_core.runtime.bus import connection_options, nats_client, nats_server
from carico_core.runtime.bus.security import token_expiry
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import memory_use

with memory_use.hidden_from_nats():
    from nats.errors import Error as NatsError

# Callbacks of the lasting connection.
_NOT_OF_A_TRIAL = ("disconnected_cb", "reconnected_cb", "closed_cb")
TRIAL_TIMEOUT_S = 10.0
AGAIN_FIRST_S, AGAIN_MOST_S = 0.5, 5.0


class Renewal:
    """The renewing of one connection. `make_client`: a client that is not connected yet."""

    def __init__(
        self, client: nats_client.Client, *, make_client: Callable[[], nats_client.Client], options: Mapping[str, Any],
        token: pathlib.Path, log: logs.Log, clock: clocks.Clock, rng: random.Random,
    ) -> None:  # fmt: skip
        self._client = client
        self._make_client = make_client
        self._options = {key: value for key, value in options.items() if key not in _NOT_OF_A_TRIAL}
        self._token = token
        self._log = log
        self._clock = clock
        self._rng = rng

    async def run(self) -> None:
        """Renew the connection before each expiry until cancelled."""
        while True:
            token = await asyncio.to_thread(token_expiry.read, self._token)
            delay_s = token_expiry.renew_in_s(token, now_s=self._clock.wall_ns() / 1e9, rng=self._rng)
            if delay_s is None:
                # One that cannot be read at this moment is being replaced; any other does not expire.
                delay_s = token_expiry.LOOK_EVERY_S if token else token_expiry.AGAIN_S
            await asyncio.sleep(delay_s)
            expires_s = token_expiry.expires_at_s(token)
            if expires_s is not None:
                await self._renew(expires_s)

    async def _renew(self, expires_s: float) -> None:
        is_said = False
        while self._client.is_connected:
            why_not = await self._try()
            if why_not is None:
                self._log.info("renewing the connection before its token expires")
                await self._client.force_reconnect()
                return
            if not is_said:
                self._log.warning("NATS does not take the new token yet: staying with the old one", error=why_not)
                is_said = True
            # Closer together towards the expiry: a client that is not accepted by then is closed for good.
            left_s = expires_s - self._clock.wall_ns() / 1e9
            await asyncio.sleep(self._rng.uniform(AGAIN_FIRST_S, max(AGAIN_FIRST_S, min(AGAIN_MOST_S, left_s / 4))))

    async def _try(self) -> str | None:
        """Why the server would not let us in now; None where it would."""
        trial = self._make_client()
        said: list[Exception] = []

        async def on_error(error: Exception) -> None:
            said.append(error)

        # Nothing that would make it wait for a better moment.
        options = {
            **self._options, "error_cb": on_error, "allow_reconnect": False, "max_reconnect_attempts": 1,
            "reconnect_time_wait": connection_options.RECONNECT_FIRST_S,
        }  # fmt: skip
        try:
            async with asyncio.timeout(TRIAL_TIMEOUT_S):
                with nats_server.Cancellable():
                    await trial.connect(**options)
        except (NatsError, OSError, TimeoutError, ValueError) as error:
            # ValueError: a file that is being replaced, or what answers is no NATS.
            cause = said[-1] if said else error
            return str(cause) or type(cause).__name__
        finally:
            with contextlib.suppress(NatsError, OSError):
                await trial.close()
        return None
