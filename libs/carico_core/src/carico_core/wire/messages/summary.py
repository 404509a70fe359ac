"""Summaries of the cluster on `carico.v1.summary`: JSON, which people and the web page read."""

from typing import Annotated

import msgspec
from msgspec import Meta

from carico_core.domain import errors, messages
from carico_core.wire import codec, fields, schemas, subjects
from carico_core.wire.messages import elements

# An event has at most some 600 bytes, so that all of them fit into a payload.
EVENTS_MAX = 64
_STATES_MAX = 16
# A namespace, a slash and a name.
_About = Annotated[str, Meta(min_length=1, max_length=320)]
_Share = Annotated[float, Meta(ge=0.0, le=1.0)]


class _Event(msgspec.Struct, gc=False):
    at: elements.Int64
    kind: elements.Name
    about: _About
    # A word, or the name of a node.
    state: elements.ObjectName


class _Summary(elements.Message, kw_only=True, gc=False):
    span_s: elements.Quantity
    nodes: Annotated[dict[elements.Name, elements.Pods], Meta(max_length=_STATES_MAX)]
    # Sums over all nodes, to which the bounds of one node do not apply.
    pods: elements.Int64
    capacity: elements.Quantity
    capacity_sd: elements.Quantity
    usage: Annotated[dict[elements.Name, tuple[_Share, _Share, _Share]], Meta(max_length=fields.DIMS_MAX)]
    waiting: elements.Pods
    oldest_s: elements.Quantity
    placed: elements.Pods
    placed_waited_s: elements.Quantity
    events: Annotated[tuple[_Event, ...], Meta(max_length=EVENTS_MAX)]
    left_off: elements.Int64


_DECODER = schemas.Decoder(_Summary, is_json=True)


def encode_summary(found: messages.ClusterSummary) -> bytes:
    """Return the bytes of a summary; the last events are left off if there are too many."""
    events = found.events[:EVENTS_MAX]
    return codec.format_json(
        {
            **elements.format_header(boot=found.boot, seq=found.seq, ts_ns=found.ts_ns),
            "span_s": found.span_s,
            "nodes": dict(found.nodes),
            "pods": found.pods,
            "capacity": found.capacity,
            "capacity_sd": found.capacity_sd,
            "usage": {dim: list(each) for dim, each in found.usage.items()},
            "waiting": found.waiting,
            "oldest_s": found.oldest_s,
            "placed": found.placed,
            "placed_waited_s": found.placed_waited_s,
            "events": [
                {"at": each.at_ns, "kind": each.kind, "about": each.about, "state": each.state} for each in events
            ],
            "left_off": found.left_off + len(found.events) - len(events),
        }
    )


def decode_summary(payload: bytes, *, subject: str) -> messages.ClusterSummary:
    """Return the summary in `payload`. Raises `MessageError` if anything in it is wrong."""
    found = _DECODER.read(payload)
    elements.check_version(found)
    if subject != subjects.SUMMARY:
        detail = f"got {fields.shown(subject)}, expected {subjects.SUMMARY!r}"
        raise errors.MessageError(errors.Drop.FOREIGN_NODE, "subject", detail)
    elements.check_printable("usage", (*found.usage, *found.nodes))
    for each in found.events:
        elements.check_printable("events", (each.kind, each.about, each.state))
    return messages.ClusterSummary(
        boot=found.boot, seq=found.seq, ts_ns=found.ts, span_s=found.span_s, nodes=found.nodes, pods=found.pods,
        capacity=found.capacity, capacity_sd=found.capacity_sd,
        usage={dim: messages.Percentiles(*each) for dim, each in found.usage.items()},
        waiting=found.waiting, oldest_s=found.oldest_s, placed=found.placed, placed_waited_s=found.placed_waited_s,
        events=tuple([messages.ClusterEvent(each.at, each.kind, each.about, each.state) for each in found.events]),
        left_off=found.left_off,
    )  # fmt: skip
