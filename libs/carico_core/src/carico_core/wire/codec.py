"""JSON objects without a schema, such as a query's answer, and how large a message may be.

Whatever the bytes, this module raises only `MessageError`. `schemas` decodes messages that have a schema; what reads
none does not import it.
"""

import orjson

from carico_core.domain import errors
from carico_core.wire import fields

# Readers drop larger messages.
PAYLOAD_MAX_BYTES = 64 * 1024
# Models and partials contain many nodes; 1 MiB is also the server's default max_payload.
MODEL_MAX_BYTES = 1024 * 1024


def parse_json(payload: bytes, *, maximum_bytes: int = PAYLOAD_MAX_BYTES) -> fields.Fields:
    """Return the fields of a JSON object that has no schema here, such as a query's answer. Raises `MessageError`."""
    check_size(payload, maximum_bytes)
    try:
        values = orjson.loads(payload)
    except (ValueError, RecursionError, MemoryError) as error:
        raise errors.MessageError(errors.Drop.UNDECODABLE, "", f"not JSON: {fields.shown(str(error))}") from None
    return fields.Fields(values)


def format_json(values: dict[str, object]) -> bytes:
    """Return the JSON of an object; numpy numbers are allowed."""
    return orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY)


def check_size(payload: bytes, maximum_bytes: int) -> None:
    """Raise `MessageError` if a payload is too large."""
    if len(payload) > maximum_bytes:
        detail = f"got {len(payload)} bytes, expected at most {maximum_bytes}"
        raise errors.MessageError(errors.Drop.OVERSIZED, "", detail)
