"""The server at the other end: joined, looked at, and its client's errors made ours."""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from carico_core.domain import errors
from carico_core.runtime.bus import connection_options, nats_client
from carico_core.runtime.observe import logs
from carico_core.runtime.process import memory_use

with memory_use.hidden_from_nats():
    from nats.errors import Error as NatsError
    from nats.js.errors import Error as JetStreamError

# The oldest that is accepted. Shipped and tested is the one version of requirements/nats.txt.
MINIMUM_VERSION = (2, 12)


async def join(
    client: nats_client.Client, options: dict[str, Any], watch: connection_options.Watch, rng: random.Random
) -> None:
    """Connect the client, waiting for the server for as long as it takes."""
    try:
        while True:
            try:
                with cancellable():
                    return await client.connect(**options)
            except (OSError, NatsError, TimeoutError) as error:
                await watch.on_error(error)
                await asyncio.sleep(pause_s(rng))
    except BaseException:
        # A person's Ctrl-C while it waits: nothing of the attempt stays open.
        watch.is_closing = True
        with contextlib.suppress(NatsError, OSError):
            await client.close()
        raise


def check(client: nats_client.Client) -> None:
    """Raise `BusTooOld`, or `EnvironmentUnfit` where the server has no JetStream."""
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
    log: logs.Log,
    rng: random.Random,
    while_: Callable[[], bool] = lambda: True,
) -> None:
    """Retry `prepare` until it works, as long as the server is not ready for it and `while_` holds.

    A server that has just come up answers before its JetStream does.
    """
    is_said = False
    while while_():
        try:
            await prepare()
            return
        except errors.BusUnavailable as error:
            if not is_said:
                log.warning("JetStream is not ready", error=str(error))
            is_said = True
            await asyncio.sleep(pause_s(rng))


def pause_s(rng: random.Random) -> float:
    """Seconds until the server is asked again, with jitter."""
    return rng.uniform(connection_options.RECONNECT_FIRST_S, connection_options.RECONNECT_MOST_S)


def address(client: nats_client.Client) -> str:
    """host:port of the server, without credentials."""
    url = client.connected_url
    return "?" if url is None else f"{url.hostname}:{url.port}"


@contextlib.contextmanager
def translated(what: str) -> Iterator[None]:
    """Foreign exceptions become ours, here and nowhere else; and a cancellation that nats-py lost is raised again."""
    try:
        with cancellable():
            yield
    except (NatsError, JetStreamError, TimeoutError, OSError) as error:
        raise errors.BusUnavailable(f"{what}: {str(error) or type(error).__name__}") from error


@contextlib.contextmanager
def cancellable() -> Iterator[None]:
    """Raise a cancellation that nats-py lost in the block at its end, in place of an error too.

    nats-py waits with `asyncio.wait_for`, which before Python 3.12 returns its result and forgets a cancellation that
    arrives in the same turn of the loop (python/cpython#86296). A service under load then did not end on SIGTERM.
    """
    task = asyncio.current_task()
    before = 0 if task is None else task.cancelling()
    try:
        yield
    except Exception:
        # A caller that retries after an error would otherwise retry for ever.
        _raise_if_cancelled(task, before)
        raise
    _raise_if_cancelled(task, before)


def _raise_if_cancelled(task: "asyncio.Task[object] | None", before: int) -> None:
    if task is not None and task.cancelling() > before:
        raise asyncio.CancelledError
