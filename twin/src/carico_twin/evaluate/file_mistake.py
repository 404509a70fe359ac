"""A mistake in a file from a user."""

import math

from carico_core.domain import errors

# Enough to recognise a value; a file may contain one of megabytes.
_SHOWN_CHARACTERS = 60


class FileMistake(errors.UserError):
    """One line: which file, where in it, what was got and what was expected."""

    def __init__(self, file: str, path: str, *, got: object, expected: str) -> None:
        self.file = file
        self.path = path
        self.got = got
        self.expected = expected
        super().__init__(f"{file}, {path}: got {shown(got)}, expected {expected}")


def shown(value: object) -> str:
    """Return the beginning of a value in one line.

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
