"""Kinds of setting values: how text becomes a value, and how error messages describe what is expected."""

import dataclasses
import enum
import math
import pathlib
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from carico_core.domain import names

_TRUE = frozenset({"true", "1", "yes", "on"})
_FALSE = frozenset({"false", "0", "no", "off"})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """How one setting is parsed and what it accepts."""

    noun: str
    convert: Callable[[str], Any]
    is_switch: bool = False
    optional: bool = False
    many: bool = False
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[Any, ...] | None = None

    def expected(self, unit: str) -> str:
        """Return what is accepted, in words: "a number from 1 to 100, in Hz"."""
        if self.choices is not None:
            words = "one of " + ", ".join(to_text(choice) for choice in self.choices)
            return f"{words}, separated by commas" if self.many else words
        low = "" if self.minimum is None else f" from {self.minimum:g}"
        high = "" if self.maximum is None else f" to {self.maximum:g}"
        if low and not high:
            low = f" of at least {self.minimum:g}"
        words = f"{self.noun}{low}{high}{f', in {unit}' if unit else ''}"
        return words + (", or nothing" if self.optional else "")

    def parse(self, text: str) -> Any:
        """Return the value. Raises `ValueError` with the nearest choice, or an empty text."""
        if self.optional and text == "":
            return None
        if self.many:
            return tuple(self._one(part.strip()) for part in text.split(",") if part.strip())
        return self._one(text)

    def _one(self, text: str) -> Any:
        try:
            value = self.convert(text)
        except (ValueError, KeyError):
            raise ValueError(self._nearest(text)) from None
        if self.choices is not None and value not in self.choices:
            raise ValueError(self._nearest(text))
        if isinstance(value, int | float) and not self._within(value):
            raise ValueError
        return value

    def _within(self, value: float) -> bool:
        low_ok = self.minimum is None or value >= self.minimum
        return low_ok and (self.maximum is None or value <= self.maximum)

    def _nearest(self, text: str) -> str:
        return next(iter(names.nearest(text, map(to_text, self.choices or ()), most=1)), "")


def kind_of(hint: Any, *, minimum: float | None, maximum: float | None, choices: tuple[Any, ...] | None) -> Kind:
    """Return the kind of a type hint: str, int, float, bool, Path, an Enum, a Literal, X | None, tuple[X, ...].

    Raises `TypeError` for other types: a programmer's mistake.
    """
    arguments = [argument for argument in typing.get_args(hint) if argument is not type(None)]
    origin = typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union) and len(arguments) == 1:
        inner = kind_of(arguments[0], minimum=minimum, maximum=maximum, choices=choices)
        return dataclasses.replace(inner, optional=True)
    if origin is tuple:
        inner = kind_of(arguments[0], minimum=minimum, maximum=maximum, choices=choices)
        return dataclasses.replace(inner, many=True, noun=f"{inner.noun}s separated by commas")
    if origin is typing.Literal:
        return Kind(noun="a word", convert=str, choices=choices or tuple(arguments))
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return Kind(noun="a word", convert=hint, choices=choices or tuple(hint))
    if hint not in _PLAIN:
        raise TypeError(f"settings cannot be of type {hint!r}")
    noun, convert = _PLAIN[hint]
    return Kind(noun=noun, convert=convert, is_switch=hint is bool, minimum=minimum, maximum=maximum, choices=choices)


def to_text(value: Any) -> str:
    """Return a value as a user would type it."""
    if value is None or value == "" or value == ():
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, enum.Enum):
        return str(value.value)
    if isinstance(value, tuple | list | frozenset):
        return ",".join(to_text(part) for part in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _switch(text: str) -> bool:
    if text.lower() in _TRUE | _FALSE:
        return text.lower() in _TRUE
    raise ValueError


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError
    return value


_PLAIN: dict[Any, tuple[str, Callable[[str], Any]]] = {
    str: ("text", str),
    int: ("a whole number", int),
    float: ("a number", _finite),
    bool: ("true or false", _switch),
    pathlib.Path: ("a path", pathlib.Path),
}


def flags(options: Mapping[str, object]) -> list[str]:
    """Return settings as the command-line flags that `settings.load` reads; True is a flag without a value.

    >>> flags({"memory_bytes": 1000, "leave": True, "closed": ("/a", "/b")})
    ['--memory-bytes', '1000', '--leave', '--closed', '/a,/b']
    """
    found: list[str] = []
    for name, value in options.items():
        text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        found += [f"--{name.replace('_', '-')}", *([] if value is True else [text])]
    return found
