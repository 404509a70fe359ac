"""A NATS client without a library: it writes frames by hand, so that they may be malformed or hostile.

https://docs.nats.io/reference/reference-protocols/nats-protocol
"""

import base64
import contextlib
import dataclasses
import itertools
import json
import socket
import ssl
import time
from collections.abc import Iterator
from typing import Any

from carico_core.runtime.bus.security import nkeys
from tests.tools import waiting

CRLF = b"\r\n"
_READ_BYTES = 1 << 16
# Of a server whose clients here are read only now and then: by default, who answers no PING for six minutes is
# disconnected.
PATIENT = {"ping_interval": "1h"}


class Closed(Exception):
    """The server closed the connection; the argument is what it said before."""


@dataclasses.dataclass(frozen=True, slots=True)
class Message:
    """One message that came."""

    subject: str
    reply: str
    headers: bytes
    payload: bytes


class RawClient:
    """One connection. `messages` and `errors` hold what has come; reading happens in `settle` and `request` alone."""

    def __init__(self, port: int, *, tls: ssl.SSLContext | None = None) -> None:
        """Open the connection and read INFO; say nothing yet."""
        self.messages: list[Message] = []
        self.errors: list[str] = []
        self._pongs = 0
        self._numbers = itertools.count(1)
        self._buffer = bytearray()
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=waiting.WAIT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.info: dict[str, Any] = {}
        while not self.info:
            self._read()
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname="127.0.0.1")

    def wait_at_most(self, seconds: float) -> None:
        """Give up after this long where the server neither takes nor sends anything."""
        self._socket.settimeout(seconds)

    def connect(self, *, signer: nkeys.Signer | None = None, token: str | None = None, **more: Any) -> "RawClient":
        """Present credentials; return once the server has accepted them. Raises `Closed`, and is closed then."""
        try:
            self.send(self.connect_frame(signer=signer, token=token, **more))
            self.settle()
        except Closed:
            self.close()
            raise
        return self

    def connect_frame(self, *, signer: nkeys.Signer | None = None, token: str | None = None, **more: Any) -> bytes:
        """Return a CONNECT frame."""
        shown: dict[str, Any] = {}
        if signer is not None:
            signature = signer.sign(str(self.info["nonce"]).encode())
            # As nkeys are presented: base64 of URLs without padding.
            shown = {"nkey": signer.public, "sig": base64.urlsafe_b64encode(signature).decode().rstrip("=")}
        if token is not None:
            shown["auth_token"] = token
        stated = {
            "verbose": False, "pedantic": False, "lang": "raw", "version": "1", "protocol": 1, "headers": True,
            "no_responders": True, "echo": False, "name": "raw", **shown, **more,
        }  # fmt: skip
        return b"CONNECT " + json.dumps(stated).encode() + CRLF

    def send(self, frame: bytes) -> None:
        """Send any bytes. Raises `Closed`."""
        try:
            self._socket.sendall(frame)
        except TimeoutError as error:
            raise Closed(f"the server has taken nothing for {self._socket.gettimeout():g} s") from error
        except OSError as error:
            self._drain()
            raise Closed("; ".join(self.errors) or str(error)) from error

    def publish(
        self, subject: str | bytes, payload: bytes = b"", *, reply: str | bytes = b"", headers: bytes | None = None
    ) -> None:
        """Publish. `headers`: the lines of the block, each with its end, or the whole block from `NATS/1.0` on."""
        self.send(publish_frame(subject, payload, reply=reply, headers=headers))

    def subscribe(self, subject: str, *, queue: str = "") -> int:
        """Subscribe; return the number of the subscription."""
        number = next(self._numbers)
        self.send(f"SUB {subject} {queue + ' ' if queue else ''}{number}\r\n".encode())
        return number

    def settle(self) -> None:
        """Return once the server has processed all that was sent. Raises `Closed`."""
        wanted = self._pongs + 1
        self.send(b"PING\r\n")
        while self._pongs < wanted:
            self._read()

    def request(self, subject: str, payload: bytes = b"", *, inbox: str, within_s: float = waiting.WAIT_S) -> Message:
        """Return the answer of a service, with the inbox below a prefix of the role's own. Raises `TimeoutError`."""
        reply = f"{inbox}.{time.monotonic_ns()}"
        self.subscribe(f"{reply}")
        self.publish(subject, payload, reply=reply)
        return self.wait_for(reply, within_s=within_s)

    def wait_for(self, subject: str, *, within_s: float = waiting.WAIT_S) -> Message:
        """Return the first message of a subject, and forget it. Raises `TimeoutError`."""
        deadline_s = time.monotonic() + within_s
        while True:
            for index, message in enumerate(self.messages):
                if message.subject == subject:
                    return self.messages.pop(index)
            left_s = deadline_s - time.monotonic()
            if left_s <= 0.0:
                raise TimeoutError(f"no message of {subject} within {within_s:g} s; errors: {self.errors}")
            self._socket.settimeout(left_s)
            try:
                self._read()
            finally:
                self._socket.settimeout(waiting.WAIT_S)

    def taken(self) -> list[Message]:
        """Return what has come so far, once the server has processed all that was sent; and forget it."""
        self.settle()
        found, self.messages = self.messages, []
        return found

    def refused(self) -> list[str]:
        """Return the errors so far, once the server has processed all that was sent; and forget them."""
        self.settle()
        found, self.errors = self.errors, []
        return found

    def until_closed(self) -> str:
        """Return what the server said before it closed the connection."""
        with contextlib.suppress(Closed):
            while True:
                self._read()
        return "; ".join(self.errors)

    def close(self) -> None:
        """Close the connection at once."""
        self._socket.close()

    def __enter__(self) -> "RawClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _drain(self) -> None:
        with contextlib.suppress(Closed):
            while True:
                self._read()

    def _read(self) -> None:
        try:
            got = self._socket.recv(_READ_BYTES)
        except TimeoutError:
            raise
        except OSError as error:
            raise Closed("; ".join(self.errors) or str(error)) from error
        if not got:
            raise Closed("; ".join(self.errors) or "without a word")
        self._buffer += got
        for _ in self._frames():
            pass

    def _frames(self) -> Iterator[None]:
        while (end := self._buffer.find(CRLF)) >= 0:
            words = bytes(self._buffer[:end]).decode(errors="replace").split(" ")
            if words[0] in ("MSG", "HMSG"):
                size = int(words[-1])
                if len(self._buffer) < end + 2 + size + 2:
                    return
                body = bytes(self._buffer[end + 2 : end + 2 + size])
                del self._buffer[: end + 2 + size + 2]
                self._take(words, body)
            else:
                line = bytes(self._buffer[:end]).decode(errors="replace")
                del self._buffer[: end + 2]
                self._control(words[0], line)
            yield

    def _take(self, words: list[str], body: bytes) -> None:
        has_headers = words[0] == "HMSG"
        head = int(words[-2]) if has_headers else 0
        fixed = 5 if has_headers else 4
        reply = words[3] if len(words) > fixed else ""
        self.messages.append(Message(subject=words[1], reply=reply, headers=body[:head], payload=body[head:]))

    def _control(self, word: str, line: str) -> None:
        if word == "PING":
            with contextlib.suppress(OSError):
                self._socket.sendall(b"PONG\r\n")
        elif word == "PONG":
            self._pongs += 1
        elif word == "INFO":
            self.info = json.loads(line.removeprefix("INFO "))
        elif word == "-ERR":
            self.errors.append(line.removeprefix("-ERR ").strip("'"))


def publish_frame(
    subject: str | bytes, payload: bytes = b"", *, reply: str | bytes = b"", headers: bytes | None = None
) -> bytes:
    """Return a PUB or HPUB frame. `headers`: as in `RawClient.publish`."""
    to = b" ".join(filter(None, (_raw(subject), _raw(reply))))
    if headers is None:
        return b"PUB " + to + b" %d\r\n" % len(payload) + payload + CRLF
    block = headers if headers.startswith(b"NATS/1.0") else b"NATS/1.0\r\n" + headers + CRLF
    size = b" %d %d\r\n" % (len(block), len(block) + len(payload))
    return b"HPUB " + to + size + block + payload + CRLF


def decoded(text: str) -> bytes:
    """Return what JetStream's API states in base64."""
    return base64.b64decode(text)


def _raw(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()
