"""The types of the API, from the schema of the official client, and decoding by them.

kube-apiserver decodes a body into Go structs: unknown fields are dropped (with a warning, or an error if the client
asked for strict validation), a field with the wrong JSON type makes the request fail, times and quantities are
normalized. `kubernetes_schema.json` is written by local/tools/generate_kubernetes_schema.py.
"""

import base64
import binascii
import functools
import importlib.resources
import re
from collections.abc import Callable
from typing import Any

import orjson

from carico_core.domain import amounts
from carico_local.api.model import objects, statuses

REF_PREFIX = "#/components/schemas/"
# k8s.io/apimachinery/pkg/api/resource/quantity.go
_MICRO_TIME = re.compile(r"\.\d{6}(Z|[+-]\d\d:\d\d)$")
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_QUANTITY = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?")

_INT_LIMIT = 2**63

# Gets a value, its path and the list to which unknown fields are added; returns the value to be stored.
Decoder = Callable[[Any, str, list[str]], Any]


class _Undecodable(Exception):
    """A value that is invalid for its field; the message is that of Go's decoder."""


class _WrongType(_Undecodable):
    def __init__(self, path: str, got: object, expected: str) -> None:
        super().__init__(f"json: cannot unmarshal {_json_type(got)} into field {path.lstrip('.')} of type {expected}")


@functools.cache
def definitions() -> dict[str, dict[str, Any]]:
    """Return the OpenAPI v3 schema of every type of the API by its full name."""
    source = importlib.resources.files("carico_local.api.model").joinpath("kubernetes_schema.json")
    loaded: dict[str, dict[str, Any]] = orjson.loads(source.read_bytes())
    return loaded


def decode(definition: str, data: object) -> tuple[objects.Object, list[str]]:
    """Return the object to be stored, and the unknown fields; raise `RequestFailed` (400)."""
    unknown: list[str] = []
    kind = definition.rsplit(".", 1)[-1]
    try:
        decoded = _reference(definition)(data, "", unknown)
    except _Undecodable as error:
        raise statuses.Unreadable(f'{kind} in version "v1" cannot be handled as a {kind}: {error}') from error
    return decoded or {}, unknown


def _reference(definition: str) -> Decoder:
    def read(value: Any, path: str, unknown: list[str]) -> Any:
        return _compiled(definition)(value, path, unknown)

    return read


@functools.cache
def _compiled(definition: str) -> Decoder:
    fields = {name: _compile(schema) for name, schema in definitions()[definition]["properties"].items()}

    def read(value: Any, path: str, unknown: list[str]) -> Any:
        if not isinstance(value, dict):
            raise _WrongType(path, value, "object")
        decoded: objects.Object = {}
        for name, item in value.items():
            field = fields.get(name)
            if field is None:
                unknown.append(f"{path}.{name}".lstrip("."))
            elif item is not None:
                decoded[name] = field(item, f"{path}.{name}", unknown)
        return decoded

    return read


def _compile(schema: dict[str, Any]) -> Decoder:
    if "$ref" in schema:
        return _reference(schema["$ref"].removeprefix(REF_PREFIX))
    if schema.get("x-carico-quantity"):
        return _quantity
    if schema.get("format") == "int-or-string":
        return _int_or_string
    if schema.get("format") == "date-time":
        return _micro_time if schema.get("x-carico-micro-time") else _time
    if schema.get("format") == "byte":
        return _bytes
    if schema["type"] == "array":
        return _array(_compile(schema["items"]))
    if schema["type"] == "object":
        return _mapping(_compile(schema["additionalProperties"])) if "additionalProperties" in schema else _free_object
    return _SCALARS[schema["type"]]


def _array(item: Decoder) -> Decoder:
    def read(value: Any, path: str, unknown: list[str]) -> Any:
        if not isinstance(value, list):
            raise _WrongType(path, value, "array")
        return [item(entry, f"{path}[{index}]", unknown) for index, entry in enumerate(value)]

    return read


def _mapping(item: Decoder) -> Decoder:
    def read(value: Any, path: str, unknown: list[str]) -> Any:
        if not isinstance(value, dict):
            raise _WrongType(path, value, "object")
        return {key: item("" if entry is None else entry, f"{path}.{key}", unknown) for key, entry in value.items()}

    return read


def _scalar(kind: type, expected: str) -> Decoder:
    def read(value: Any, path: str, _unknown: list[str]) -> Any:
        # A bool is an int in Python, but not in JSON.
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise _WrongType(path, value, expected)
        if isinstance(value, int) and not -_INT_LIMIT <= value < _INT_LIMIT:
            raise _WrongType(path, value, "int64")
        return value

    return read


def _free_object(value: Any, path: str, _unknown: list[str]) -> Any:
    if not isinstance(value, dict):
        raise _WrongType(path, value, "object")
    return value


def _quantity(value: Any, path: str, _unknown: list[str]) -> str:
    text = str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
    if not isinstance(text, str):
        raise _WrongType(path, value, "quantity")
    if not _QUANTITY.fullmatch(text):
        raise statuses.Unreadable(
            f"{path.lstrip('.')}: quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$', got " + repr(text)
        )
    try:
        amounts.parse_quantity(text)
    except ValueError as error:
        raise statuses.Unreadable(f"{path.lstrip('.')}: {error}") from error
    return text


def _int_or_string(value: Any, path: str, _unknown: list[str]) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise _WrongType(path, value, "integer or string")
    return value


def _time(value: Any, path: str, _unknown: list[str]) -> str:
    return _moment(value, path)[:19] + "Z"


def _micro_time(value: Any, path: str, _unknown: list[str]) -> str:
    # Go's layout 2006-01-02T15:04:05.000000Z07:00 requires six digits (apimachinery/pkg/apis/meta/v1/micro_time.go).
    if not isinstance(value, str) or not _MICRO_TIME.search(value):
        raise _WrongType(path, value, "RFC 3339 time with six digits of a second")
    return _moment(value, path)


def _bytes(value: Any, path: str, _unknown: list[str]) -> str:
    """Normalize base64. Line ends in it are skipped, as by Go's encoding/base64."""
    if not isinstance(value, str):
        raise _WrongType(path, value, "[]uint8")
    text = value.replace("\r", "").replace("\n", "")
    try:
        return base64.b64encode(base64.b64decode(text, validate=True)).decode()
    except (binascii.Error, ValueError) as error:
        legal = _BASE64.match(text)
        raise _Undecodable(f"illegal base64 data at input byte {legal.end() if legal else 0}") from error


def _moment(value: Any, path: str) -> str:
    try:
        moment = objects.parse_timestamp(value)
    except (TypeError, ValueError) as error:
        raise _WrongType(path, value, "RFC 3339 time") from error
    return f"{moment:%Y-%m-%dT%H:%M:%S.%f}Z"


_SCALARS = {
    "string": _scalar(str, "string"),
    "integer": _scalar(int, "integer"),
    "boolean": _scalar(bool, "boolean"),
}


def _json_type(value: object) -> str:
    names: dict[type, str] = {dict: "object", list: "array", str: "string", bool: "bool", type(None): "null"}
    return names.get(type(value), "number")
