"""The connection of a client of NATS."""

import asyncio
import urllib.parse
from typing import Any

import pytest

from carico_core.runtime.bus import nats_client
from carico_core.runtime.process import tasks


def test_a_closed_connection_refuses_what_is_sent_as_one_that_breaks() -> None:
    """Where uvloop raises RuntimeError, nats-py's flusher ended, and services with it."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        transport: Any = nats_client._Patient()  # type: ignore[no-untyped-call]  # nats-py's transports have no types
        at = urllib.parse.urlparse(f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        await transport.connect(at, buffer_size=1024, connect_timeout=60)
        transport.writelines([b"PING\r\n"])
        transport._io_writer.transport.abort()
        await asyncio.sleep(0)
        with pytest.raises(ConnectionResetError):
            transport.writelines([b"PING\r\n"])
        server.close()
        await server.wait_closed()

    with asyncio.Runner(loop_factory=tasks.fast_loop) as runner:
        runner.run(main())
