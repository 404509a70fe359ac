"""nats-py's client with TLS enforced, and nkeys by our own `bus.security.nkeys`.

nats-py continues in plain text where a server, or a man in the middle, does not ask for TLS, and sends its token then;
and it reads certificates once, though they are replaced more often than a service is started.
"""

import asyncio
import base64
import contextlib
import pathlib
import re
import ssl
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from carico_core.runtime.bus.security import refusals
from carico_core.runtime.process import memory_use

if TYPE_CHECKING:
    from carico_core.runtime.bus.security import nkeys

with memory_use.hidden_from_nats():
    from nats.aio import client as nats_client
    from nats.aio.client import Client as NatsClient
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription
    from nats.aio.transport import TcpTransport
    from nats.errors import Error as NatsError

# What the services framework asks (ADR-32).
_SERVICES = "$SRV."
PLAIN = "the server does not offer TLS, which the settings ask for"
NO_CERTIFICATE = "the server asks for a client certificate: CARICO_BUS_TLS_CERT and _KEY"
# Inboxes of clients and of servers, what NATS puts in place of an inbox of another account, and what a consumer's
# messages are acknowledged on.
INBOXES = (b"_INBOX.", b"$SYS._INBOX.", b"_R_.", b"$JS.ACK.")
# Questions of one kind that wait for their answer: what comes on top is dropped, and its asker asks again.
QUESTIONS_MOST = 256
# Questions to a service in a second. With more of them it listens to none for a while: the server sends everything in
# the order in which it came, and what is behind a flood would be late.
QUESTIONS_A_SECOND = 5_000
DEAF_S = 5.0
# What servers ask is not a service's: who may connect has to be answered.
_OF_SERVERS = "$SYS."
TOO_MANY = "questions come faster than they can be answered: some are dropped"
# How long a server may take what is still to be sent to it when the connection is closed.
CLOSE_MOST_S = 1.0
CLOSED = "the server closed the connection before it let us in: authorization is away, or refuses us"
# What a connection says of itself: `hidden_from_nats` keeps nats-py from finding out.
NATS_VERSION = memory_use.installed_version("nats-py", pathlib.Path(nats_client.__file__).parents[1])
if NATS_VERSION is not None:
    nats_client.__version__ = NATS_VERSION


# Subject, reply and headers as they came (empty where there are none), payload. Called in the loop; must not raise.
Sink = Callable[[str, str, bytes, bytes], None]


