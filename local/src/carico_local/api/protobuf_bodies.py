"""Bodies in protobuf, of the kinds that kubectl creates by its typed client: that one writes nothing else.

Field numbers: generated.proto of k8s.io/api/{core,policy}/v1 and of k8s.io/apimachinery; the envelope:
https://kubernetes.io/docs/reference/using-api/api-concepts/#protobuf-encoding-idl. Answers stay JSON: it takes both.
"""

import base64
import dataclasses
from collections.abc import Mapping
from typing import Any

from carico_core.wire import protobuf
from carico_local.api import objects, statuses

CONTENT_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_KNOWN = "application/json", "application/yaml"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    """A field: text, bytes, bool or int, a message of `of`, or a map of texts or bytes."""

    name: str
    kind: str = "text"
    of: "Mapping[int, _Field]" = dataclasses.field(default_factory=dict)
    repeated: bool = False


_Message = Mapping[int, _Field]
_OWNER: _Message = {
    1: _Field(name="kind"), 3: _Field(name="name"), 4: _Field(name="uid"), 5: _Field(name="apiVersion"),
    6: _Field(name="controller", kind="bool"), 7: _Field(name="blockOwnerDeletion", kind="bool"),
}  # fmt: skip
# Times are the server's own.
_METADATA: _Message = {
    1: _Field(name="name"), 2: _Field(name="generateName"), 3: _Field(name="namespace"), 5: _Field(name="uid"),
    6: _Field(name="resourceVersion"), 11: _Field(name="labels", kind="map"),
    12: _Field(name="annotations", kind="map"), 14: _Field(name="finalizers", repeated=True),
    13: _Field(name="ownerReferences", kind="message", of=_OWNER, repeated=True),
}  # fmt: skip
_ABOUT = _Field(name="metadata", kind="message", of=_METADATA)
_PRECONDITIONS: _Message = {1: _Field(name="uid"), 2: _Field(name="resourceVersion")}
_DELETE_OPTIONS: _Message = {
    1: _Field(name="gracePeriodSeconds", kind="int"),
    2: _Field(name="preconditions", kind="message", of=_PRECONDITIONS), 3: _Field(name="orphanDependents", kind="bool"),
    4: _Field(name="propagationPolicy"), 5: _Field(name="dryRun", repeated=True),
}  # fmt: skip
_KINDS: dict[tuple[str, str], _Message] = {
    ("v1", "ConfigMap"): {
        1: _ABOUT, 2: _Field(name="data", kind="map"), 3: _Field(name="binaryData", kind="bytes_map"),
        4: _Field(name="immutable", kind="bool"),
    },
    ("v1", "Secret"): {
        1: _ABOUT, 2: _Field(name="data", kind="bytes_map"), 3: _Field(name="type"),
        4: _Field(name="stringData", kind="map"), 5: _Field(name="immutable", kind="bool"),
    },
    ("v1", "Namespace"): {1: _ABOUT},
    ("v1", "ServiceAccount"): {1: _ABOUT},
    ("policy/v1", "Eviction"): {1: _ABOUT, 2: _Field(name="deleteOptions", kind="message", of=_DELETE_OPTIONS)},
    ("v1", "DeleteOptions"): _DELETE_OPTIONS,
}  # fmt: skip
_TYPE: _Message = {1: _Field(name="apiVersion"), 2: _Field(name="kind")}
_ENVELOPE: _Message = {1: _Field(name="type", kind="message", of=_TYPE), 2: _Field(name="raw", kind="bytes")}


def parse(raw: bytes) -> objects.Object:
    """The object that a body holds; raises RequestFailed (400, 415)."""
    try:
        if not raw.startswith(_MAGIC):
            raise ValueError("it does not begin as Kubernetes' own does")
        envelope = _decode(raw[len(_MAGIC) :], _ENVELOPE)
        named = envelope.get("type", {})
        found = (str(named.get("apiVersion", "")), str(named.get("kind", "")))
        if found not in _KINDS:
            raise statuses.unsupported_media_type(f"{CONTENT_TYPE} of {' '.join(found)}", _KNOWN)
        return {**named, **_decode(envelope.get("raw", b""), _KINDS[found])}
    except ValueError as error:
        raise statuses.bad_request(f"the body is not protobuf: {error}") from error


def _decode(data: bytes, message: _Message) -> objects.Object:
    """The fields that are known. Texts that are empty are not there: Go writes every one."""
    decoded: objects.Object = {}
    for number, value in protobuf.fields(data):
        field = message.get(number)
        if field is None:
            continue
        if field.kind in ("map", "bytes_map"):
            key, held = _entry(_as_bytes(value), as_bytes=field.kind == "bytes_map")
            decoded.setdefault(field.name, {})[key] = held
            continue
        found = _value(value, field)
        if field.repeated:
            decoded.setdefault(field.name, []).append(found)
        elif found != "":
            decoded[field.name] = found
    return decoded


def _entry(data: bytes, *, as_bytes: bool) -> tuple[str, str]:
    """A map is a list of messages, each a key and a value; what is not there is empty."""
    held = {number: _as_bytes(value) for number, value in protobuf.fields(data)}
    value = held.get(2, b"")
    return held.get(1, b"").decode(), base64.b64encode(value).decode() if as_bytes else value.decode()


def _value(value: int | bytes, field: _Field) -> Any:
    if field.kind in ("bool", "int"):
        if not isinstance(value, int):
            raise ValueError(f"{field.name} is no number")
        # Two's complement of 64 bits.
        return bool(value) if field.kind == "bool" else value - (value >> 63 << 64)
    data = _as_bytes(value)
    if field.kind == "message":
        return _decode(data, field.of)
    return data if field.kind == "bytes" else data.decode()


def _as_bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number where bytes are expected")
    return value
