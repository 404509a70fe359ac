"""Structured logs on stderr: JSON in a Pod, readable on a terminal."""

import logging
import sys
from collections.abc import Hashable, MutableMapping
from typing import IO, Any, cast

import orjson

from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import memory_use

with memory_use.hidden("rich", "better_exceptions", "greenlet"):
    import structlog

Log = structlog.typing.FilteringBoundLogger

# Keys that a RateLimited remembers: a flood of invented node names must not grow it without limit.
RATE_LIMIT_KEYS = 4096


def setup(*, service: str, json: bool | None = None, level: str = "info", stream: IO[str] | None = None) -> None:
    """Have the loggers of this process, including those of libraries, write to stderr from now on.

    `json` None: JSON unless stderr is a terminal. Raises `ValueError` if the level is unknown.
    """
    numeric = logging.getLevelNamesMapping().get(level.upper())
    if numeric is None:
        raise ValueError(f"got log level {level!r}, expected debug, info, warning or error")
    out = sys.stderr if stream is None else stream
    as_json = not out.isatty() if json is None else json
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            _named,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *_renderers(service, as_json=as_json, colors=out.isatty()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(numeric),
        logger_factory=lambda *_: _Writer(out),
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    root.handlers[:] = [_Bridge()]
    # What libraries log at info is of use to their authors only.
    root.setLevel(max(numeric, logging.WARNING))


def get(name: str, **fields: Any) -> Log:
    """Return a logger whose lines contain `logger=name` and `fields`; `bind()` adds more."""
    return cast(Log, structlog.get_logger(log_name=name, **fields))


class RateLimited:
    """Warnings that others can cause: each key at most once in `every_s`, with the number of suppressed ones.

    Only the hash of a key is kept, since others choose how long a key is.
    """

    def __init__(self, log: Log, *, clock: clocks.Clock, every_s: float = 60.0) -> None:
        self._log = log
        self._clock = clock
        self._every_s = every_s
        self._logged: dict[int, tuple[float, int]] = {}

    def warning(self, key: Hashable, event: str, **fields: Any) -> None:
        """Log `event` unless the same key was logged within `every_s`."""
        now_s, known = self._clock.monotonic_s(), hash(key)
        last_s, left_out = self._logged.get(known, (-self._every_s, 0))
        if now_s - last_s < self._every_s:
            self._logged[known] = (last_s, left_out + 1)
            return
        # Newest last, so that the least recently logged key is evicted.
        self._logged.pop(known, None)
        self._logged[known] = (now_s, 0)
        if len(self._logged) > RATE_LIMIT_KEYS:
            del self._logged[next(iter(self._logged))]
        if left_out:
            fields["left_out"] = left_out
        self._log.warning(event, **fields)


class _Writer:
    """A structlog sink. A closed stderr must not end a service: what cannot be written is lost."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out

    def msg(self, message: str) -> None:
        try:
            self._out.write(message + "\n")
            self._out.flush()
        except (OSError, ValueError):
            return

    log = debug = info = warn = warning = error = critical = fatal = exception = failure = err = msg


class _Bridge(logging.Handler):
    """Writes records of the standard library's loggers as our own lines."""

    def emit(self, record: logging.LogRecord) -> None:
        exc_info = record.exc_info if record.exc_info and record.exc_info[0] else None
        get(record.name).log(record.levelno, record.getMessage(), **({"exc_info": exc_info} if exc_info else {}))


def _named(_: Any, __: str, event: MutableMapping[str, Any]) -> dict[str, Any]:
    # get_logger() reserves `logger`, so the name is passed as `log_name`.
    return {"logger": event.pop("log_name", ""), **event}


def _renderers(service: str, *, as_json: bool, colors: bool) -> list[Any]:
    if as_json:
        return [
            lambda _, __, event: {"service": service, **event},
            structlog.processors.dict_tracebacks,
            structlog.processors.JSONRenderer(serializer=_to_json),
        ]
    return [structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=structlog.dev.plain_traceback)]


def _to_json(event: dict[str, Any], **_: Any) -> str:
    return orjson.dumps(event, default=str, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS).decode()
