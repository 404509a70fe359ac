"""Fields of an API object by name; a wrong type raises `ValueError` with the field's path."""

from collections.abc import Callable, Mapping
from typing import Any, TypeGuard, TypeVar

Object = Mapping[str, Any]
T = TypeVar("T")


def mapping(obj: Object, key: str, path: str = "") -> Object:
    """Return the object at `key`; empty if there is none. Raises `ValueError`."""
    value = obj.get(key)
    if value is None:
        return {}
    if not _is_object(value):
        raise ValueError(f"{path}{key}: got {type(value).__name__}, expected an object")
    return value


def objects(obj: Object, key: str, path: str = "") -> list[Object]:
    """Return the list of objects at `key`; empty if there is none. Raises `ValueError`."""
    value = obj.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or not all(map(_is_object, value)):
        raise ValueError(f"{path}{key}: got {type(value).__name__}, expected a list of objects")
    return value


def texts(obj: Object, key: str, path: str) -> dict[str, str]:
    """Return the texts at `key` by name; empty if there is none. Raises `ValueError`."""
    values = mapping(obj, key, path)
    if not values:
        return {}
    return {name: optional(values, name, f"{path}{key}.") for name in values}


def optional(obj: Object, key: str, path: str = "") -> str:
    """Return the text at `key`; empty if there is none. Raises `ValueError`."""
    value = obj.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{path}{key}: got {type(value).__name__}, expected a string")
    return value


def required(obj: Object, key: str, path: str) -> str:
    """Return the text at `key`. Raises `ValueError`, also if it is empty."""
    text = optional(obj, key, path)
    if not text:
        raise ValueError(f"{path}{key}: missing")
    return text


def integer(obj: Object, key: str, path: str) -> int:
    """Return the integer at `key`; 0 if there is none. Raises `ValueError`."""
    value = obj.get(key)
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{path}{key}: got {value!r}, expected an integer")
    return value


def words(obj: Object, key: str, path: str = "") -> tuple[str, ...]:
    """Return the list of texts at `key`; empty if there is none. Raises `ValueError`."""
    value = obj.get(key)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"{path}{key}: got {type(value).__name__}, expected a list of strings")
    return tuple(value)


def condition(status: Object, kind: str) -> Object:
    """Return the condition of this type in a status; empty if there is none. Raises `ValueError`.

    >>> condition({"conditions": [{"type": "Ready", "status": "False"}]}, "Ready")["status"]
    'False'
    """
    for each in objects(status, "conditions", "status."):
        if each.get("type") == kind:
            return each
    return {}


def key_of(obj: Object) -> tuple[str, str]:
    """Return namespace and name of an object. Raises `ValueError`."""
    metadata = mapping(obj, "metadata")
    return required(metadata, "namespace", "metadata."), required(metadata, "name", "metadata.")


def parsed(path: str, parse: Callable[[T], float], value: T) -> float:
    """Return what `parse` makes of the value at `path`. Raises `ValueError` with the path."""
    try:
        return parse(value)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def is_ready(status: Object) -> bool:
    """Return True if the condition Ready is True. Raises `ValueError`."""
    return condition(status, "Ready").get("status") == "True"


def _is_object(value: object) -> TypeGuard[Object]:
    # JSON objects are dicts; checking for the abstract class takes six times as long.
    return type(value) is dict or isinstance(value, Mapping)
