"""A TCP relay: from an address on a network to a server of this machine that listens only on loopback."""

import argparse
import asyncio
import contextlib
import sys

_CHUNK_BYTES = 65536


async def serve(host: str, port: int, to_port: int) -> asyncio.Server:
    """Return a running relay of `host`:`port` to 127.0.0.1:`to_port`. Raises `OSError` for an unusable address."""

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", to_port)
            await asyncio.gather(_pipe(reader, inner_writer), _pipe(inner_reader, writer))
        writer.close()

    return await asyncio.start_server(relay, host, port)


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until either side ends."""
    with contextlib.suppress(OSError):
        while data := await reader.read(_CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.close()


def main() -> int:
    """Run `python -m carico_local.kubelets.relay HOST PORT TO_PORT` until it is stopped."""
    parser = argparse.ArgumentParser(prog="python -m carico_local.kubelets.relay")
    parser.add_argument("host")
    parser.add_argument("port", type=int)
    parser.add_argument("to_port", type=int)
    chosen = parser.parse_args()

    async def run() -> None:
        server = await serve(chosen.host, chosen.port, chosen.to_port)
        async with server:
            await server.serve_forever()

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(run())
    return 0


if __name__ == "__main__":
    sys.exit(main())
