"""Answering requests on one subject, shared among replicas, with as many at once as they come."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping

from carico_core.runtime.observe import logs
from carico_core.runtime.process import memory_use

with memory_use.hidden_from_nats():
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription
    from nats.errors import Error as NatsError

# (payload, headers) -> answer. None: no answer, and the request times out.
Answer = Callable[[bytes, Mapping[str, str]], Awaitable[bytes | None]]
# What comes above this is left without an answer: who asked has given up by the time its turn would come.
AT_ONCE_MOST = 1024


class Responder:
    """Answers one subject. nats-py hands on a message when the one before is done with, so each gets a task."""

    def __init__(self, client: Client, answer: Answer, *, log: logs.Log, on_dropped: Callable[[], None]) -> None:
        self._client = client
        self._answer = answer
        self._log = log
        self._on_dropped = on_dropped
        self._tasks: set[asyncio.Task[None]] = set()
        self._subscription: Subscription | None = None

    async def start(self, subject: str, *, group: str) -> None:
        """Answer from now on, across reconnects. Raises nats-py's errors."""
        self._subscription = await self._client.subscribe(subject, queue=group, cb=self._on_message)

    async def close(self) -> None:
        """Take no more requests, and finish those at work."""
        if self._subscription is not None:
            with contextlib.suppress(NatsError):
                await self._subscription.unsubscribe()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _on_message(self, message: Msg) -> None:
        if len(self._tasks) >= AT_ONCE_MOST:
            self._on_dropped()
            return
        task = asyncio.ensure_future(self._respond(message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _respond(self, message: Msg) -> None:
        try:
            answer = await self._answer(message.data, message.headers or {})
            if answer is not None:
                await self._client.publish(message.reply, answer)
        except Exception:  # one request must not end the answering of all
            self._log.exception("request failed", subject=message.subject)
