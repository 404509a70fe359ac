"""gRPC health probes, against a real server of grpclib."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import grpclib
import grpclib.const
import grpclib.server

from carico_local.node import grpc_health, handlers

HOST = "127.0.0.1"


class Health:
    """Says of each service what it is told to."""

    def __init__(self, statuses: dict[bytes, int]) -> None:
        self._statuses = statuses

    def __mapping__(self) -> dict[str, grpclib.const.Handler]:
        handler = grpclib.const.Handler(self._check, grpclib.const.Cardinality.UNARY_UNARY, bytes, bytes)
        return {grpc_health.CHECK: handler}

    async def _check(self, stream: "grpclib.server.Stream[bytes, bytes]") -> None:
        asked = await stream.recv_message()
        found = self._statuses.get(asked or b"")
        if found == -1:
            # As grpc-go answers for a service that it does not have.
            raise grpclib.GRPCError(grpclib.const.Status.UNIMPLEMENTED, "unknown service")
        if found is None:
            raise grpclib.GRPCError(grpclib.const.Status.NOT_FOUND, "unknown service")
        await stream.send_message(bytes((8, found)) if found else b"")


@contextlib.asynccontextmanager
async def serving(service: Health) -> AsyncIterator[int]:
    server = grpclib.server.Server([service], codec=grpc_health.Raw())
    listener = socket.create_server((HOST, 0))
    await server.start(sock=listener)
    try:
        yield listener.getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


async def probe(port: int, service: str = "", *, timeout_s: float = 10.0) -> str | None:
    inside = handlers.Inside(address=HOST, env={}, cwd="/", procs=())
    return await handlers.perform(handlers.Grpc(port=port, service=service), inside, timeout_s=timeout_s)


async def test_a_service_that_serves_is_healthy_and_others_are_told_apart() -> None:
    statuses = {b"": 1, b"\n\x01a": 1, b"\n\x01b": 2, b"\n\x01c": 0}
    async with serving(Health(statuses)) as port:
        assert await probe(port) is None
        assert await probe(port, "a") is None
        assert await probe(port, "b") == 'service unhealthy (responded with "NOT_SERVING")'
        assert await probe(port, "c") == 'service unhealthy (responded with "UNKNOWN")'
        assert "NOT_FOUND" in (await probe(port, "d") or "")


async def test_a_server_without_the_protocol_is_told_so() -> None:
    async with serving(Health({b"": -1})) as port:
        said = await probe(port)
    assert said is not None
    assert said.startswith("error: this server does not implement the grpc health protocol")


async def test_nobody_there_and_somebody_who_speaks_otherwise() -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), HOST, 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        assert (await probe(port) or "").startswith("error: ")
    assert (await probe(port) or "").startswith(f'error: failed to connect service at "{HOST}:{port}"')


async def test_silence_is_a_failure_in_time() -> None:
    kept: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: kept.append(writer), HOST, 0)
    async with server:
        said = await probe(server.sockets[0].getsockname()[1], timeout_s=0.5)
        for writer in kept:
            writer.close()
            await writer.wait_closed()
    assert said == "timeout: health rpc did not complete within 0.5s"


def test_long_names_have_their_length_in_more_than_a_byte() -> None:
    assert grpc_health.encode("x" * 300) == b"\n\xac\x02" + b"x" * 300
