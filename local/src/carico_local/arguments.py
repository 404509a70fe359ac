"""Settings as a program of ours takes them on its command line."""

import sys
from collections.abc import Mapping


def flags(options: Mapping[str, object]) -> list[str]:
    """Return each setting as a flag: `--memory-bytes 1000`; True as a flag alone.

    >>> flags({"memory_bytes": 1000, "leave": True})
    ['--memory-bytes', '1000', '--leave']
    """
    found: list[str] = []
    for name, value in options.items():
        found += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    return found


def python(module: str, **options: object) -> tuple[str, ...]:
    """Return how a module of ours is started."""
    return (sys.executable, "-m", module, *flags(options))
