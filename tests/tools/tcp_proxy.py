"""A TCP proxy that can drop traffic silently, as a network policy does, or delay it, as a cable that is pulled does."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence


class Proxy:
    """Forwards bytes to a port of this machine while `is_open`; otherwise drops them and keeps connections open."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        # Each connection, with what is cleared while both of its directions wait.
        self._connections: dict[asyncio.Task[None], asyncio.Event] = {}
        self.is_open = True
        self.port = 0
        # Cleared: what the client sends (`to_target`), or receives (`to_client`), waits, as until TCP sends it again.
        self.to_target, self.to_client = asyncio.Event(), asyncio.Event()
        self.to_target.set()
        self.to_client.set()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Proxy"]:
        """Run the proxy at `port`."""
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            await self.end_connections()
            await server.wait_closed()

    async def end_connections(self) -> None:
        """End the connections of now; new ones are accepted."""
        await self._end(list(self._connections))

    @contextlib.asynccontextmanager
    async def one_server_silent(self) -> AsyncIterator[None]:
        """Be a load balancer one of whose servers stops: connections of now are silent, and end with the block."""
        held = dict(self._connections)
        for may in held.values():
            may.clear()
        try:
            yield
        finally:
            await self._end(list(held))

    @staticmethod
    async def _end(connections: Sequence[asyncio.Task[None]]) -> None:
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        own = asyncio.current_task()
        assert own is not None
        may = self._connections[own] = asyncio.Event()
        may.set()
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
            try:
                await asyncio.gather(
                    self._pass(reader, far_writer, self.to_target, may),
                    self._pass(far_reader, writer, self.to_client, may),
                )
            finally:
                far_writer.close()
        except (ConnectionError, asyncio.CancelledError):
            return
        finally:
            writer.close()
            del self._connections[own]

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *may: asyncio.Event
    ) -> None:  # fmt: skip
        while data := await reader.read(65536):
            for each in may:
                await each.wait()
            if self.is_open:
                writer.write(data)
                await writer.drain()
        writer.close()