class Client(NatsClient):
    """A client. `make_tls`: makes the TLS context from its files for each handshake; None: TLS is not required.

    `shows_certificate`: whether that context holds a certificate of ours.
    """

    def __init__(
        self, make_tls: Callable[[], ssl.SSLContext] | None = None, *, shows_certificate: bool = True
    ) -> None:  # fmt: skip
        super().__init__()
        self._make_tls = make_tls
        self._shows_certificate = shows_certificate
        # By the number of their subscription.
        self._sinks: dict[int, Sink] = {}
        # Subscriptions to questions, and whether one was dropped.
        self._questions: dict[int, bool] = {}
        # Those that are not heard during a flood; when the second ends, how many it has had, and the pause.
        self._services: set[int] = set()
        self._second_ends_s = 0.0
        self._asked = 0
        self._deaf: asyncio.Task[None] | None = None

    async def subscribe(  # type: ignore[override]  # nats-py's further options pass through
        self, subject: str, queue: str = "", cb: Callable[[Msg], Awaitable[None]] | None = None, **more: Any
    ) -> Subscription:
        """Subscribe. A bounded number of questions waits for answers, and those leave time for other work."""
        if cb is None or not (queue or subject.startswith(_SERVICES)):
            return await super().subscribe(subject, queue=queue, cb=cb, **more)
        answer = cb

        async def on_question(message: Msg) -> None:
            await answer(message)
            # nats-py takes the next one at once: a flood of questions would stop all else until its end.
            await asyncio.sleep(0)

        found = await super().subscribe(subject, queue=queue, cb=on_question, **more)
        self._questions[found._id] = False
        if not subject.startswith(_OF_SERVERS):
            self._services.add(found._id)
        return found

    async def subscribe_raw(self, subject: str, sink: Sink) -> Subscription:
        """Hand each message to `sink` as it is parsed, across reconnects, without nats-py's queue and task."""
        found = await super().subscribe(subject)
        self._sinks[found._id] = sink
        return found

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        sink = self._sinks.get(sid)
        if sid in self._services and self._is_flood():
            return
        if sid in self._questions and self._subs[sid].pending_msgs >= QUESTIONS_MOST:
            if not self._questions[sid]:
                self._questions[sid] = True
                await self._error_cb(NatsError(TOO_MANY))
        elif sink is None:
            # A requester chooses where the answer goes, and the responder may publish there: to an inbox and nowhere
            # else, or a reader could have our answer stored in place of a node's report.
            wanted = reply if reply and reply.startswith(INBOXES) else b""
            try:
                await super()._process_msg(sid, subject, wanted, data, headers)
            except (ValueError, LookupError) as error:
                # Subjects, replies and headers may be any bytes: what nats-py cannot read would end its reading of all.
                await self._error_cb(NatsError(f"a message cannot be read: {error!r}"))
        else:
            self.stats["in_msgs"] += 1
            self.stats["in_bytes"] += len(data)
            sink(_text_of(subject), _text_of(reply), headers or b"", data)

    def _is_flood(self) -> bool:
        """Count a question to a service; return True if it is one too many."""
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._second_ends_s:
            self._second_ends_s, self._asked = now_s + 1.0, 0
        self._asked += 1
        if self._asked <= QUESTIONS_A_SECOND:
            return False
        if self._deaf is None or self._deaf.done():
            self._deaf = asyncio.create_task(self._pause_services())
        return True

    async def _pause_services(self) -> None:
        with contextlib.suppress(NatsError, OSError):
            for sid in tuple(self._services):
                await self._send_unsubscribe(sid)
            await self._error_cb(NatsError(TOO_MANY))
        await asyncio.sleep(DEAF_S)
        # A server ignores one that it has, such as after a reconnect.
        with contextlib.suppress(NatsError, OSError):
            for found in [self._subs[sid] for sid in self._services if sid in self._subs]:
                await self._send_subscribe(found)

    def _remove_sub(self, sid: int, max_msgs: int = 0) -> None:
        super()._remove_sub(sid, max_msgs)
        self._sinks.pop(sid, None)
        self._questions.pop(sid, None)
        self._services.discard(sid)

    @property
    def _shows_who_it_is(self) -> bool:
        """True with a key or a token. A name in the address may be one that the server has for everyone."""
        return bool(self._nkeys_seed or self._user_credentials or self.options.get("token"))

    @property
    def ssl_context(self) -> ssl.SSLContext:
        """The context of the next handshake."""
        return ssl.create_default_context() if self._make_tls is None else self._make_tls()

    def _connect_command(self) -> bytes:
        # The last step before who we are goes out; nats-py has made the handshake by now where the server asked for it.
        if self._make_tls is not None and not self._server_info.get("tls_required"):
            raise NatsError(PLAIN)
        # Its alert comes after the handshake (TLS 1.3), and is lost where what we send next meets a closed connection.
        if self._server_info.get("tls_verify") and not self._shows_certificate:
            raise NatsError(NO_CERTIFICATE)
        if self._shows_who_it_is and not self._server_info.get("auth_required"):
            raise NatsError(refusals.OPEN)
        return bytes(super()._connect_command())

    async def _connect_to_server(self, s: Any) -> None:
        if self._transport is None and s.uri.scheme in ("nats", "tls"):
            patient: Any = _Patient  # nats-py's transports have no types
            self._transport = patient()
        await super()._connect_to_server(s)

    async def _process_connect_init(self) -> None:
        try:
            await super()._process_connect_init()
            # A server that closed the connection in place of an answer, as one does whose callout is away: nats-py
            # takes it for a yes.
            if not self.is_connected:
                raise NatsError(CLOSED)
        except BaseException:
            self._drop()
            raise

    async def _close(self, status: int, do_cbs: bool = True) -> None:
        # What could not be sent goes with its connection: nats-py would write it, and raise where that is lost.
        self._pending, self._pending_data_size = [], 0
        if self._deaf is not None:
            self._deaf.cancel()
        await super()._close(status, do_cbs)

    def _drop(self) -> None:
        """End what a connection that came to nothing has left: nats-py replaces it, and closes neither."""
        # Of an older connection these would count the pings of the next one.
        for task in (self._reading_task, self._ping_interval_task, self._flusher_task):
            if task is not None:
                task.cancel()
        if not isinstance(self._transport, TcpTransport):
            return
        for name in ("_io_writer", "_bare_io_writer"):
            writer = getattr(self._transport, name, None)
            if writer is not None:
                writer.transport.abort()
        # nats-py would wait for ever for the closing of a connection whose TLS handshake failed (nats.py issue 718).
        self._transport = None

    def _setup_nkeys_seed_connect(self) -> None:
        # nats-py imports the nkeys package here, and keeps the public half of a key that is replaced.
        seed = pathlib.Path(str(self._nkeys_seed))

        def sign(nonce: str) -> bytes:
            signer = _signer(seed.read_text(encoding="ascii"))
            self._public_nkey = signer.public
            return base64.b64encode(signer.sign(nonce.encode()))

        self._signature_cb = sign

    def _setup_nkeys_jwt_connect(self) -> None:
        file = pathlib.Path(str(self._user_credentials))
        self._user_jwt_cb = lambda: _section(file, "NATS USER JWT").encode()
        self._signature_cb = lambda nonce: base64.b64encode(
            _signer(_section(file, "USER NKEY SEED")).sign(nonce.encode())
        )


