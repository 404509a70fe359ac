"""The aggregator's answer to the query `recommend`: JSON, in pages; only what programs need of it."""

from typing import Annotated

import msgspec
from msgspec import Meta

from carico_core.domain import usage
from carico_core.wire import codec, fields, schemas
from carico_core.wire.messages import elements

_Word = Annotated[str, Meta(max_length=fields.NAME_MAX)]


class _Used(msgspec.Struct, gc=False):
    peak: elements.Quantity | None = None


class _Container(msgspec.Struct, gc=False):
    requests: elements.Amounts
    peaks: elements.Amounts
    cpu_bounds: tuple[elements.Quantity, elements.Quantity] | None


_Containers = Annotated[dict[elements.ContainerName, _Container], Meta(max_length=fields.CONTAINERS_MAX)]


class _Row(msgspec.Struct, kw_only=True, gc=False):
    name: elements.ClassName = msgspec.field(name="class")
    requests: elements.Amounts
    usage: Annotated[dict[elements.Name, _Used], Meta(max_length=fields.DIMS_MAX)]
    cpu_bounds: tuple[elements.Quantity, elements.Quantity] | None
    confidence: _Word
    flags: Annotated[list[_Word], Meta(max_length=fields.DIMS_MAX)]
    containers: Annotated[list[elements.ContainerName], Meta(max_length=fields.CONTAINERS_MAX)]
    running: elements.Int64
    measured_s: elements.Quantity
    since_ns: elements.Int64
    last_ns: elements.Int64
    requested: elements.Amounts
    priority_class: elements.PriorityClass
    has_deadline: bool
    crosses_namespaces: bool
    of_containers: _Containers
    node_gives: elements.Amounts = msgspec.field(default_factory=dict)


class _Page(msgspec.Struct, gc=False):
    classes: list[_Row]
    complete: bool


_PAGES = schemas.Decoder(_Page, is_json=True, maximum_bytes=codec.MODEL_MAX_BYTES)


def decode_recommended(payload: bytes) -> tuple[list[usage.Recommended], bool]:
    """Return the classes of a page, and whether it is the last one. Raises `MessageError`."""
    page = _PAGES.read(payload)
    elements.check_printable("classes[...].class", [row.name for row in page.classes])
    return [_read(row) for row in page.classes], page.complete


def _read(row: _Row) -> usage.Recommended:
    return usage.Recommended(
        name=row.name, requests=elements.known_amounts(row.requests),
        peaks={dim: used.peak for dim, used in row.usage.items() if used.peak is not None},
        cpu_bounds=row.cpu_bounds, confidence=row.confidence, flags=tuple(row.flags),
        containers=tuple(row.containers), running=row.running, measured_s=row.measured_s,
        requested=elements.known_amounts(row.requested), age_s=max(row.last_ns - row.since_ns, 0) / 1e9,
        priority_class=row.priority_class, has_deadline=row.has_deadline, crosses_namespaces=row.crosses_namespaces,
        node_gives=elements.known_amounts(row.node_gives),
        of_containers={
            name: usage.RecommendedContainer(
                requests=elements.known_amounts(each.requests), peaks=each.peaks, cpu_bounds=each.cpu_bounds
            )
            for name, each in row.of_containers.items()
        },
    )  # fmt: skip
