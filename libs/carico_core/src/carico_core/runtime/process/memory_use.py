"""Keep processes small and fast: do not load unused modules, return free memory, run the garbage collector rarely."""

import atexit
import contextlib
import gc
import sys
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pathlib

# By default the collector runs after 700 new objects. Our services' data has no cycles and is freed by reference
# counts. With 100,000 Pods, searching it for cycles took a fifth of a scheduler's intake time, and 10 to 20 % of a
# saturated aggregator's (`python -m bench scheduler aggregator`).
_THRESHOLDS = (50_000, 50, 100)
# https://man7.org/linux/man-pages/man3/mallopt.3.html
_M_MMAP_THRESHOLD = -3
# A column of 32,000 nodes is no larger.
_LARGE_BYTES = 256 * 1024


@contextlib.contextmanager
def hidden(*modules: str) -> Iterator[None]:
    """Make `modules` appear not to be installed, within the block.

    If they are installed, structlog always loads rich (5.5 MB) and greenlet (.2 MB), and nats-py loads aiohttp (9 MB).
    A module that is already loaded stays visible.
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

    It uses the latter only for its own version, at .8 MB (1.9 if nothing else loads email and zipfile). Instead,
    `installed_version` finds the version that it reports to servers.
    """
    with hidden("aiohttp", "importlib.metadata"):
        yield


@contextlib.contextmanager
def left_out(*modules: str) -> Iterator[None]:
    """Replace `modules`, within the block, by empty ones whose classes can be subclassed but not instantiated.

    For packages that also import a whole server or client that we do not use. A module that is already loaded stays.
    """
    absent = [module for module in modules if module not in sys.modules]
    sys.modules.update({module: _Empty(module) for module in absent})
    try:
        yield
    finally:
        for module in absent:
            sys.modules.pop(module, None)


def installed_version(distribution: str, package: "pathlib.Path") -> str | None:
    """Return the version of the installed distribution of a package; None if it cannot be determined.

    importlib.metadata would index everything that is installed. Names of folders:
    https://packaging.python.org/en/latest/specifications/recording-installed-packages/#the-dist-info-directory
    """
    start = f"{distribution.replace('-', '_')}-"
    found = [each.stem for each in package.parent.glob("*.dist-info") if each.name.startswith(start)]
    return found[0].removeprefix(start) if len(found) == 1 else None


@contextlib.contextmanager
def without_system_certificates() -> Iterator[None]:
    """Leave TLS contexts that this thread makes within the block without the system's certificates.

    aiohttp makes two when it is imported, which takes .06 s of CPU time and 2 MB. We pass it a context where it needs
    one.
    """
    # Imported here: `carico --help` imports this module, too.
    import ssl
    import threading

    importing, read = threading.get_ident(), ssl.SSLContext.set_default_verify_paths

    def skip(context: ssl.SSLContext) -> None:
        if threading.get_ident() != importing:
            read(context)

    ssl.SSLContext.set_default_verify_paths = skip  # type: ignore[assignment,method-assign]
    try:
        yield
    finally:
        ssl.SSLContext.set_default_verify_paths = read  # type: ignore[method-assign]


class _Empty(types.ModuleType):
    """A module in which every name is a class that cannot be instantiated."""

    def __getattr__(self, name: str) -> type:
        # Attributes of the import system, such as __path__, do not exist.
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"__module__": self.__name__, "__init__": _refuse})


def _refuse(self: object, *_: object, **__: object) -> None:
    raise ImportError(f"{type(self).__module__}.{type(self).__qualname__} is left out of this process")


@contextlib.contextmanager
def rare_collections() -> Iterator[None]:
    """Run the garbage collector rarely within the block.

    Programs import what they need within it: searching what imports create takes a twelfth of the CPU time of a start.
    """
    before = gc.get_threshold()
    gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def skip_last_collection() -> None:
    """Keep Python from searching all objects for garbage when this process ends: the system takes back all memory.

    The search takes a seventh of the CPU time of `carico status`.
    """
    atexit.register(gc.freeze)


def return_large_blocks() -> bool:
    """Return memory of large blocks to the system as soon as it is free; return whether the C library does that.

    Once glibc has freed a block of up to 32 MB, it takes others as large from its heap. Pages of a list then leave
    holes between small blocks that stay: 20 MB with 5,000 Nodes and 30,000 Pods, of which 7 cannot be returned later.
    """
    # Imported here, as below: only services call this, and `carico --help` imports this module, too.
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES))


def settle() -> bool:
    """Return free memory to the system, and exclude all current objects from garbage collection; return whether it did.

    Loading modules leaves free memory in pieces that glibc does not return by itself:
    https://man7.org/linux/man-pages/man3/malloc_trim.3.html. numpy has loaded ctypes anyway.
    """
    import ctypes

    gc.collect()
    gc.freeze()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    # Other C libraries (musl) do not have it.
    return trim is not None and bool(trim(0))
