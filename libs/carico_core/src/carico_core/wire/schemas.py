"""Bytes to typed messages and back; msgspec checks types and bounds while it decodes.

Whatever the bytes, this module raises only `MessageError`, with the path of the bad field.
"""

import math
import re
from typing import Any, Generic, TypeVar

import msgpack
import msgspec

from carico_core.domain import errors, messages
from carico_core.wire import codec, fields

_Schema = TypeVar("_Schema", bound=msgspec.Struct)
# How msgspec ends an error message: " - at `$.usage[...]`", or " - at `key` in `$.usage`" for a bad key.
_PLACE = re.compile(r"(?P<what>.*?)(?: - at (?:`key` in )?`\$\.?(?P<path>[^`]*)`)?", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<name>\w+)`")
_STEP = re.compile(r"(\w+)|\[(\d+)\]|(\[\.\.\.\])")


class Decoder(Generic[_Schema]):
    """Decodes messages of one kind; unknown fields are ignored."""

    def __init__(
        self, schema: type[_Schema], *, is_json: bool = False, maximum_bytes: int = codec.PAYLOAD_MAX_BYTES
    ) -> None:  # fmt: skip
        self._maximum_bytes = maximum_bytes
        self._decode = (msgspec.json.Decoder(schema) if is_json else msgspec.msgpack.Decoder(schema)).decode
        self._decode_plain = msgspec.json.decode if is_json else msgspec.msgpack.decode

    def read(self, payload: bytes) -> _Schema:
        """Return the message in `payload`. Raises `MessageError`."""
        codec.check_size(payload, self._maximum_bytes)
        try:
            return self._decode(payload)
        except (ValueError, RecursionError, MemoryError) as error:
            raise self._translated(error, payload) from None

    def _translated(self, error: Exception, payload: bytes) -> errors.MessageError:
        # Decode again without a schema to see what the message contains. Only refused messages cost this.
        try:
            tree = self._decode_plain(payload)
        except (ValueError, RecursionError, MemoryError):
            return errors.MessageError(errors.Drop.UNDECODABLE, "", fields.shown(str(error)))
        version = tree.get("v") if isinstance(tree, dict) else None
        if type(version) is int and version != messages.SCHEMA_VERSION:
            return wrong_version(version)
        return _refusal(str(error), tree)


def wrong_version(version: int) -> errors.MessageError:
    """Return the error for a message with another version."""
    return errors.MessageError(errors.Drop.WRONG_VERSION, "v", f"got {version}, expected {messages.SCHEMA_VERSION}")


def format_msgpack(values: dict[str, object]) -> bytes:
    """Return the msgpack of a map."""
    packed: bytes = msgpack.packb(values)
    return packed


def pack_array(array: messages.Array) -> dict[str, object]:
    """Return an array as its shape and its raw little-endian float64 bytes, in C order."""
    import numpy as np  # see `domain.messages.Array`

    return {"shape": list(array.shape), "data": np.ascontiguousarray(array, dtype=fields.FLOAT64).tobytes()}


def _refusal(reported: str, tree: Any) -> errors.MessageError:
    """Return the error for a decodable message, made from msgspec's error message."""
    place = _PLACE.fullmatch(reported)
    what, path = (reported, "") if place is None else (place["what"], place["path"] or "")
    missing = _MISSING.fullmatch(what)
    if missing is not None:
        whole = f"{path}.{missing['name']}" if path else missing["name"]
        return errors.MessageError(errors.Drop.MISSING_FIELD, whole, "expected a value")
    got = _at(tree, path)
    if any(type(value) is float and not math.isfinite(value) for value in got):
        return errors.MessageError(errors.Drop.NON_FINITE, path, "got a number that is not finite")
    expected = what[:1].lower() + what[1:]
    if "`, got `" in what:
        return errors.MessageError(errors.Drop.WRONG_TYPE, path, fields.shown_plain(expected))
    shown = f"got {fields.shown(got[0])}, " if len(got) == 1 and not isinstance(got[0], dict | list) else ""
    return errors.MessageError(errors.Drop.OUT_OF_RANGE, path, shown + fields.shown_plain(expected))


def _at(tree: Any, path: str) -> list[Any]:
    """Return the value at a path of msgspec's; several values if it contains `[...]`, any item of a map."""
    found = [tree]
    for name, index, any_item in _STEP.findall(path):
        if any_item:
            found = [item for value in found if isinstance(value, dict) for item in value.values()]
        elif index:
            found = [value[int(index)] for value in found if isinstance(value, list) and int(index) < len(value)]
        else:
            found = [value[name] for value in found if isinstance(value, dict) and name in value]
    return found
