"""Compilation by numba where it is installed; otherwise the same functions run in Python, some hundred times slower."""

import functools
import importlib
import importlib.util
import sys
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

IS_COMPILED = importlib.util.find_spec("numba") is not None


def compiled(function: F) -> F:
    """Compile `function` at its first call, and keep the machine code on disk (next to the module, or in ~/.cache).

    The function must not create arrays. numba notices a change of the function's own file only: functions that call
    each other, and constants that they read, belong into one module. Records from other modules are known by the types
    of their fields: after fields of one type have changed places, delete the cached code.
    """
    return _njit(function)


def inlined(function: F) -> F:
    """Compile `function` as a part of each compiled function that calls it.

    A call copies seven words or more for each array of its arguments. Where records of many arrays are passed, that
    takes longer than what most functions do with them.
    """
    return _njit(function, forceinline=True)


def reordered(function: F) -> F:
    """Compile `function` likewise, with sums in any order: several terms are added at once."""
    return _njit(function, forceinline=True, fastmath=True)


def _njit(function: F, **options: bool) -> F:
    if not IS_COMPILED:
        return function
    numba = _numba()
    try:
        # Without numba's runtime, references to arrays are not counted. Each call would change a counter for each array
        # in its arguments: three quarters of the time, where records of many arrays are passed.
        result: F = numba.njit(cache=True, _nrt=False, **options)(function)
    except RuntimeError:
        # No directory is writable, as in a container with a read-only root: compiled again by each process.
        result = numba.njit(_nrt=False, **options)(function)
    return result


@functools.cache
def _numba() -> Any:
    """Import numba, but not scipy.linalg.

    numba imports it with what it loads at the first call, to find out whether it could compile matrix products. There
    are none here, and to load machine code from disk would take half as long again.
    """
    numba = importlib.import_module("numba")
    absent: dict[str, Any] = {} if "scipy.linalg" in sys.modules else {"scipy.linalg": None}
    sys.modules.update(absent)
    try:
        importlib.import_module("numba.np.arraymath")
    finally:
        for name in absent:
            del sys.modules[name]
    return numba


def was_compiled(function: Callable[..., Any]) -> bool:
    """Return whether this process has compiled the function, rather than loaded it from disk."""
    stats = getattr(function, "stats", None)
    return stats is not None and not stats.cache_hits
