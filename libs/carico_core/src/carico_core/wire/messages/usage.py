"""What nodes measured of their Pods (`carico.v1.usage.<node>`), and what aggregators keep of it: JSON, for people.

Buckets are pairs of index and weight, as `domain.usage` defines them.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from carico_core.domain import errors, usage
from carico_core.wire import codec, fields, schemas
from carico_core.wire.messages import elements

# A class keeps at most this many hashes of nodes and digests of images; above it, "64 or more".
NODES_MAX = 64
IMAGES_MAX = 8
# Of a class: each takes 3 kB.
CONTAINERS_KEPT = 16
# A year of a cluster's largest class, in Pod-seconds.
_SECONDS_MAX = 1e13
# Buckets' weights are seconds and Pods; readers need no more digits.
_DIGITS = 3

_Index = Annotated[int, Meta(ge=0, lt=usage.BUCKETS)]
_Weight = Annotated[float, Meta(ge=0.0, le=_SECONDS_MAX)]
_Buckets = Annotated[list[tuple[_Index, _Weight]], Meta(max_length=usage.BUCKETS)]
_PER_DIM = Meta(max_length=fields.DIMS_MAX)
_Count = elements.Int64
_Mark = tuple[elements.Int64, Annotated[float, Meta(ge=0.0, le=fields.QUANTITY_MAX)]]


class _ContainerUsage(msgspec.Struct, gc=False):
    cpu: _Buckets
    peaks: elements.Amounts


_Containers = Annotated[dict[elements.ContainerName, _ContainerUsage], Meta(max_length=fields.CONTAINERS_MAX)]


class _ClassUsage(msgspec.Struct, gc=False):
    pods: elements.Pods
    failed: elements.Pods
    running: elements.Pods
    seconds: Annotated[dict[elements.Name, _Buckets], _PER_DIM]
    pod_means: _Buckets
    peaks: elements.Amounts
    template: elements.Template | None = None
    containers: _Containers = msgspec.field(default_factory=dict)


class _Usage(elements.Message, kw_only=True, gc=False):
    node: elements.ObjectName
    classes: Annotated[dict[elements.ClassName, _ClassUsage], Meta(max_length=fields.CLASSES_MAX)]


class _KeptClass(msgspec.Struct, kw_only=True, gc=False):
    name: elements.ClassName
    at: elements.Int64
    first: elements.Int64
    last: elements.Int64
    pods: _Count
    failed: _Count
    measured_s: _Weight
    seconds: Annotated[dict[elements.Name, _Buckets], _PER_DIM]
    pod_means: _Buckets
    peaks: elements.Amounts
    nodes: Annotated[frozenset[_Count], Meta(max_length=NODES_MAX)]
    images: Annotated[dict[str, elements.Int64], Meta(max_length=IMAGES_MAX)]
    template: elements.Template | None = None
    containers: _Containers = msgspec.field(default_factory=dict)
    earlier: "_KeptClass | None" = None
    # None: kept before there were weights.
    recent_pods: _Weight | None = None
    recent_failed: _Weight | None = None
    node_size: elements.Amounts = msgspec.field(default_factory=dict)
    marks: tuple[_Mark, _Mark] | None = None


class _Kept(msgspec.Struct, kw_only=True, gc=False):
    v: elements.Int64
    classes: list[_KeptClass]


_REPORTS = schemas.Decoder(_Usage, is_json=True)
_KEPT = schemas.Decoder(_Kept, is_json=True, maximum_bytes=codec.MODEL_MAX_BYTES)


def encode_usage(report: usage.UsageReport) -> bytes:
    """Return the bytes of a report."""
    return codec.format_json(
        {
            "node": report.node,
            **elements.format_header(boot=report.boot, seq=report.seq, ts_ns=report.ts_ns),
            "classes": {name: _format_class(found) for name, found in report.classes.items()},
        }
    )


def decode_usage(payload: bytes, *, subject: str) -> usage.UsageReport:
    """Return the report in `payload`. Raises `MessageError` if anything in it is wrong."""
    found = _REPORTS.read(payload)
    elements.check_version(found)
    elements.check_writer("node", found.node, subject)
    elements.check_printable("classes", found.classes)
    return usage.UsageReport(
        node=found.node, boot=found.boot, seq=found.seq, ts_ns=found.ts,
        classes={name: _read_class(f"classes[{name[:60]}]", each) for name, each in found.classes.items()},
    )  # fmt: skip


def encode_kept(classes: Iterable[usage.KeptClass]) -> bytes:
    """Return the bytes of what is kept of some classes."""
    return codec.format_json({"v": 1, "classes": [_format_kept(each) for each in classes]})


def decode_kept(payload: bytes) -> list[usage.KeptClass]:
    """Return the classes in `payload`. Raises `MessageError` if anything in it is wrong."""
    found = _KEPT.read(payload)
    if found.v != 1:
        raise schemas.wrong_version(found.v)
    return [_read_kept(each) for each in found.classes]


def _format_class(found: usage.ClassUsage) -> dict[str, object]:
    return {
        "pods": found.pods,
        "failed": found.failed,
        "running": found.running,
        **_format_measured(found),
    }


def _format_kept(found: usage.KeptClass) -> dict[str, object]:
    return {
        "name": found.name, "at": found.at_ns, "first": found.first_ns, "last": found.last_ns, "pods": found.pods,
        "failed": found.failed, "recent_pods": found.recent_pods, "recent_failed": found.recent_failed,
        "node_size": dict(found.node_size), "measured_s": _format_weight(found.measured_s), **_format_measured(found),
        "nodes": sorted(found.nodes), "images": dict(found.images),
        **({} if found.marks is None else {"marks": [tuple(each) for each in found.marks]}),
        **({} if found.earlier is None else {"earlier": _format_kept(found.earlier)}),
    }  # fmt: skip


def _format_measured(found: usage.ClassUsage | usage.KeptClass) -> dict[str, object]:
    values: dict[str, object] = {
        "seconds": {dim: _format_buckets(each) for dim, each in found.seconds.items()},
        "pod_means": _format_buckets(found.pod_means),
        "peaks": dict(found.peaks),
    }
    if found.template is not None:
        values["template"] = elements.format_template(found.template)
    if found.containers:
        values["containers"] = {
            name: {"cpu": _format_buckets(each.cpu), "peaks": dict(each.peaks)}
            for name, each in found.containers.items()
        }
    return values


def _format_buckets(found: usage.Buckets) -> list[tuple[int, float]]:
    rounded = ((index, _format_weight(weight)) for index, weight in sorted(found.items()))
    return [(index, weight) for index, weight in rounded if weight > 0.0]


def _format_weight(weight: float) -> float:
    # One node can report as much as fits into a message, again and again; readers refuse all classes for one sum.
    return round(min(weight, _SECONDS_MAX), _DIGITS)


def _read_class(path: str, found: _ClassUsage) -> usage.ClassUsage:
    return usage.ClassUsage(
        pods=found.pods, failed=found.failed, running=found.running, seconds=_read_seconds(path, found.seconds),
        pod_means=_read_buckets(f"{path}.pod_means", found.pod_means), peaks=elements.known_amounts(found.peaks),
        template=elements.read_template(path, found.template), containers=_read_containers(path, found.containers),
    )  # fmt: skip


def _read_containers(path: str, found: Mapping[str, _ContainerUsage]) -> dict[str, usage.ContainerUsage]:
    elements.check_printable(f"{path}.containers", found)
    return {
        name: usage.ContainerUsage(
            cpu=_read_buckets(f"{path}.containers[{name}].cpu", each.cpu), peaks=elements.known_amounts(each.peaks)
        )
        for name, each in found.items()
    }


def _read_kept(found: _KeptClass) -> usage.KeptClass:
    elements.check_printable("classes[...].name", (found.name, *found.images))
    path = f"classes[{found.name[:60]}]"
    return usage.KeptClass(
        name=found.name, at_ns=found.at, first_ns=found.first, last_ns=found.last, pods=found.pods,
        failed=found.failed,
        recent_pods=float(found.pods) if found.recent_pods is None else found.recent_pods,
        recent_failed=float(found.failed) if found.recent_failed is None else found.recent_failed,
        node_size=elements.known_amounts(found.node_size),
        measured_s=found.measured_s, seconds=_read_seconds(path, found.seconds),
        pod_means=_read_buckets(f"{path}.pod_means", found.pod_means), peaks=elements.known_amounts(found.peaks),
        nodes=found.nodes, images=found.images, template=elements.read_template(path, found.template),
        containers=_read_containers(path, found.containers),
        marks=None if found.marks is None else (usage.Mark(*found.marks[0]), usage.Mark(*found.marks[1])),
        earlier=None if found.earlier is None else _read_kept(found.earlier),
    )  # fmt: skip


def _read_seconds(path: str, found: Mapping[str, list[tuple[int, float]]]) -> dict[str, dict[int, float]]:
    """Return the distributions of the dimensions that this version knows; a later one may report more."""
    return {dim: _read_buckets(f"{path}.seconds.{dim}", found[dim]) for dim in usage.DIMS if dim in found}


def _read_buckets(path: str, found: list[tuple[int, float]]) -> dict[int, float]:
    buckets = dict(found)
    if len(buckets) != len(found):
        raise errors.MessageError(errors.Drop.OUT_OF_RANGE, path, "got a bucket twice, expected each once")
    return buckets
