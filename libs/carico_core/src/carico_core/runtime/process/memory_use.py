"""What keeps a process small and quick: modules left out, memory given back, the garbage collector run seldom."""

import contextlib
import ctypes
import gc
import pathlib
import sys
import types
from collections.abc import Iterator

# By default it looks once there are 700 objects more. What our services take in makes no cycles and is freed by its
# counts; with 100,000 Pods known, looking through them for nothing took a fifth of the time of a scheduler's intake,
# and 10 to 20 % of that of an aggregator that takes in all it can (bench/scheduler.py, bench/aggregator.py).
_THRESHOLDS = (50_000, 50, 100)


@contextlib.contextmanager
def hidden(*modules: str) -> Iterator[None]:
    """Make `modules` look as if they were not installed, within the block.

    structlog loads rich (5.5 MB) and greenlet (.2 MB), nats-py loads aiohttp (9 MB), when they can be found, without a
    way to say no. A module that is loaded already stays visible.
    """
    absent = [module for module in modules if module not in sys.modules]
    # None in sys.modules makes an import raise ModuleNotFoundError: https://docs.python.org/3/reference/import.html
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]  # typeshed leaves this documented None out
    try:
        yield
    finally:
        for module in absent:
            sys.modules.pop(module, None)


@contextlib.contextmanager
def hidden_from_nats() -> Iterator[None]:
    """Keep nats-py from loading aiohttp (9 MB) and importlib.metadata, within the block.

    It asks the latter for its own version alone: .8 MB, 1.9 where nothing else brings email and zipfile. What it says
    to servers then is the version that `installed_version` finds.
    """
    with hidden("aiohttp", "importlib.metadata"):
        yield


@contextlib.contextmanager
def left_out(*modules: str) -> Iterator[None]:
    """Replace `modules`, within the block, by empty ones whose classes can be derived from but not instantiated.

    For a package that loads a whole server, or a client, besides the part that we use, and imports it at its start.
    A module that is loaded already is the real one.
    """
    absent = [module for module in modules if module not in sys.modules]
    sys.modules.update({module: _Empty(module) for module in absent})
    try:
        yield
    finally:
        for module in absent:
            sys.modules.pop(module, None)


def installed_version(distribution: str, package: pathlib.Path) -> str | None:
    """Return the version of the distribution that a package's folder was installed from; None: its folder does not say.

    importlib.metadata, which says it too, keeps an index of all that is installed. Names of folders:
    https://packaging.python.org/en/latest/specifications/recording-installed-packages/#the-dist-info-directory
    """
    start = f"{distribution.replace('-', '_')}-"
    found = [each.stem for each in package.parent.glob("*.dist-info") if each.name.startswith(start)]
    return found[0].removeprefix(start) if len(found) == 1 else None


class _Empty(types.ModuleType):
    """A module of which every name is a class that refuses to be made."""

    def __getattr__(self, name: str) -> type:
        # What the import system asks for, such as __path__, is not there.
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"__module__": self.__name__, "__init__": _refuse})


def _refuse(self: object, *_: object, **__: object) -> None:
    raise ImportError(f"{type(self).__module__}.{type(self).__qualname__} is left out of this process")


@contextlib.contextmanager
def seldom_looked_for() -> Iterator[None]:
    """Have the collector run seldom within the block."""
    before = gc.get_threshold()
    gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def settle() -> bool:
    """Return whether the C library gave free memory back; what lives now is not looked at by the collector again.

    Modules are read into memory that is free once they are loaded, in pieces too small for glibc to return by itself:
    https://man7.org/linux/man-pages/man3/malloc_trim.3.html. numpy has loaded ctypes anyway.
    """
    gc.collect()
    gc.freeze()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    # Other C libraries (musl) have none.
    return trim is not None and bool(trim(0))
