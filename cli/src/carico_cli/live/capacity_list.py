"""The scheduler's `capacity.list`: a row for each node, in pages."""

import dataclasses
from collections.abc import Mapping

import orjson

from carico_cli.live import service_queries
from carico_core.domain import names
from carico_core.wire import codec, fields, subjects

SUBJECT = subjects.query("scheduler", "capacity.list")
# Each has 4,000 nodes: more than any cluster has, so that no answer keeps a reader busy without end.
PAGES_MOST = 64
# More than NATS delivers.
_PAGE_MAX_BYTES = 8 * 2**20
_PAGE_MAX_NODES = 50_000
_FREE_MAX = 1e12
# More than a scheduler serves.
_NAMES_MAX = 64


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A node as the scheduler lists it."""

    reserved: int
    free: float | None
    # None: an older scheduler does not report it.
    ready: bool | None
    schedulable: bool | None
    # Of its newest advertisement, by the scheduler's clock; None: it has received none.
    age_s: float | None
    seq: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page, and after which node the list goes on; None if it does not."""

    nodes: Mapping[str, Listed]
    # None: an older scheduler does not report them.
    scheduler_names: frozenset[str] | None
    next: str | None
    # When it was answered, by the scheduler's clock; None: an older one does not report it.
    ts_ns: int | None


def parse(payload: bytes) -> Page:
    """Return what a page states. Raises `MessageError` where it is malformed."""
    message = codec.parse_json(payload, maximum_bytes=_PAGE_MAX_BYTES)
    named = message.texts("names", maximum=names.SUBDOMAIN_MAX, count=_NAMES_MAX) if message.has("names") else None
    return Page(
        nodes=dict(map(_parse_row, message.objects("nodes", count=_PAGE_MAX_NODES))),
        scheduler_names=None if named is None else frozenset(named),
        next=message.text("next", maximum=names.SUBDOMAIN_MAX) if message.has("next") else None,
        ts_ns=message.integer("ts", maximum=fields.INT64_MAX) if message.has("ts") else None,
    )


async def ask(bus: service_queries.Bus, *, timeout_s: float) -> list[Page]:
    """Return all pages. Raises `BusError`, and `MessageError` where one is malformed."""
    return await following(bus, await bus.request(SUBJECT, b"", timeout_s=timeout_s), timeout_s=timeout_s)


async def following(bus: service_queries.Bus, first: bytes, *, timeout_s: float) -> list[Page]:
    """Return the first page, which was received, and all others. Raises as `ask` does."""
    pages = [parse(first)]
    while pages[-1].next is not None and len(pages) < PAGES_MOST:
        question = orjson.dumps({"after": pages[-1].next})
        pages.append(parse(await bus.request(SUBJECT, question, timeout_s=timeout_s)))
    return pages


def _parse_row(row: fields.Fields) -> tuple[str, Listed]:
    return row.text("node", maximum=names.SUBDOMAIN_MAX), Listed(
        reserved=row.integer("reserved", maximum=int(fields.PODS_MAX)),
        free=row.number("free", minimum=-_FREE_MAX, maximum=_FREE_MAX) if row.has("free") else None,
        ready=row.flag("ready") if row.has("ready") else None,
        schedulable=row.flag("schedulable") if row.has("schedulable") else None,
        age_s=row.number("age_s", minimum=-_FREE_MAX, maximum=_FREE_MAX) if row.has("age_s") else None,
        seq=row.integer("seq", maximum=fields.INT64_MAX) if row.has("seq") else 0,
    )