class _Patient(TcpTransport):
    """A TCP transport whose lines, of which only connecting reads any, are without PINGs, and which closes in time.

    A server that asks a callout pings after 2 s, before it has answered; nats-py takes that for the answer.
    """

    async def connect_tls(self, *to: Any, **options: Any) -> None:
        """Encrypt the connection."""
        untyped: Any = super()
        await untyped.connect_tls(*to, **options)
        # asyncio does not call `connection_made` for a connection that it upgrades. Without it, the reader cannot make
        # the server wait, and the protocol does not know of TLS: asyncio would warn at each end of a connection that
        # half of it cannot stay open.
        writer: Any = self._io_writer
        protocol = writer.transport.get_protocol()
        # None: it has ended already.
        if protocol is not None:
            protocol.connection_made(writer.transport)

    async def readline(self) -> bytes:
        """Return the next line that is no PING; each of those is answered."""
        untyped: Any = super()
        while (line := bytes(await untyped.readline())).startswith(b"PING"):
            untyped.write(b"PONG\r\n")
        return line

    def writelines(self, payload: Any) -> None:
        """Write; raises `ConnectionResetError` if the connection is closed."""
        # uvloop raises RuntimeError, which ends nats-py's flusher, and comes out of whatever is sent next.
        if self._io_writer is None or self._io_writer.transport.is_closing():
            raise ConnectionResetError("the connection to the server is closed")
        super().writelines(payload)  # type: ignore[no-untyped-call]  # nats-py leaves it without types

    async def wait_closed(self) -> None:
        """Return once the connection is closed. A server that is frozen or cut off would never take what is left."""
        writer = self._io_writer
        if writer is None:
            return
        # Reconnecting and closing may both wait, and the end of one of them would cancel the future of the other.
        closing = asyncio.ensure_future(writer.wait_closed())
        closing.add_done_callback(lambda done: done.cancelled() or done.exception())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_MOST_S):
                await asyncio.shield(closing)
                return
        writer.transport.abort()

    def __bool__(self) -> bool:
        # nats-py replaces a transport that says it is none, as this one would before its first connection.
        return True


def _text_of(name: bytes) -> str:
    """Return a subject or a reply as text.

    The server takes any bytes for one. What is no UTF-8 matches no name of ours and is refused as such; raising here
    would end the reading of every subscription.
    """
    return name.decode(errors="replace")


def _section(file: pathlib.Path, name: str) -> str:
    """Return the text between `-----BEGIN <name>-----` and the end line of a NATS credentials file."""
    found = re.search(rf"-+BEGIN {name}-+\s+(\S+)\s+-+END", file.read_text(encoding="ascii"))
    if found is None:
        raise NatsError(f"{file} is no credentials file: it holds no {name}")
    return found[1]


def _signer(seed: str) -> "nkeys.Signer":
    # Most set-ups have no nkeys, and cryptography costs an agent memory.
    from carico_core.runtime.bus.security import nkeys

    try:
        return nkeys.Signer(seed.strip())
    except ValueError as error:
        # A file that is being replaced: another kind of error would end nats-py's reconnecting.
        raise NatsError(f"the seed that says who we are is {error}") from None
