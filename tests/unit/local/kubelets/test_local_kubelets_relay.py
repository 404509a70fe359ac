"""The relay through which nodes reach a control plane on loopback."""

import asyncio

from carico_local.kubelets import relay


async def test_both_directions_pass_and_an_end_is_passed_on() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readexactly(5)).upper())
        await writer.drain()
        writer.close()

    inner = await asyncio.start_server(answer, "127.0.0.1", 0)
    outer = await relay.serve("127.0.0.1", 0, inner.sockets[0].getsockname()[1])
    reader, writer = await asyncio.open_connection("127.0.0.1", outer.sockets[0].getsockname()[1])
    writer.write(b"hello")
    assert await reader.read() == b"HELLO"
    writer.close()
    for server in (outer, inner):
        server.close()
        await server.wait_closed()


async def test_a_server_that_is_gone_ends_the_connection() -> None:
    inner = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0)
    port = inner.sockets[0].getsockname()[1]
    inner.close()
    await inner.wait_closed()
    outer = await relay.serve("127.0.0.1", 0, port)
    reader, writer = await asyncio.open_connection("127.0.0.1", outer.sockets[0].getsockname()[1])
    assert await reader.read() == b""
    writer.close()
    outer.close()
    await outer.wait_closed()
