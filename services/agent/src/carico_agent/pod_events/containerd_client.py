"""containerd's gRPC API over its unix socket, by grpclib. The only importer of grpclib.

gRPC in pure Python (grpclib on h2) adds 4 MB to an agent, grpcio four times as much, and a node has few events.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import grpclib
import grpclib.client
import grpclib.const
import grpclib.encoding.base
import grpclib.exceptions
import h2.exceptions

from carico_agent.pod_events import containerd_wire as wire
from carico_core.domain import errors

EVENTS = "/containerd.services.events.v1.Events/Subscribe"
CONTAINER = "/containerd.services.containers.v1.Containers/Get"
CONTAINERS = "/containerd.services.containers.v1.Containers/ListStream"
TASKS = "/containerd.services.tasks.v1.Tasks/List"
_METADATA = {"containerd-namespace": wire.NAMESPACE}
# To list tasks, containerd queries each shim, for at most a second if one hangs.
ANSWER_WITHIN_S = 10.0

Cardinality = grpclib.const.Cardinality
Stream = grpclib.client.Stream[bytes, bytes]


class Away(errors.CaricoError):
    """containerd cannot be reached or has closed the connection; retrying may help."""


class Raw(grpclib.encoding.base.CodecBase):
    """A codec that leaves messages as bytes."""

    __content_subtype__ = "proto"

    def encode(self, message: Any, message_type: Any) -> bytes:
        """Return the message itself."""
        return bytes(message)

    def decode(self, data: bytes, message_type: Any) -> Any:
        """Return the bytes themselves."""
        return bytes(data)


class Client:
    """The calls of one connection. They raise `Away`, `EnvironmentUnfit` or `Malformed`."""

    def __init__(self, channel: grpclib.client.Channel) -> None:
        self._channel = channel

    @contextlib.asynccontextmanager
    async def subscribe(self) -> AsyncIterator[Callable[[], Awaitable[wire.Event | None]]]:
        """Return a function that waits for the next event; it returns None for an irrelevant one."""
        async with self._open(EVENTS, Cardinality.UNARY_STREAM) as stream:
            with _translated():
                await stream.send_message(wire.encode_subscribe(), end=True)
            yield lambda: _next_event(stream)

    async def container(self, name: str) -> wire.Container | None:
        """Return one container; None if it is gone."""
        with _translated():
            try:
                async with self._call(CONTAINER, wire.encode_get(name), Cardinality.UNARY_UNARY) as stream:
                    return wire.parse_container(await stream.recv_message() or b"")
            except grpclib.exceptions.GRPCError as error:
                if error.status is grpclib.const.Status.NOT_FOUND:
                    return None
                raise

    async def containers(self) -> list[wire.Container]:
        """Return the containers of Pods."""
        with _translated():
            async with self._call(CONTAINERS, wire.encode_list(), Cardinality.UNARY_STREAM) as stream:
                # One at a time: each message contains the whole OCI specification.
                return [wire.parse_container(message) async for message in stream]

    async def running(self) -> frozenset[str]:
        """Return the ids of the containers whose task runs."""
        with _translated():
            async with self._call(TASKS, b"", Cardinality.UNARY_UNARY) as stream:
                return wire.parse_running(await stream.recv_message() or b"")

    @contextlib.asynccontextmanager
    async def _call(self, path: str, request: bytes, cardinality: Cardinality) -> AsyncIterator[Stream]:
        async with asyncio.timeout(ANSWER_WITHIN_S), self._open(path, cardinality) as stream:
            await stream.send_message(request, end=True)
            yield stream

    def _open(self, path: str, cardinality: Cardinality) -> Stream:
        return self._channel.request(path, cardinality, bytes, bytes, metadata=_METADATA)


@contextlib.asynccontextmanager
async def connect(socket: str) -> AsyncIterator[Client]:
    """Return a client; it connects with its first call."""
    channel = grpclib.client.Channel(path=socket, codec=Raw())
    try:
        yield Client(channel)
    finally:
        channel.close()


async def _next_event(stream: Stream) -> wire.Event | None:
    with _translated():
        message = await stream.recv_message()
    if message is None:
        raise Away("containerd has closed its stream of events")
    return wire.parse_envelope(message)


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (
        grpclib.exceptions.GRPCError,
        grpclib.exceptions.StreamTerminatedError,
        grpclib.exceptions.ProtocolError,
        h2.exceptions.H2Error,
        OSError,  # and TimeoutError
        AssertionError,  # grpclib raises it for a truncated message
    ) as error:
        raise _translation(error) from error


def _translation(error: Exception) -> errors.CaricoError:
    if isinstance(error, grpclib.exceptions.GRPCError):
        if error.status is grpclib.const.Status.UNIMPLEMENTED:
            return errors.EnvironmentUnfit(
                f"the socket of --containerd-socket (CARICO_AGENT_CONTAINERD_SOCKET) answers, but is not containerd's: "
                f"{error.message}"
            )
        return Away(f"containerd answered {error.status.name}: {error.message}")
    return Away(f"containerd is away: {error or type(error).__name__}")
