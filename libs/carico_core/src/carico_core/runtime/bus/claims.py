"""The stream of claims on NATS: compare and set by `Nats-Expected-Last-Subject-Sequence`.

https://docs.nats.io/nats-concepts/jetstream/headers
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import orjson

from carico_core.runtime.bus import port as buses
from carico_core.runtime.process import memory_use
from carico_core.wire import streams, subjects

with memory_use.hidden_from_nats():
    from nats.errors import Error as NatsError

    from carico_core.runtime.bus import direct_get, nats_client, nats_server, pull_consumer

ANSWER_S = 2.0
_EXPECTED = "Nats-Expected-Last-Subject-Sequence"
_STREAM = "Nats-Expected-Stream"
_TTL = "Nats-TTL"
# Of a republished message: the subject and the number under which it was stored.
_SUBJECT, _SEQUENCE = "Nats-Subject", "Nats-Sequence"
# What JetStream answers if the newest message is another one (JSStreamWrongLastSequenceErrF).
_WRONG_LAST_SEQUENCE = 10071
# The same while another change of the subject is under way in a cluster (JSStreamWrongLastSequenceConstantErr).
_WRONG_LAST_SEQUENCE_CONSTANT = 10164

Subscribe = Callable[[str, Callable[[str, bytes, bytes], None]], Awaitable[buses.Subscription]]


class NatsClaims:
    """See `port.Claims`."""

    def __init__(self, client: "nats_client.Client", *, subscribe: Subscribe) -> None:
        """`subscribe` passes subject, headers and payload of each message on, and survives what is raised there."""
        self._client = client
        self._subscribe = subscribe

    async def change(self, changes: Sequence[buses.Change]) -> list[buses.Changed]:
        """See `port.Claims`."""
        return list(await asyncio.gather(*map(self._change, changes)))

    async def newest(self, subject: str) -> buses.Kept | None:
        """See `port.Claims`."""
        with nats_server.translated(subject):
            found = await direct_get.newest(self._client, streams.CLAIMS, subject)
        return None if found is None else _kept(found)

    async def all(self) -> list[buses.Kept]:
        """See `port.Claims`."""
        with nats_server.translated(streams.CLAIMS):
            found = [
                _kept(message) async for message in direct_get.read(self._client, streams.CLAIMS, subjects.CLAIM_ALL)
            ]
        # One that was replaced while this was read has come twice: the later one is the newer.
        return list({each.subject: each for each in found}.values())

    async def follow(self, handler: Callable[[buses.Kept], None]) -> buses.Subscription:
        """See `port.Claims`."""

        def take(_: str, headers: bytes, payload: bytes) -> None:
            subject, seq = (pull_consumer.header_of(headers, name) or "" for name in (_SUBJECT, _SEQUENCE))
            handler(buses.Kept(subject=subject, payload=payload, seq=int(seq)))

        return await self._subscribe(subjects.CLAIMED_ALL, take)

    async def _change(self, change: buses.Change) -> buses.Changed:
        headers = {_EXPECTED: str(change.seq), _STREAM: streams.CLAIMS, **({_TTL: "never"} if change.lasts else {})}
        try:
            with nats_server.cancellable():
                answer = await self._client.request(change.subject, change.payload, timeout=ANSWER_S, headers=headers)
            said = orjson.loads(answer.data)
        except (NatsError, TimeoutError, OSError, ValueError) as error:
            return buses.Changed(detail=str(error) or type(error).__name__)
        failure = said.get("error")
        if failure is None:
            return buses.Changed(seq=int(said["seq"]))
        is_conflict = failure.get("err_code") in (_WRONG_LAST_SEQUENCE, _WRONG_LAST_SEQUENCE_CONSTANT)
        return buses.Changed(is_conflict=is_conflict, detail=str(failure.get("description", "")))


def _kept(found: "direct_get.Stored") -> buses.Kept:
    return buses.Kept(subject=found.subject, payload=found.payload, seq=found.seq)
