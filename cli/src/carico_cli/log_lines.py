"""A line of a service's log as a person reads it."""

import datetime
from typing import Any

import click
import orjson

# Said in the front of a line, or of no use to who has asked for this one service's log.
_FRONT = frozenset({"service", "logger", "event", "level", "timestamp"})
_COLOURS = {"warning": "yellow", "error": "red", "critical": "red"}


def readable(line: str, *, coloured: bool) -> str:
    """Time of day (here), level, logger, what happened, and its fields; a line that is no JSON object as it is.

    >>> readable('{"logger":"s","placed":1,"event":"cycle","level":"info","timestamp":"?"}', coloured=False)
    '? info s: cycle  placed=1'
    """
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError:
        return line
    if not isinstance(found, dict) or "event" not in found:
        return line
    level = str(found.get("level", "info"))
    fields = "".join(f" {name}={_shown(value)}" for name, value in found.items() if name not in _FRONT)
    text = f"{_time(str(found.get('timestamp', '')))} {level} {found.get('logger', '-')}: {found['event']}"
    text += f" {fields}" if fields else ""
    # What others made us log must not move the cursor.
    text = "".join(each if each.isprintable() else "?" for each in text)
    return click.style(text, fg=_COLOURS[level]) if coloured and level in _COLOURS else text


def _time(stamp: str) -> str:
    try:
        moment = datetime.datetime.fromisoformat(stamp)
    except ValueError:
        return stamp
    return f"{moment.astimezone():%H:%M:%S.%f}"[:-3]


def _shown(value: Any) -> str:
    if isinstance(value, str) and value and value.isprintable() and not set(value) & {" ", '"'}:
        return value
    return orjson.dumps(value).decode()
