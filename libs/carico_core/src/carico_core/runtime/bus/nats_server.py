"""The server at the other end: joined, looked at, and its client's errors made ours."""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import Any

from carico_core.domain import errors
from carico_core.runtime.bus import connection_options, nats_client
from carico_core.runtime.bus.security import refusals
from carico_core.runtime.process import memory_use

with memory_use.hidden_from_nats():
    from nats.errors import Error as NatsError
    from nats.errors import MaxPayloadError
    from nats.js.errors import Error as JetStreamError

# The oldest that is accepted. Shipped and tested is the one version of requirements/nats.txt.
MINIMUM_VERSION = (2, 12)


async def join(
    client: nats_client.Client, options: dict[str, Any], watch: connection_options.Watch, rng: random.Random
) -> None:
    """Connect the client, waiting for the server for as long as it takes."""
    joining, block = asyncio.current_task(), Cancellable()

    async def on_error(error: Exception) -> None:
        await watch.on_error(error)
        # nats-py tries again within `connect`, which then has no end. It calls this for as long as the client lives.
        if asyncio.current_task() is joining:
            block.raise_if_lost()

    try:
        while True:
            try:
                with block:
                    await client.connect(**{**options, "error_cb": on_error})
                joining = None
                return
            except (OSError, NatsError, TimeoutError) as error:
                await watch.on_error(error)
                await asyncio.sleep(pause_s(rng))
    except BaseException:
        joining = None
        # A person's Ctrl-C while it waits: nothing of the attempt stays open.
        watch.is_closing = True
        with contextlib.suppress(NatsError, OSError):
            await client.close()
        raise


def check(client: nats_client.Client) -> None:
    """Raise `BusTooOld`, or `EnvironmentUnfit` where the server has no JetStream.

    Raises `BusUnavailable` while there is no connection: nats-py shows the version 0.0.0 then.
    """
    if not client.is_connected:
        raise errors.BusUnavailable("not connected to NATS")
    version = client.connected_server_version
    if (version.major, version.minor) < MINIMUM_VERSION:
        got = f"{version.major}.{version.minor}.{version.patch}"
        minimum = ".".join(map(str, MINIMUM_VERSION))
        raise errors.BusTooOld(got=got, minimum=minimum, url=address(client))
    # nats-py shows what the server said of itself nowhere else. Members of a cluster may leave JetStream to others.
    said = client._server_info
    if not said.get("jetstream") and not said.get("cluster"):
        raise errors.EnvironmentUnfit(
            f"NATS server at {address(client)} runs without JetStream: start it with `nats-server -js`, "
            "or with a `jetstream` block in its configuration"
        )


async def until_ready(
    prepare: Callable[[], Awaitable[object]],
    *,
    watch: connection_options.Watch,
    rng: random.Random,
    while_: Callable[[], bool] = lambda: True,
) -> None:
    """Retry `prepare` until it works, as long as the server is not ready for it and `while_` holds.

    A server that has just come up answers before its JetStream does. One whose disk is too small never gets ready.
    """
    said: refusals.Kind | None = None
    while while_():
        try:
            await prepare()
            return
        except errors.BusUnavailable as error:
            trouble = watch.note(error)
            if trouble.kind is not said:
                watch.log.warning("JetStream is not ready", error=trouble.text)
            said = trouble.kind
            await asyncio.sleep(pause_s(rng))


def pause_s(rng: random.Random) -> float:
    """Seconds until the server is asked again, with jitter."""
    return rng.uniform(connection_options.RECONNECT_FIRST_S, connection_options.RECONNECT_MOST_S)


def address(client: nats_client.Client) -> str:
    """host:port of the server, without credentials."""
    url = client.connected_url
    return "?" if url is None else f"{url.hostname}:{url.port}"


class Cancellable:
    """Raises a cancellation that nats-py lost in the block at its end, in place of an error too.

    nats-py waits with `asyncio.wait_for`, which before Python 3.12 returns its result and forgets a cancellation that
    arrives in the same turn of the loop (python/cpython#86296). A service under load then did not end on SIGTERM.

    A class, since a generator takes three times as long, and each message that is published enters one.
    """

    def __init__(self) -> None:
        self._task = asyncio.current_task()
        self._before = 0 if self._task is None else self._task.cancelling()

    def __enter__(self) -> None:
        """Enter the block."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Leave the block: a caller that retries after an error would otherwise retry for ever."""
        if error is None or isinstance(error, Exception):
            self.raise_if_lost()

    def raise_if_lost(self) -> None:
        """Raise a cancellation that arrived in the block, for what nats-py calls in it."""
        if self._task is not None and self._task.cancelling() > self._before:
            raise asyncio.CancelledError


class Translated(Cancellable):
    """Foreign exceptions become ours, here and nowhere else; and a cancellation that nats-py lost is raised again."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self._what = what

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Leave the block."""
        super().__exit__(kind, error, trace)
        if isinstance(error, MaxPayloadError):
            # To try again would not help.
            raise errors.BusError(f"{self._what}: the message is larger than the server takes") from error
        if isinstance(error, (NatsError, JetStreamError, TimeoutError, OSError)):
            raise errors.BusUnavailable(f"{self._what}: {str(error) or type(error).__name__}") from error
