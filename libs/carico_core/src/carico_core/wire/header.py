"""What every message starts with: the version, who wrote it, since when, its number and its time."""

import dataclasses
import functools
import re
from collections.abc import Callable

from carico_core.domain import errors, messages
from carico_core.wire import fields, subjects

_BOOT = re.compile(r"[0-9a-f]{16}")


@dataclasses.dataclass(frozen=True, slots=True)
class Header:
    """Writer's start, number and wall-clock time of one message."""

    boot: str
    seq: int
    ts_ns: int


def format_header(*, boot: str, seq: int, ts_ns: int) -> dict[str, object]:
    """The fields that every message starts with."""
    return {"v": messages.SCHEMA_VERSION, "boot": boot, "seq": seq, "ts": ts_ns}


def parse_header(message: fields.Fields) -> Header:
    """The header of a message of this version. Raises `MessageError`."""
    version = message.integer("v", maximum=fields.INT64_MAX)
    if version != messages.SCHEMA_VERSION:
        detail = f"got {version}, expected {messages.SCHEMA_VERSION}"
        raise message.fail(errors.Drop.WRONG_VERSION, "v", detail)
    return parse_origin(message)


def parse_origin(message: fields.Fields) -> Header:
    """boot, seq and ts of a message or of an entry in one. Raises `MessageError`."""
    boot = message.text("boot", maximum=16)
    if not is_boot(boot):
        raise message.fail(errors.Drop.OUT_OF_RANGE, "boot", f"got {boot!r}, expected 16 hex digits")
    seq = message.integer("seq", maximum=fields.INT64_MAX)
    return Header(boot, seq, message.integer("ts", maximum=fields.INT64_MAX))


# A node states the same boot every second: what was looked at once is remembered, within bounds.
@functools.lru_cache(maxsize=65_536)
def is_boot(boot: str) -> bool:
    """True where this is the start of a writer: 16 hex digits."""
    return _BOOT.fullmatch(boot) is not None


def parse_writer(message: fields.Fields, name: str, subject: str) -> str:
    """The node or replica that wrote a message, which must be the one of its subject. Raises `MessageError`."""
    writer = message.text(name, maximum=253)
    try:
        expected = subjects.node_of(subject)
    except errors.BadName as error:
        raise message.fail(errors.Drop.BAD_NAME, name, str(error)) from None
    if writer != expected:
        detail = f"got {fields.shown(writer)}, expected {expected!r} as in the subject"
        raise message.fail(errors.Drop.FOREIGN_NODE, name, detail)
    return writer


def parse_name(message: fields.Fields, name: str, is_valid: Callable[[str], bool]) -> str:
    """A Kubernetes name. Raises `MessageError`."""
    value = message.text(name, maximum=253)
    if not is_valid(value):
        raise message.fail(errors.Drop.BAD_NAME, name, f"got {fields.shown(value)}, expected a Kubernetes name")
    return value
