"""Loads on `carico.v1.pods.<node>` and traffic on `carico.v1.traffic.<node>`: JSON, so that people can read them.

Both have lists in place of objects, since a node has hundreds of Pods and flows. A load is [place of the class in
`classes`, cores, waiting, memory], a flow [place of the Pod in `pods` or null, local address, local port, remote
address, remote port, sent, received].
"""

from collections.abc import Iterable, Sequence
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from carico_core.domain import errors, pod_telemetry
from carico_core.wire import codec, fields, schemas
from carico_core.wire.messages import elements

# As many as a roster has. A row of a load is about 60 bytes, one of a flow 90: less fit into a payload.
PODS_MAX = 1280
FLOWS_MAX = 2048
# A month; agents report every few seconds.
INTERVAL_MAX_S = 2_678_400.0
# Reasons for which readings are skipped: agents have five.
REASONS_MAX = 16
# Enough for tasks in thousandths.
_DIGITS = 3

_ClassPlace = Annotated[int, Meta(ge=0, lt=fields.CLASSES_MAX)]
_PodPlace = Annotated[int, Meta(ge=0, lt=PODS_MAX)]
# IPv4 or IPv6 in the kernel's notation; the longest has 45 characters.
_Address = Annotated[str, Meta(pattern=r"^[0-9a-f.:]+$", max_length=45)]
_Port = Annotated[int, Meta(ge=0, le=65_535)]
_Network = Annotated[str, Meta(pattern="^[0-9a-f]{0,32}$", max_length=32)]
_Row = TypeVar("_Row")


class _Load(msgspec.Struct, array_like=True, gc=False):
    place: _ClassPlace
    cores: elements.Quantity
    waiting: elements.Quantity
    memory: elements.Quantity


class _Loads(elements.Message, kw_only=True, gc=False):
    node: elements.ObjectName
    classes: Annotated[list[elements.ClassName], Meta(max_length=fields.CLASSES_MAX)]
    pods: Annotated[dict[elements.Uid, _Load], Meta(max_length=PODS_MAX)]
    left_out: elements.Pods = 0


class _Flow(msgspec.Struct, array_like=True, gc=False):
    pod: _PodPlace | None
    local: _Address
    local_port: _Port
    remote: _Address
    remote_port: _Port
    sent: elements.Int64
    received: elements.Int64


class _Traffic(elements.Message, kw_only=True, gc=False):
    node: elements.ObjectName
    interval_s: Annotated[float, Meta(ge=0.0, le=INTERVAL_MAX_S)]
    network: _Network
    pods: Annotated[list[elements.Uid], Meta(max_length=PODS_MAX)]
    flows: Annotated[list[_Flow], Meta(max_length=FLOWS_MAX)]
    left_out: elements.Int64 = 0
    skipped: Annotated[dict[elements.Name, elements.Int64], Meta(max_length=REASONS_MAX)] | None = None


_LOADS = schemas.Decoder(_Loads, is_json=True)
_TRAFFIC = schemas.Decoder(_Traffic, is_json=True)


def encode_loads(found: pod_telemetry.PodLoads) -> bytes:
    """Return the bytes of a report. Pods with the smallest load are left out if they exceed a payload."""
    largest = sorted(found.loads.items(), key=lambda item: (-item[1].tasks, item[0]))
    kept = largest[:PODS_MAX]
    while len(payload := _format_loads(found, kept)) > codec.PAYLOAD_MAX_BYTES:
        kept = _shortened(kept)
    return payload


def decode_loads(payload: bytes, *, subject: str) -> pod_telemetry.PodLoads:
    """Return the report in `payload`. Raises `MessageError` if anything in it is wrong."""
    found = _LOADS.read(payload)
    elements.check_version(found)
    elements.check_writer("node", found.node, subject)
    elements.check_printable("classes", found.classes)
    elements.check_printable("pods", found.pods)
    _check_places("pods", (load.place for load in found.pods.values()), found.classes)
    return pod_telemetry.PodLoads(
        node=found.node, boot=found.boot, seq=found.seq, ts_ns=found.ts, left_out=found.left_out,
        loads={
            uid: pod_telemetry.PodLoad(found.classes[load.place], load.cores, load.waiting, load.memory)
            for uid, load in found.pods.items()
        },
    )  # fmt: skip


