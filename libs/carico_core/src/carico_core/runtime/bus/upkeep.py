"""Keeps a connection to NATS: what each reconnect repeats, the streams, the renewal of its token, and its end."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import NoReturn

from carico_core.domain import errors
from carico_core.runtime.bus import connection_options, nats_client, nats_server
from carico_core.runtime.bus.security import refusals
from carico_core.runtime.bus.security import renewal as bus_renewal

LEAVE_TIMEOUT_S = 2.0
# Streams are looked at this often: deleted while everyone is connected, they are back within half a lease of 10 s.
LOOK_FIRST_S = 2.0
LOOK_MOST_S = 4.0


class Upkeep:
    """The upkeep of one connection. `prepare`: checks the server, makes what it lacks, and returns its names."""

    def __init__(
        self, client: nats_client.Client, watch: connection_options.Watch, *,
        prepare: Callable[[], Awaitable[list[str]]], rng: random.Random,
    ) -> None:  # fmt: skip
        self._client = client
        self._watch = watch
        self._prepare = prepare
        self._log = watch.log
        self._rng = rng
        self._closed = asyncio.Event()
        self._callbacks: list[Callable[[], None]] = []
        self._restoring: asyncio.Future[None] | None = None
        self._renewing: asyncio.Future[None] | None = None
        self._looking: asyncio.Future[None] | None = None
        self._on_made: Callable[[], None] = lambda: None
        watch.on_back = self._reconnected
        watch.on_end = self._ended

    def on_reconnect(self, callback: Callable[[], None]) -> None:
        """Call `callback` each time the connection is back."""
        self._callbacks.append(callback)

    def renew_by(self, renewal: bus_renewal.Renewal) -> None:
        """Replace the connection before its token expires, from now on."""
        self._renewing = asyncio.ensure_future(renewal.run())
        self._renewing.add_done_callback(self._renewal_ended)

    def keep_streams(self, on_made: Callable[[], None]) -> None:
        """Make streams again that are deleted from now on, and call `on_made` then."""
        self._on_made = on_made
        self._looking = asyncio.ensure_future(self._look_forever())

    async def wait_closed(self) -> NoReturn:
        """Wait for the end of the connection. Raises `BusUnavailable` once it is closed for good."""
        await self._closed.wait()
        raise errors.BusUnavailable("the connection to NATS is closed for good")

    async def end(self) -> None:
        """Stop the upkeep, before the connection is closed."""
        self._watch.is_closing = True
        tasks = [task for task in (self._restoring, self._renewing, self._looking) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            # A renewal has a connection of its own to close.
            await asyncio.wait(tasks, timeout=LEAVE_TIMEOUT_S)

    def _reconnected(self) -> None:
        if self._restoring is not None:
            self._restoring.cancel()
        self._restoring = asyncio.ensure_future(self._restore())
        for callback in self._callbacks:
            try:
                callback()
            except Exception:  # a raising callback would end nats-py's reconnecting
                self._log.exception("reconnect callback failed")

    async def _restore(self) -> None:
        """Create streams that the server came back without; pulls and publishes then continue."""
        try:
            await nats_server.until_ready(
                self._make, watch=self._watch, rng=self._rng, while_=lambda: self._client.is_connected
            )
        except errors.CaricoError as error:
            self._watch.note(error)
            self._log.error("streams could not be checked after the reconnect", error=str(error))

    async def _look_forever(self) -> None:
        wrong = ""
        while True:
            await asyncio.sleep(self._rng.uniform(LOOK_FIRST_S, LOOK_MOST_S))
            if not self._client.is_connected:
                continue
            try:
                await self._make()
                wrong = ""
            except errors.CaricoError as error:
                trouble = self._watch.note(error)
                if isinstance(error, errors.BusUnavailable) and trouble.kind not in refusals.LASTING:
                    continue
                if str(error) != wrong:
                    wrong = str(error)
                    self._log.error("streams are not as they should be", error=wrong)

    async def _make(self) -> None:
        made = await self._prepare()
        if made:
            self._log.warning("streams were missing and are made again", streams=made)
            self._on_made()

    def _renewal_ended(self, renewing: asyncio.Future[None]) -> None:
        # Otherwise it would go unnoticed until the token expires, hours later: end now, so that the service restarts.
        if not renewing.cancelled():
            self._log.error("the connection is not renewed any more", error=repr(renewing.exception()))
            self._closed.set()

    def _ended(self) -> None:
        if not self._watch.is_closing:
            error = self._client.last_error
            why = "" if error is None else self._watch.note(error).text
            self._log.error("closed by NATS for good", error=why)
        self._closed.set()
