"""Bytes to plain values and back.

Whatever the bytes, the only exception that leaves this module is `MessageError`.
"""

import msgpack
import numpy as np
import orjson

from carico_core.domain import errors, messages
from carico_core.wire import fields

# Readers drop what is larger: messages.md, "Every message".
PAYLOAD_MAX_BYTES = 64 * 1024
# The model and the partials of aggregators carry many nodes; 1 MiB is also the server's own default max_payload.
MODEL_MAX_BYTES = 1024 * 1024
# A msgpack array reserves its stated length before it is read; nested 512 deep this bounds the waste to 64 MiB.
_ARRAY_MAX = 16_384


def parse_json(payload: bytes, *, maximum_bytes: int = PAYLOAD_MAX_BYTES) -> fields.Fields:
    """The fields of a JSON object. Raises `MessageError`."""
    _check_size(payload, maximum_bytes)
    try:
        values = orjson.loads(payload)
    except (ValueError, RecursionError, MemoryError) as error:
        raise errors.MessageError(errors.Drop.UNDECODABLE, "", f"not JSON: {fields.shown(str(error))}") from None
    return fields.Fields(values)


def parse_msgpack(payload: bytes, *, maximum_bytes: int = PAYLOAD_MAX_BYTES) -> fields.Fields:
    """The fields of a msgpack map. Raises `MessageError`."""
    _check_size(payload, maximum_bytes)
    try:
        values = msgpack.unpackb(payload, max_array_len=_ARRAY_MAX, max_map_len=_ARRAY_MAX)
    except (ValueError, TypeError, OverflowError, RecursionError, MemoryError, msgpack.UnpackException) as error:
        raise errors.MessageError(errors.Drop.UNDECODABLE, "", f"not msgpack: {fields.shown(str(error))}") from None
    return fields.Fields(values)


def format_json(values: dict[str, object]) -> bytes:
    """The JSON of an object; numpy numbers allowed."""
    return orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY)


def format_msgpack(values: dict[str, object]) -> bytes:
    """The msgpack of a map."""
    packed: bytes = msgpack.packb(values)
    return packed


def pack_array(array: messages.Array) -> dict[str, object]:
    """An array as its shape and its raw little-endian float64 bytes, in C order."""
    return {"shape": list(array.shape), "data": np.ascontiguousarray(array, dtype=fields.FLOAT64).tobytes()}


def _check_size(payload: bytes, maximum_bytes: int) -> None:
    if len(payload) > maximum_bytes:
        detail = f"got {len(payload)} bytes, expected at most {maximum_bytes}"
        raise errors.MessageError(errors.Drop.OVERSIZED, "", detail)