def encode_traffic(found: pod_telemetry.PodTraffic) -> bytes:
    """Return the bytes of a report. The smallest flows are added to `left_out` if they exceed a payload."""
    kept = sorted(found.flows, key=lambda flow: -(flow.sent_bytes + flow.received_bytes))[:FLOWS_MAX]
    while len(payload := _format_traffic(found, kept)) > codec.PAYLOAD_MAX_BYTES:
        kept = _shortened(kept)
    return payload


def decode_traffic(payload: bytes, *, subject: str) -> pod_telemetry.PodTraffic:
    """Return the report in `payload`. Raises `MessageError` if anything in it is wrong."""
    found = _TRAFFIC.read(payload)
    elements.check_version(found)
    elements.check_writer("node", found.node, subject)
    elements.check_printable("pods", found.pods)
    elements.check_printable("skipped", found.skipped or ())
    _check_places("flows", (flow.pod for flow in found.flows if flow.pod is not None), found.pods)
    return pod_telemetry.PodTraffic(
        node=found.node, boot=found.boot, seq=found.seq, ts_ns=found.ts, interval_s=found.interval_s,
        network=found.network, left_out_bytes=found.left_out, skipped=found.skipped or {},
        flows=tuple([_read_flow(flow, found.pods) for flow in found.flows]),
    )  # fmt: skip


def _format_loads(
    found: pod_telemetry.PodLoads, kept: Sequence[tuple[str, pod_telemetry.PodLoad]]
) -> bytes:  # fmt: skip
    places: dict[str, int] = {}
    for _, load in kept:
        if len(places) < fields.CLASSES_MAX:
            places.setdefault(load.pod_class, len(places))
    rows = {
        uid: (places[load.pod_class], round(load.cores, _DIGITS), round(load.waiting, _DIGITS), int(load.memory_bytes))
        for uid, load in kept
        if load.pod_class in places
    }
    return codec.format_json(
        {
            "node": found.node,
            **elements.format_header(boot=found.boot, seq=found.seq, ts_ns=found.ts_ns),
            "classes": list(places),
            "pods": rows,
            "left_out": found.left_out + len(found.loads) - len(rows),
        }
    )


def _format_traffic(found: pod_telemetry.PodTraffic, kept: Sequence[pod_telemetry.PodFlow]) -> bytes:
    places: dict[str, int] = {}
    rows = []
    left_out = found.left_out_bytes + _bytes_of(found.flows)
    for flow in kept:
        if flow.pod is not None and flow.pod not in places:
            if len(places) == PODS_MAX:
                continue
            places[flow.pod] = len(places)
        place = None if flow.pod is None else places[flow.pod]
        rows.append((place, *flow.local, *flow.remote, flow.sent_bytes, flow.received_bytes))
        left_out -= flow.sent_bytes + flow.received_bytes
    return codec.format_json(
        {
            "node": found.node,
            **elements.format_header(boot=found.boot, seq=found.seq, ts_ns=found.ts_ns),
            "interval_s": round(found.interval_s, _DIGITS),
            "network": found.network,
            "pods": list(places),
            "flows": rows,
            "left_out": min(left_out, fields.INT64_MAX),
            **({"skipped": dict(found.skipped)} if found.skipped else {}),
        }
    )


def _bytes_of(flows: Iterable[pod_telemetry.PodFlow]) -> int:
    return sum(flow.sent_bytes + flow.received_bytes for flow in flows)


def _shortened(kept: list[_Row]) -> list[_Row]:
    """Return all but the last eighth: few rows are lost, and few sizes are tried."""
    return kept[: len(kept) - max(1, len(kept) // 8)]


def _read_flow(flow: _Flow, pods: Sequence[str]) -> pod_telemetry.PodFlow:
    return pod_telemetry.PodFlow(
        None if flow.pod is None else pods[flow.pod],
        pod_telemetry.Endpoint(flow.local, flow.local_port),
        pod_telemetry.Endpoint(flow.remote, flow.remote_port),
        flow.sent, flow.received,
    )  # fmt: skip


def _check_places(path: str, places: Iterable[int], listed: Sequence[str]) -> None:
    highest = max(places, default=-1)
    if highest >= len(listed):
        detail = f"got place {highest}, expected one of {len(listed)}"
        raise errors.MessageError(errors.Drop.OUT_OF_RANGE, path, detail)
