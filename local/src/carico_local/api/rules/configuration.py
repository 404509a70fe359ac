"""ConfigMaps and Secrets: how they are stored, and their rules.

Sources: k8s.io/kubernetes/pkg/apis/core/validation/validation.go (ValidateConfigMap, ValidateSecret), and
pkg/apis/core/v1/conversion.go for stringData.
"""

import base64
import re
from collections.abc import Iterable

from carico_local.api.model import objects, statuses
from carico_local.api.rules import fields

# pkg/apis/core/types.go (MaxSecretSize); counts decoded values, not their base64.
_MOST_BYTES = 1024 * 1024
_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_KEY_MOST = 253
_KEY_RULE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  "
    "or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_KEY_REFERENCES = ("configMapKeyRef", "secretKeyRef")
_WHOLE_REFERENCES = ("configMapRef", "secretRef")


def settle(data: objects.Object) -> None:
    """Merge `stringData` into `data`, and drop empty fields, as in Go."""
    texts = data.pop("stringData", None) or {}
    if texts:
        encoded = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
        data["data"] = {**(data.get("data") or {}), **encoded}
    for field in ("data", "binaryData"):
        if not data.get(field, True):
            del data[field]


def config_map(data: objects.Object) -> fields.Causes:
    """Yield the rules that a ConfigMap violates."""
    texts, binaries = data.get("data") or {}, data.get("binaryData") or {}
    yield from _keys(texts, "data")
    for key in texts.keys() & binaries.keys():
        yield fields.wrong(f"data[{key}]", key, "duplicate of key present in binaryData")
    yield from _keys(binaries, "binaryData")
    total_bytes = sum(len(text.encode()) for text in texts.values()) + sum(map(_length, binaries.values()))
    if total_bytes > _MOST_BYTES:
        # The field path of the whole object.
        yield _too_long("[]")


def secret(data: objects.Object) -> fields.Causes:
    """Yield the rules that a Secret violates, of its keys and its size; those of types are left out."""
    values = data.get("data") or {}
    yield from _keys(values, "data")
    if sum(map(_length, values.values())) > _MOST_BYTES:
        yield _too_long("data")


def references(container: objects.Object, path: str) -> fields.Causes:
    """Yield the rules that a container's references to ConfigMaps and Secrets violate."""
    for index, entry in enumerate(container.get("env") or ()):
        source, here = entry.get("valueFrom") or {}, f"{path}.env[{index}].valueFrom"
        for kind in _KEY_REFERENCES:
            if kind in source and not source[kind].get("key"):
                yield fields.required(f"{here}.{kind}.key")
        if source and entry.get("value"):
            yield fields.wrong(here, "", "may not be specified when `value` is not empty")
        if len(source) > 1:
            yield fields.wrong(here, "", "may not have more than one field specified at a time")
    for index, entry in enumerate(container.get("envFrom") or ()):
        for kind in _WHOLE_REFERENCES:
            if kind in entry and not entry[kind].get("name"):
                yield fields.required(f"{path}.envFrom[{index}].{kind}.name")


def changed(old: objects.Object, new: objects.Object) -> fields.Causes:
    """Yield forbidden changes of an immutable ConfigMap or Secret."""
    if old.get("type") != new.get("type"):
        yield fields.wrong("type", new.get("type", ""), "field is immutable")
    if not old.get("immutable"):
        return
    rule = "field is immutable when `immutable` is set"
    if not new.get("immutable"):
        yield fields.forbidden("immutable", rule)
    for field in ("data", "binaryData"):
        if old.get(field) != new.get(field):
            yield fields.forbidden(field, rule)


def _keys(named: Iterable[str], field: str) -> fields.Causes:
    for key in named:
        path = f"{field}[{key}]"
        if len(key) > _KEY_MOST:
            yield fields.wrong(path, key, f"must be no more than {_KEY_MOST} characters")
        if not _KEY.fullmatch(key):
            yield fields.wrong(path, key, _KEY_RULE)
        if key in (".", ".."):
            yield fields.wrong(path, key, f"must not be '{key}'")
        elif key.startswith(".."):
            yield fields.wrong(path, key, "must not start with '..'")


def _too_long(field: str) -> statuses.Cause:
    message = f"Too long: may not be more than {_MOST_BYTES} bytes"
    return statuses.Cause(reason="FieldValueTooLong", message=message, field=field)


def _length(encoded: str) -> int:
    """Return the number of bytes that base64 encodes."""
    return len(encoded) // 4 * 3 - encoded.count("=")
