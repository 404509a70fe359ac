"""Read the fields of a decoded object one by one, each with checks; and the bounds that all messages share.

This module raises only `MessageError`, with the path of the bad field.
"""

import math
from typing import Any

from carico_core.domain import errors

INT64_MAX = 2**63 - 1
# Larger than any physical quantity on the bus (an exabyte is 1e18); its square does not overflow.
QUANTITY_MAX = 1e18
# More Pods than the largest cluster that Kubernetes supports (150,000): a plausibility limit, not a policy.
PODS_MAX = 1e6
DIMS_MAX = 32
NAME_MAX = 64
# A class is named after an owner: kind, namespace and name, each at most 253 characters.
CLASS_NAME_MAX = 800
CLASSES_MAX = 512
# The containers of a Pod in a message. The API has no such limit; Pods with more are rare.
CONTAINERS_MAX = 32
FLOAT64 = "<f8"
_MISSING = object()
_TEXT_SHOWN = 60


def shown(value: object) -> str:
    """Return a short, printable form of a value, safe for a log line."""
    text = repr(value)
    return shown_plain(text)


def shown_plain(text: str) -> str:
    """Return a text, cut to a length that suits a log line."""
    return text if len(text) <= _TEXT_SHOWN else text[:_TEXT_SHOWN] + "..."


class Fields:
    """One decoded object. Every method raises `MessageError` with the path of the field that is not as declared.

    Types are compared exactly (`type(x) is int`), because in Python a bool is an int, and must not count as a number.
    """

    __slots__ = ("_name", "_parent", "_values")

    def __init__(self, values: object, name: str = "", parent: "Fields | None" = None) -> None:
        self._name = name
        self._parent = parent
        if type(values) is not dict:
            detail = f"got {type(values).__name__}, expected an object"
            raise errors.MessageError(errors.Drop.WRONG_TYPE, self._own_path(), detail)
        self._values: dict[Any, Any] = values

    @property
    def raw(self) -> dict[Any, Any]:
        """The decoded object as it is, unchecked."""
        return self._values

    def path(self, name: object) -> str:
        """Return the path of a field of this object. It is built for errors only, which few messages have."""
        last = name[:_TEXT_SHOWN] if isinstance(name, str) else shown(name)
        own = self._own_path()
        return f"{own}.{last}" if own else last

    def fail(self, reason: errors.Drop, name: object, detail: str) -> errors.MessageError:
        """Return the error for a field; the caller raises it."""
        return errors.MessageError(reason, self.path(name), detail)

    def has(self, name: str) -> bool:
        """Return whether an optional field is present; null counts as absent."""
        return self._values.get(name) is not None

    def integer(self, name: str, *, maximum: int, minimum: int = 0) -> int:
        """Return a whole number within bounds."""
        value = self._values.get(name, _MISSING)
        if type(value) is not int:
            raise self._wrong_type(name, value, "a whole number")
        if not minimum <= value <= maximum:
            detail = f"got {shown(value)}, expected {minimum} to {maximum}"
            raise self.fail(errors.Drop.OUT_OF_RANGE, name, detail)
        return value

    def number(self, name: str, *, maximum: float, minimum: float = 0.0) -> float:
        """Return a finite number within bounds."""
        return self._number(name, self._values.get(name, _MISSING), minimum, maximum)

    def flag(self, name: str) -> bool:
        """Return True or False."""
        value = self._get(name)
        if type(value) is not bool:
            raise self._wrong_type(name, value, "true or false")
        return value

    def text(self, name: str, *, maximum: int, free: bool = False) -> str:
        """Return a text of bounded length; printable and not empty unless `free`."""
        return self._text(name, self._values.get(name, _MISSING), maximum, free)

    def texts(self, name: str, *, maximum: int, count: int) -> tuple[str, ...]:
        """Return at most `count` printable texts."""
        value = self._list(name, count)
        return tuple([self._text(name, item, maximum, False) for item in value])

    def number_map(self, name: str, *, maximum: float, minimum: float = 0.0) -> dict[str, float]:
        """Return dimension name -> finite number within bounds."""
        inner = self.fields(name)
        inner._check_names()
        return {key: inner._number(key, value, minimum, maximum) for key, value in inner._values.items()}

    def fields(self, name: str) -> "Fields":
        """Return an object inside this one."""
        return Fields(self._get(name), name, self)

    def objects(self, name: str, *, count: int) -> "list[Fields]":
        """Return at most `count` objects."""
        value = self._list(name, count)
        return [Fields(item, f"{name}[{index}]", self) for index, item in enumerate(value)]

    def dims(self, name: str) -> tuple[str, ...]:
        """Return the names of the dimensions in order: at least one, no duplicates."""
        dims = self.texts(name, maximum=NAME_MAX, count=DIMS_MAX)
        if not dims or len(set(dims)) != len(dims):
            raise self.fail(errors.Drop.OUT_OF_RANGE, name, f"got {shown(dims)}, expected 1 or more, each once")
        return dims

    def _get(self, name: object) -> Any:
        value = self._values.get(name, _MISSING)
        if value is _MISSING:
            raise self.fail(errors.Drop.MISSING_FIELD, name, "expected a value")
        return value

    def _list(self, name: str, count: int) -> list[Any]:
        value = self._get(name)
        if type(value) is not list:
            raise self._wrong_type(name, value, "a list")
        if len(value) > count:
            raise self.fail(errors.Drop.OUT_OF_RANGE, name, f"got {len(value)} items, expected at most {count}")
        return value

    def _number(self, name: str, value: object, minimum: float, maximum: float) -> float:
        if type(value) is float:
            number = value
        elif type(value) is int:
            number = float(value)
        else:
            raise self._wrong_type(name, value, "a number")
        if minimum <= number <= maximum:
            return number
        if not math.isfinite(number):
            raise self.fail(errors.Drop.NON_FINITE, name, f"got {number}, expected a finite number")
        raise self.fail(errors.Drop.OUT_OF_RANGE, name, f"got {number:.4g}, expected {minimum:.4g} to {maximum:.4g}")

    def _text(self, name: str, value: object, maximum: int, free: bool) -> str:
        if type(value) is not str:
            raise self._wrong_type(name, value, "a text")
        if len(value) > maximum or not (free or (value and value.isprintable())):
            detail = f"got {shown(value)}, expected at most {maximum} printable characters"
            raise self.fail(errors.Drop.OUT_OF_RANGE, name, detail)
        return value

    def _check_names(self) -> None:
        if len(self._values) > DIMS_MAX:
            detail = f"got {len(self._values)} names, expected at most {DIMS_MAX}"
            raise errors.MessageError(errors.Drop.OUT_OF_RANGE, self._own_path(), detail)
        for key in self._values:
            self._text(key, key, NAME_MAX, False)

    def _own_path(self) -> str:
        return self._name if self._parent is None else self._parent.path(self._name)

    def _wrong_type(self, name: object, value: object, expected: str) -> errors.MessageError:
        if value is _MISSING:
            return self.fail(errors.Drop.MISSING_FIELD, name, f"expected {expected}")
        return self.fail(errors.Drop.WRONG_TYPE, name, f"got {type(value).__name__}, expected {expected}")
