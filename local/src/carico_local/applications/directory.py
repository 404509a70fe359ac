"""Which Pods a service has: from a server of the cluster's driver, or else by the name of the service in DNS.

Pods of emulated nodes have loopback addresses, which the API allows in no EndpointSlice, and nothing there carries a
Service's address. So the driver of a comparison follows the Pods and sends each client the addresses of those that are
ready and not about to end, in lines of JSON: `{"service": ["address", ...]}`. On other clusters, Services and DNS do.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Mapping, Sequence

import orjson

from carico_core.domain import errors

RETRY_S = 0.2
Table = Mapping[str, Sequence[str]]


class Directory:
    """The addresses of services. Without a table, the name of a service is its address."""

    def __init__(self, table: Table | None = None) -> None:
        self._table = table
        self._turn = itertools.count()
        self._changed = asyncio.Event()
        # Set once there are addresses: those of DNS, or the server's first table.
        self.known = asyncio.Event()
        if table is None:
            self.known.set()

    def pick(self, service: str) -> str | None:
        """Return the address of a Pod of a service, of several in turn; None if none is ready."""
        if self._table is None:
            return service
        found = self._table.get(service)
        return found[next(self._turn) % len(found)] if found else None

    def update(self, table: Table) -> None:
        """Replace all addresses."""
        self._table = table
        self.known.set()
        self._changed.set()
        self._changed = asyncio.Event()

    async def until_left(self, address: str, *, most_s: float) -> None:
        """Wait until no service has an address, at most so long: then clients send no further request to it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(most_s):
                while any(address in each for each in (self._table or {}).values()):
                    await self._changed.wait()

    async def follow(self, host: str, port: int) -> None:
        """Keep the table as the server has it, until cancelled. Without the server, the last table stays."""
        while True:
            with contextlib.suppress(OSError, ValueError):
                reader, writer = await asyncio.open_connection(host, port)
                try:
                    while line := await reader.readline():
                        self.update(orjson.loads(line))
                finally:
                    writer.close()
            await asyncio.sleep(RETRY_S)


class DirectoryServer:
    """Sends the table to every client, and again whenever it changes."""

    def __init__(self) -> None:
        self.table: Table = {}
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """The port it listens on."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def start(self) -> None:
        """Listen on a free port of loopback."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)

    def publish(self, table: Table) -> None:
        """Send a table to all clients if it has changed."""
        if table == self.table:
            return
        self.table = table
        for writer in self._writers:
            writer.write(_line(table))

    def close(self) -> None:
        """End all connections."""
        if self._server is not None:
            self._server.close()
        for writer in self._writers:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        writer.write(_line(self.table))
        try:
            with contextlib.suppress(OSError):
                # A client has nothing to say; what it sends is not kept.
                while await reader.read(1024):
                    pass
        finally:
            self._writers.discard(writer)
            writer.close()


def address(text: str) -> tuple[str, int]:
    """Return host and port. Raises `SettingsError`."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise errors.SettingsError(f"directory: got {text!r}, expected HOST:PORT with a port of 1 to 65535")
    return host, int(port)


def _line(table: Table) -> bytes:
    return orjson.dumps(table) + b"\n"
