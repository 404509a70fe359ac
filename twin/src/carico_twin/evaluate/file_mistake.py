"""A mistake in a file that a user gave."""

import math

from carico_core.domain import errors

# Enough to know a value by; a file may hold one of megabytes.
_SHOWN_CHARACTERS = 60


class FileMistake(errors.UserError):
    """Which file, where in it, what was got and expected: one line."""

    def __init__(self, file: str, path: str, *, got: object, expected: str) -> None:
        self.file = file
        self.path = path
        self.got = got
        self.expected = expected
        super().__init__(f"{file}, {path}: got {shown(got)}, expected {expected}")


def shown(value: object) -> str:
    """Return the beginning of a value, as one line.

    >>> shown([1] * 100)
    '[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1...'
    >>> shown(None)
    'nothing'
    """
    if value is None:
        return "nothing"
    try:
        text = repr(value)
    except ValueError:
        # Python writes no integer of more than 4300 digits; hexadecimal ones may be read.
        return "a number of thousands of digits"
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."


def as_number(value: object) -> float | None:
    """Return the finite number that a value is; None for any other, and for an integer that no float holds."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
