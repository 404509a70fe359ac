"""Asks a server of gRPC's health protocol, by grpclib: the one question a kubelet's grpc probe has.

The two messages have a field each and are written and read here by hand.

Source: grpc/health/v1/health.proto, kubernetes/pkg/probe/grpc/grpc.go.
"""

from typing import Any

import grpclib
import grpclib.client
import grpclib.const
import grpclib.encoding.base
import grpclib.exceptions
import h2.exceptions

from carico_core.wire import protobuf

CHECK = "/grpc.health.v1.Health/Check"
SERVING = 1
_STATUSES = {0: "UNKNOWN", SERVING: "SERVING", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}
# Field 1, varint: `status` of the answer.
_STATUS_TAG = 0x08


class Raw(grpclib.encoding.base.CodecBase):
    """Messages pass as the bytes they are."""

    __content_subtype__ = "proto"

    def encode(self, message: Any, message_type: Any) -> bytes:
        """The message itself."""
        return bytes(message)

    def decode(self, data: bytes, message_type: Any) -> Any:
        """The bytes themselves."""
        return bytes(data)


async def check(host: str, port: int, service: str) -> str | None:
    """None where the server says that the service is SERVING, else why not, as the kubelet says it."""
    channel = grpclib.client.Channel(host, port, codec=Raw())
    try:
        async with channel.request(CHECK, grpclib.const.Cardinality.UNARY_UNARY, bytes, bytes) as stream:
            await stream.send_message(encode(service), end=True)
            answer = await stream.recv_message()
    except grpclib.exceptions.GRPCError as error:
        if error.status is grpclib.const.Status.UNIMPLEMENTED:
            kept = "this server does not implement the grpc health protocol (grpc.health.v1.Health)"
            return f"error: {kept}: {error.message or ''}"
        return f"error: health rpc probe failed: code = {error.status.name} desc = {error.message or ''}"
    except OSError as error:
        return f'error: failed to connect service at "{host}:{port}": {error.strerror or error}'
    except (grpclib.exceptions.ProtocolError, grpclib.exceptions.StreamTerminatedError, h2.exceptions.H2Error) as error:
        return f"error: health rpc probe failed: {error!r}"
    finally:
        channel.close()
    found = status(answer or b"")
    return None if found == SERVING else f'service unhealthy (responded with "{_STATUSES.get(found, str(found))}")'


def encode(service: str) -> bytes:
    """A HealthCheckRequest.

    >>> encode("a"), encode("")
    (b'\\n\\x01a', b'')
    """
    return protobuf.encode_text(1, service) if service else b""


def status(answer: bytes) -> int:
    """The status of a HealthCheckResponse; 0, UNKNOWN, where it says none. Statuses are below 128: one byte.

    >>> status(bytes((8, 1))), status(b"")
    (1, 0)
    """
    return answer[1] if len(answer) >= 2 and answer[0] == _STATUS_TAG else 0
