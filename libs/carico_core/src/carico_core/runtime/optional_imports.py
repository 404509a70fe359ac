"""Optional dependencies of our dependencies, kept out of small processes."""

import contextlib
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def hidden(*modules: str) -> Iterator[None]:
    """Nothing; within the block `modules` look as if they were not installed.

    structlog loads rich (5.5 MB) and nats-py loads aiohttp (9 MB) when they can be found, without a way to say no.
    A module that is loaded already stays visible.
    """
    absent = [module for module in modules if module not in sys.modules]
    # None in sys.modules makes an import raise ModuleNotFoundError: https://docs.python.org/3/reference/import.html
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]  # typeshed leaves this documented None out
    try:
        yield
    finally:
        for module in absent:
            sys.modules.pop(module, None)
