"""A mistake in a file that a user gave."""

from carico_core.domain import errors


class FileMistake(errors.UserError):
    """Which file, where in it, what was got and expected: one line."""

    def __init__(self, file: str, path: str, *, got: object, expected: str) -> None:
        self.file = file
        self.path = path
        self.got = got
        self.expected = expected
        super().__init__(f"{file}, {path}: got {got!r}, expected {expected}")
