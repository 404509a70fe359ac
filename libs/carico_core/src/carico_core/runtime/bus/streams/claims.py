"""The stream of claims on NATS: compare and set by `Nats-Expected-Last-Subject-Sequence`.

https://docs.nats.io/nats-concepts/jetstream/headers
"""

from collections.abc import Awaitable, Callable, Sequence

import orjson

from carico_core.runtime.bus import port as buses
from carico_core.runtime.process import memory_use
from carico_core.wire import streams, subjects

with memory_use.hidden_from_nats():
    from nats.errors import Error as NatsError

    from carico_core.runtime.bus import nats_client, nats_server, requests
    from carico_core.runtime.bus.streams import direct_get, pull_consumer

ANSWER_S = 2.0
_EXPECTED = b"Nats-Expected-Stream: " + streams.CLAIMS.encode() + b"\r\nNats-Expected-Last-Subject-Sequence: %d\r\n"
_LASTS = b"Nats-TTL: never\r\n"
_NEWEST = f"$JS.API.DIRECT.GET.{streams.CLAIMS}"
_NOT_FOUND = "404"
# What JetStream answers if the newest message is another one: "wrong last sequence: 7" (JSStreamWrongLastSequenceErrF).
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
        self._requests = requests.Requests(client)

    async def change(self, changes: Sequence[buses.GuardedWrite]) -> list[buses.WriteOutcome]:
        """See `port.Claims`."""
        asked = [requests.Request(each.subject, each.payload, _headers_of(each)) for each in changes]
        try:
            with nats_server.Cancellable():
                answers = await self._requests.ask(asked, within_s=ANSWER_S)
        except (NatsError, TimeoutError, OSError):
            return [buses.WriteOutcome()] * len(changes)
        return [_changed(each) for each in answers]

    async def newest(self, subject: str) -> buses.Kept | None:
        """See `port.Claims`."""
        asked = requests.Request(_NEWEST, orjson.dumps({"last_by_subj": subject}))
        with nats_server.Translated(subject):
            (answer,) = await self._requests.ask([asked], within_s=ANSWER_S)
            if answer is None:
                raise TimeoutError
            found = direct_get.stored(answer.headers, answer.payload)
            if found is not None:
                return _kept(found)
            status = pull_consumer.status_of(answer.headers)
            if status is not None and status[0] == _NOT_FOUND:
                return None
            raise NatsError(f"{streams.CLAIMS} answers {' '.join(status or ('no message',))}")

    async def all(self) -> list[buses.Kept]:
        """See `port.Claims`."""
        with nats_server.Translated(streams.CLAIMS):
            read = direct_get.read(self._client, streams.CLAIMS, subjects.CLAIM_ALL)
            found = [_kept(message) async for message in read]
        # One that was replaced while this was read has come twice: the later one is the newer.
        return list({each.subject: each for each in found}.values())

    async def follow(self, handler: Callable[[buses.Kept], None]) -> buses.Subscription:
        """See `port.Claims`."""

        def take(_: str, headers: bytes, payload: bytes) -> None:
            found = direct_get.stored(headers, payload)
            if found is None:
                raise NatsError("a message without its subject and number in the stream")
            handler(_kept(found))

        return await self._subscribe(subjects.CLAIMED_ALL, take)


def _headers_of(change: buses.GuardedWrite) -> bytes:
    return (_EXPECTED % change.seq) + (_LASTS if change.lasts else b"")


def _changed(answer: "requests.Answer | None") -> buses.WriteOutcome:
    if answer is None:
        return buses.WriteOutcome()
    try:
        said = orjson.loads(answer.payload)
        failure = said.get("error")
        if failure is None:
            return buses.WriteOutcome(seq=int(said["seq"]))
        code = failure.get("err_code")
        newest = int(failure["description"].rpartition(" ")[2]) if code == _WRONG_LAST_SEQUENCE else None
        is_conflict = code in (_WRONG_LAST_SEQUENCE, _WRONG_LAST_SEQUENCE_CONSTANT)
        return buses.WriteOutcome(is_conflict=is_conflict, newest=newest)
    except (ValueError, TypeError, LookupError, AttributeError):
        # Not an answer of JetStream, as while the stream is being made.
        return buses.WriteOutcome()


def _kept(found: "direct_get.StoredMessage") -> buses.Kept:
    return buses.Kept(subject=found.subject, payload=found.payload, seq=found.seq)
