"""The connection of a client of NATS."""

import asyncio
import contextlib
import pathlib
import ssl
import urllib.parse
from collections.abc import Callable
from typing import Any

import pytest

from carico_core.runtime.bus import nats_client
from carico_core.runtime.process import tasks
from tests.tools.sites import security_site


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


@pytest.mark.parametrize("loop_factory", [tasks.fast_loop, asyncio.new_event_loop])
def test_an_encrypted_connection_makes_the_server_wait_and_ends_without_a_warning(
    loop_factory: Callable[[], asyncio.AbstractEventLoop], tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What is not read yet would fill the memory of the client."""
    folder = security_site.make_certificates(tmp_path, "localhost")
    for_server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    for_server.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    for_client = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    size, part = 64 * 2**20, 2**20

    async def main() -> tuple[bool, int]:
        is_sent = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await writer.start_tls(for_server)
            for _ in range(size // part):
                writer.write(bytes(part))
                await writer.drain()
            is_sent.set()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        transport: Any = nats_client._Patient()  # type: ignore[no-untyped-call]  # nats-py's transports have no types
        at = urllib.parse.urlparse(f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        await transport.connect(at, buffer_size=1024, connect_timeout=60)
        await transport.connect_tls("localhost", for_client, 1024, 60)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(is_sent.wait(), 1.0)
        waits, read = not is_sent.is_set(), 0
        while not transport.at_eof():
            read += len(await transport.read(part))
        transport.close()
        await transport.wait_closed()
        server.close()
        await server.wait_closed()
        return waits, read

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        assert runner.run(main()) == (True, size)
    assert [each.message for each in caplog.records if each.name == "asyncio"] == []
