"""Checks whether a service is ready: cheap ones, repeated with growing pauses until they succeed."""

import asyncio
import dataclasses
import functools
import pathlib
import ssl
from typing import Protocol

# The first checks follow each other fast, for a quick start; later ones leave the CPU to the services.
FIRST_PAUSE_S = 0.02
LAST_PAUSE_S = 0.1
GROWTH = 1.3
ANSWER_TIMEOUT_S = 2.0


class Check(Protocol):
    """One check of a service."""

    async def why_not(self) -> str | None:
        """Return None where the service is ready, else what is missing."""
        ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Status and body of an HTTP answer."""

    status: int
    body: bytes


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Http:
    """Ready where GET 127.0.0.1:`port``path` returns 200; `tls`: over TLS, with any certificate."""

    port: int
    path: str = "/readyz"
    tls: bool = False

    async def why_not(self) -> str | None:
        """Return None for status 200, else the first line of the answer, or that nothing answers."""
        answer = await get(self.port, self.path, tls=unverified() if self.tls else None)
        if answer is None:
            return f"nothing answers on port {self.port}"
        if answer.status == 200:
            return None
        lines = answer.body.decode("utf-8", errors="replace").strip().splitlines()
        return lines[0] if lines else f"status {answer.status}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """Ready where the service has written a file."""

    path: pathlib.Path

    async def why_not(self) -> str | None:
        """Return None where the file exists, else a message."""
        # One stat of a local file costs less than a thread.
        return None if self.path.exists() else f"{self.path.name} is not written yet"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tcp:
    """Ready where a server accepts a connection."""

    port: int
    host: str = "127.0.0.1"

    async def why_not(self) -> str | None:
        """Return None where a server accepts a connection, else a message."""
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                _, writer = await asyncio.open_connection(self.host, self.port)
        except (OSError, TimeoutError):
            return f"nothing listens on {self.host}:{self.port}"
        writer.close()
        return None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Ready where a server sets up TLS, with any certificate: for one that answers only those who have another."""

    port: int

    async def why_not(self) -> str | None:
        """Return None where a server sets up TLS, else that nothing answers."""
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                _, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=unverified())
        except (OSError, TimeoutError):
            return f"nothing answers on port {self.port}"
        writer.close()
        return None


async def wait(probe: Check) -> None:
    """Wait until the check succeeds."""
    pause_s = FIRST_PAUSE_S
    while await probe.why_not() is not None:
        await asyncio.sleep(pause_s)
        pause_s = min(LAST_PAUSE_S, pause_s * GROWTH)


def forget(probe: Check) -> None:
    """Remove the ready file of an earlier process of the service."""
    if isinstance(probe, File):
        probe.path.unlink(missing_ok=True)


@functools.cache
def unverified() -> ssl.SSLContext:
    """Return TLS without verification, for a program on this machine with a self-signed certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def get(port: int, path: str, *, tls: ssl.SSLContext | None = None) -> Answer | None:
    """Return the answer of 127.0.0.1 to a GET; None where there is none in time.

    HTTP/1.0, so that the answer ends with the connection and is never chunked.
    """
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
            try:
                writer.write(f"GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n".encode())
                return _parse(await reader.read(-1))
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return None


def _parse(payload: bytes) -> Answer | None:
    head, separator, body = payload.partition(b"\r\n\r\n")
    words = head.split(None, 2)
    if not separator or len(words) < 2 or not words[1].isdigit():
        return None
    return Answer(status=int(words[1]), body=body)
