"""What passes over the bus, whichever adapter carries it: `nats_bus`, or the one in memory of the tests.

`nats_bus.NatsBus` says what a bus does. Services declare the few methods they use as ports of their own.
"""

import dataclasses
import re
import urllib.parse
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from carico_core.runtime.process import settings

# (subject, payload). Called in the loop's thread; must not block.
Handler = Callable[[str, bytes], None]
Endpoint = Callable[[bytes], Awaitable[bytes]]
# Of every service: all packages are released together.
VERSION = "0.1.0"
ADDRESS = "an address such as nats://127.0.0.1:4222"
_SCHEMES = ("nats", "tls", "ws", "wss")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BusSettings:
    """How to reach NATS, and for how long what is said there holds."""

    url: str = settings.setting(
        "nats://127.0.0.1:4222", help="address of the NATS server, or several with commas; if not set: $NATS_URL"
    )  # fmt: skip
    lease_s: float = settings.setting(
        10.0, help="how long a node counts after its last message", unit="s", minimum=1.0, maximum=600.0,
        why="ten missed messages; a shorter lease forgets nodes at each hiccup",
    )  # fmt: skip
    copies: int = settings.setting(
        1, help="servers that keep each stream, set where streams are created", minimum=1, maximum=5,
        why="one server is enough for what can be rebuilt; three go on without a pause when one is lost",
    )  # fmt: skip
    credentials: str = settings.setting("", help="path of a NATS credentials file")
    nkey: str = settings.setting("", help="path of an nkey seed file")
    token_file: str = settings.setting("", help="path of a token, read at each connection", why="tokens rotate")
    tls_ca: str = settings.setting(
        "", help="path of the certificate authority of the server, read at each connection; empty: no TLS, "
        "or by the system's authorities where the address is tls://...",
        why="where TLS is asked for, a server that does not offer it is refused",
    )  # fmt: skip
    tls_cert: str = settings.setting("", help="path of the client's certificate")
    tls_key: str = settings.setting("", help="path of the client's key")
    inbox_prefix: str = settings.setting(
        "", help="prefix of the subjects on which answers come; empty: that of the service's role",
        why="a role may listen to its own inboxes only",
    )  # fmt: skip

    def __post_init__(self) -> None:
        # A client would try an address that is none without end.
        wrong = next((part for part in self.url.split(",") if not is_address(part)), None)
        if wrong is not None:
            raise ValueError(f"--bus-url (CARICO_BUS_URL, NATS_URL): got {shown(wrong)!r}, expected {ADDRESS}")


def is_address(text: str) -> bool:
    """Return whether a NATS client accepts the address; without a scheme it is host:port, as everywhere in NATS.

    >>> [is_address(text) for text in ("tls://nats:4222", "nats:4222", "nats:port", "nats:99999", "http://nats", "")]
    [True, True, False, False, False, False]
    """
    try:
        parsed = urllib.parse.urlsplit(text.strip() if "://" in text else f"nats://{text.strip()}")
        return parsed.scheme in _SCHEMES and bool(parsed.hostname) and parsed.port != 0
    except ValueError:
        # A port that is not a number or is out of range, or an unclosed bracket.
        return False


def shown(url: str) -> str:
    """Return addresses as they may stand in a log: without names and passwords."""
    # Up to the last @, as URLs are parsed: a password may contain one. An address may have no scheme.
    return re.sub(r"[^/,]*@", "", url)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What has gone over a connection since its process began."""

    in_messages: int = 0
    in_bytes: int = 0
    out_messages: int = 0
    out_bytes: int = 0
    reconnects: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What a stream holds."""

    stream: str
    messages: int
    size_bytes: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StoredPage:
    """(subject, payload) in the order in which they are stored, where those go on, and how many there are."""

    messages: list[tuple[str, bytes]]
    following_seq: int
    left: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What the bus holds, and how far the work queue is behind.

    pending: messages not delivered yet. unacknowledged: delivered to a replica that has not acknowledged them.
    redelivered: of those, given more than once.
    """

    streams: tuple[Stored, ...]
    pending: int
    unacknowledged: int
    redelivered: int


class Subscription(Protocol):
    """What `subscribe` gives."""

    async def unsubscribe(self) -> None:
        """End it; the handler is not called any more."""
        ...


class QueueItem(Protocol):
    """One message of the work queue; it comes again unless it is acknowledged or terminated."""

    @property
    def subject(self) -> str: ...

    @property
    def payload(self) -> bytes: ...

    async def term(self) -> None:
        """It is poison: never again."""
        ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSpec:
    """A service that answers questions. `node`: answer only those addressed to it.

    Instances of one `queue` share the questions, so that one that is frozen loses its part of them.
    """

    name: str
    description: str
    endpoints: Mapping[str, Endpoint]
    node: str | None = None
    # None: that of NATS's services framework.
    queue: str | None = None
    version: str = VERSION

    @property
    def short_name(self) -> str:
        """The name as it stands in subjects: `carico-agent` is `agent`."""
        return self.name.removeprefix("carico-")


class ServiceHandle(Protocol):
    """What `serve` gives."""

    async def close(self) -> None:
        """Answer no more."""
        ...


class Kept(NamedTuple):
    """The newest message of a subject in its stream, and its number there.

    This and the next two are named tuples, since each claim of a scheduler makes one of each.
    """

    subject: str
    payload: bytes
    seq: int


class GuardedWrite(NamedTuple):
    """A message that is stored only if the newest one of its subject has the number `seq` (0: there is none)."""

    subject: str
    payload: bytes
    seq: int
    # True: it does not leave the stream by its age.
    lasts: bool = False


class WriteOutcome(NamedTuple):
    """What became of a change: stored as number `seq`; refused, since the newest message is another one; or not known.

    `newest`: the number of that message, 0 if there is none, where the refusal names it. A change without an answer may
    have been stored.
    """

    seq: int | None = None
    is_conflict: bool = False
    newest: int | None = None


class Claims(Protocol):
    """The stream of claims: the newest message of each subject, changed by compare and set."""

    async def change(self, changes: Sequence[GuardedWrite]) -> list[WriteOutcome]:
        """Return what became of each change; all are sent at once, and each is stored or refused alone."""
        ...

    async def newest(self, subject: str) -> Kept | None:
        """Return the newest message of a subject; None if there is none. Raises `BusUnavailable`."""
        ...

    async def all(self) -> list[Kept]:
        """Return the newest claims of each node. Raises `BusUnavailable`."""
        ...

    async def follow(self, handler: Callable[[Kept], None]) -> Subscription:
        """Call `handler` with all claims that are stored from now on, and with none that was refused."""
        ...
