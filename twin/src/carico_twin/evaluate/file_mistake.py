"""A mistake in a file from a user, and its values, checked."""

import math
import re
from typing import Any, ClassVar

from carico_core.domain import errors

# Enough to recognise a value, and for a parser's complaint with its line; a file may contain one of megabytes.
_SHOWN_CHARACTERS = 100
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]{1,60}")


class FileMistake(errors.UserError):
    """One line: which file, where in it, what was got and what was expected."""

    def __init__(self, file: str, path: str, *, got: object, expected: str) -> None:
        self.file = file
        self.path = path
        self.got = got
        self.expected = expected
        super().__init__(f"{file}, {path}: got {shown(got)}, expected {expected}")


class Section:
    """A mapping in a file, with its path. A missing value is its default; without one, it is a mistake."""

    kind: ClassVar[str]
    mistake: ClassVar[type[FileMistake]]

    def __init__(self, file: str, path: str, values: object) -> None:
        self.file = file
        self.path = path
        if not isinstance(values, dict):
            raise self.wrong(path or "file", values, self.kind)
        self.values: dict[str, Any] = values

    def wrong(self, path: str, got: object, expected: str) -> FileMistake:
        """Return the mistake at a path."""
        return self.mistake(self.file, path, got=got, expected=expected)

    def at(self, key: str) -> str:
        """Return the path of a key."""
        # A quoted key can contain anything; the message must stay in one line.
        name = key if _BARE_KEY.fullmatch(key) else shown(key)
        return f"{self.path}.{name}" if self.path else name

    def take(self, key: str) -> Any:
        """Return a value as it is; None where it is missing."""
        return self.values.get(key)

    def number(self, key: str, default: float | None = None, *, least: float = 0.0, most: float = math.inf) -> float:
        """Return a finite number."""
        value = self.take(key)
        value = default if value is None else value
        number = as_number(value)
        if number is None or not least <= number <= most:
            bounds = f"from {least:g} to {most:g}" if math.isfinite(most) else f"of at least {least:g}"
            raise self.wrong(self.at(key), value, f"a number {bounds}")
        return number

    def optional_number(self, key: str, *, least: float, most: float = math.inf) -> float | None:
        """Return a finite number; None where it is missing."""
        return None if self.take(key) is None else self.number(key, least=least, most=most)

    def whole(self, key: str, default: int | None = None, *, least: int, most: int) -> int:
        """Return a whole number."""
        value = self.take(key)
        value = default if value is None else value
        if type(value) is not int or not least <= value <= most:
            raise self.wrong(self.at(key), value, f"a whole number from {least} to {most}")
        return value


def shown(value: object) -> str:
    """Return the beginning of a value in one line.

    >>> shown([1] * 100)
    '[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, ...'
    >>> shown(None)
    'nothing'
    """
    if value is None:
        return "nothing"
    try:
        text = repr(value)
    except ValueError:
        # Python does not print integers of more than 4300 digits, but reads hexadecimal ones.
        return "a number of thousands of digits"
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."


def as_number(value: object) -> float | None:
    """Return the value as a finite float; None if it is not a number, or too large for a float."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
