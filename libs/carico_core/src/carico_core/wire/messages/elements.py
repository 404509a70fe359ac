"""What several messages share: header, estimates, evidence and arrays, as schemas that bound every field.

A schema says what a writer may send; the functions turn its values into records of `domain` and check what a schema
cannot say. Lengths are bounded while bytes are decoded, so that nothing unchecked is kept.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from carico_core.domain import errors, messages, names, usage
from carico_core.wire import fields, schemas, subjects

T = TypeVar("T")
Int64 = Annotated[int, Meta(ge=0, le=fields.INT64_MAX)]
Pods = Annotated[int, Meta(ge=0, le=int(fields.PODS_MAX))]
PodsPerCore = Annotated[float, Meta(ge=0.0, le=fields.PODS_MAX)]
# Node and Pod names: an RFC 1123 subdomain has at most 253 characters.
ObjectName = Annotated[str, Meta(min_length=1, max_length=names.SUBDOMAIN_MAX)]
# Empty for a Pod without one.
PriorityClass = Annotated[str, Meta(max_length=names.SUBDOMAIN_MAX)]
Name = Annotated[str, Meta(min_length=1, max_length=fields.NAME_MAX)]
# Kubernetes UIDs are UUIDs (36 characters); those of static Pods are hashes (32).
Uid = Annotated[str, Meta(min_length=1, max_length=64)]
ClassName = Annotated[str, Meta(min_length=1, max_length=fields.CLASS_NAME_MAX)]
Dims = Annotated[tuple[Name, ...], Meta(min_length=1, max_length=fields.DIMS_MAX)]
Quantity = Annotated[float, Meta(ge=0.0, le=fields.QUANTITY_MAX)]
SignedQuantity = Annotated[float, Meta(ge=-fields.QUANTITY_MAX, le=fields.QUANTITY_MAX)]
# The smallest number above 0.
_POSITIVE = 5e-324
# 16 hex digits; the length keeps `$` from letting a line feed pass.
Boot = Annotated[str, Meta(pattern="^[0-9a-f]{16}$", max_length=16)]


Amounts = Annotated[dict[Name, Quantity], Meta(max_length=fields.DIMS_MAX)]
# A container's name is an RFC 1123 label; readers need the names to write a patch.
ContainerName = Annotated[str, Meta(min_length=1, max_length=63)]


class Origin(msgspec.Struct, kw_only=True, gc=False):
    """The origin of a message or an entry: the writer's start, its sequence number and its wall-clock time."""

    boot: Boot
    seq: Int64
    ts: Int64


class Message(Origin, kw_only=True, gc=False):
    """The fields of every message."""

    v: Int64


class Estimate(msgspec.Struct, gc=False):
    """A mean and its standard deviation."""

    mean: SignedQuantity
    sd: Quantity


Estimates = Annotated[dict[Name, Estimate], Meta(max_length=fields.DIMS_MAX)]


class ClassEvidence(msgspec.Struct, gc=False):
    """What was measured about a class of Pods."""

    pods: Pods
    cost: Estimates
    growth: Estimates | None = None
    lifetime_s: Estimate | None = None


Evidence = Annotated[dict[ClassName, ClassEvidence], Meta(max_length=fields.CLASSES_MAX)]


class Template(msgspec.Struct, gc=False):
    """What the Pods of a class are made of."""

    image: Annotated[str, Meta(max_length=64)]
    containers: Annotated[list[ContainerName], Meta(max_length=fields.CONTAINERS_MAX)]
    requests: Amounts
    priority_class: PriorityClass = ""
    has_deadline: bool = False
    crosses_namespaces: bool = False


class Array(msgspec.Struct, gc=False):
    """A float64 array: shape, and little-endian bytes in C order."""

    shape: list[int]
    data: bytes


def format_header(*, boot: str, seq: int, ts_ns: int) -> dict[str, object]:
    """Return the fields that every message starts with."""
    return {"v": messages.SCHEMA_VERSION, "boot": boot, "seq": seq, "ts": ts_ns}


def check_version(message: Message) -> None:
    """Raise `MessageError` if a message has another version."""
    if message.v != messages.SCHEMA_VERSION:
        raise schemas.wrong_version(message.v)


def check_writer(path: str, writer: str, subject: str) -> None:
    """Raise `MessageError` if the writer is not the node or replica in the subject."""
    try:
        expected = subjects.node_of(subject)
    except errors.BadName as error:
        raise errors.MessageError(errors.Drop.BAD_NAME, path, str(error)) from None
    if writer != expected:
        detail = f"got {fields.shown(writer)}, expected {expected!r} as in the subject"
        raise errors.MessageError(errors.Drop.FOREIGN_NODE, path, detail)


def check_name(path: str, name: str) -> None:
    """Raise `MessageError` if a text is not a valid Kubernetes name."""
    if not names.is_subdomain(name):
        detail = f"got {fields.shown(name)}, expected a Kubernetes name"
        raise errors.MessageError(errors.Drop.BAD_NAME, path, detail)


def check_printable(path: str, texts: Iterable[str]) -> None:
    """Raise `MessageError` if one of the texts has a character that is not printable."""
    if "".join(texts).isprintable():
        return
    text = next(text for text in texts if not text.isprintable())
    detail = f"got {fields.shown(text)}, expected printable characters"
    raise errors.MessageError(errors.Drop.OUT_OF_RANGE, path, detail)


def fitting(classes: Mapping[str, T], over_bytes: int, size: Callable[[str, T], int]) -> dict[str, T]:
    """Return the classes without those whose names are longest, so that a message has `over_bytes` less.

    Who creates a Pod chooses the name of its class: long names must not keep a message from being sent. `size` returns
    the bytes that a class takes.
    """
    kept = dict(classes)
    for name in sorted(kept, key=lambda each: len(each.encode()), reverse=True):
        if over_bytes <= 0:
            break
        over_bytes -= size(name, kept.pop(name))
    return kept


def format_template(template: usage.Template) -> dict[str, object]:
    """Return the fields of a template."""
    values: dict[str, object] = {
        "image": template.image, "containers": list(template.containers), "requests": dict(template.requests),
    }  # fmt: skip
    if template.priority_class:
        values["priority_class"] = template.priority_class
    if template.has_deadline:
        values["has_deadline"] = True
    if template.crosses_namespaces:
        values["crosses_namespaces"] = True
    return values


def read_template(path: str, found: Template | None) -> usage.Template | None:
    """Return the record of a template. Raises `MessageError`."""
    if found is None:
        return None
    check_printable(f"{path}.template", (found.image, found.priority_class, *found.containers))
    return usage.Template(
        image=found.image, containers=tuple(found.containers), requests=known_amounts(found.requests),
        priority_class=found.priority_class, has_deadline=found.has_deadline,
        crosses_namespaces=found.crosses_namespaces,
    )  # fmt: skip


def known_amounts(found: Mapping[str, float]) -> dict[str, float]:
    """Return the amounts of the dimensions that this version knows; a later one may report more."""
    return {dim: found[dim] for dim in usage.DIMS if dim in found}


def read_dims(dims: tuple[str, ...]) -> tuple[str, ...]:
    """Return the dimensions. Raises `MessageError` if one is repeated."""
    if len(set(dims)) != len(dims):
        detail = f"got {fields.shown(dims)}, expected each name once"
        raise errors.MessageError(errors.Drop.OUT_OF_RANGE, "dims", detail)
    check_printable("dims", dims)
    return dims


def read_estimates(found: Mapping[str, Estimate]) -> dict[str, messages.Estimate]:
    """Return the records of estimates."""
    return {name: messages.Estimate(item.mean, item.sd) for name, item in found.items()}


def read_evidence(found: Mapping[str, ClassEvidence]) -> dict[str, messages.ClassEvidence]:
    """Return the records of evidence. Raises `MessageError`."""
    texts: list[str] = list(found)
    records = {}
    for name, item in found.items():
        texts += item.cost
        growth = {}
        if item.growth:
            texts += item.growth
            growth = read_estimates(item.growth)
        lifetime = None
        if item.lifetime_s is not None:
            lifetime = messages.Estimate(item.lifetime_s.mean, item.lifetime_s.sd)
        records[name] = messages.ClassEvidence(
            pods=item.pods, cost=read_estimates(item.cost), growth=growth, lifetime_s=lifetime
        )
    check_printable("evidence", texts)
    return records


def read_array(path: str, found: Array, shape: list[int], minimum: float, maximum: float) -> messages.Array:
    """Return a read-only float64 array of this shape, finite and within bounds. Raises `MessageError`."""
    import numpy as np  # see `domain.messages.Array`

    if found.shape != shape or len(found.data) != 8 * math.prod(shape):
        detail = f"got {fields.shown(found.shape)} in {len(found.data)} bytes, expected {shape} of float64"
        raise errors.MessageError(errors.Drop.WRONG_SHAPE, path, detail)
    array = np.frombuffer(found.data, fields.FLOAT64)
    # For so few numbers plain Python is several times faster than numpy's reductions. A sum is finite only if every
    # term is (terms above 1e300 are out of range anyway).
    numbers: list[float] = array.tolist()
    if not math.isfinite(sum(numbers)):
        raise errors.MessageError(errors.Drop.NON_FINITE, path, "got a number that is not finite")
    if min(numbers) < minimum or max(numbers) > maximum:
        detail = f"got {min(numbers):.4g} to {max(numbers):.4g}, expected {minimum:.4g} to {maximum:.4g}"
        raise errors.MessageError(errors.Drop.OUT_OF_RANGE, path, detail)
    return array if len(shape) == 1 else array.reshape(shape)


def read_scale(found: Array, count: int) -> messages.Array:
    """Return the physical amount of 1.0 in each dimension, a positive number. Raises `MessageError`."""
    return read_array("scale", found, [count], _POSITIVE, fields.QUANTITY_MAX)


def format_estimates(estimates: Mapping[str, messages.Estimate]) -> dict[str, object]:
    """Return dimension name -> mean and sd."""
    return {name: _format_estimate(estimate) for name, estimate in estimates.items()}


def format_evidence(evidence: Mapping[str, messages.ClassEvidence]) -> dict[str, object]:
    """Return class name -> pods, cost, growth and lifetime; unknown fields are left out."""
    return {name: _format_class(item) for name, item in evidence.items()}


def _format_class(item: messages.ClassEvidence) -> dict[str, object]:
    values: dict[str, object] = {"pods": int(item.pods), "cost": format_estimates(item.cost)}
    if item.growth:
        values["growth"] = format_estimates(item.growth)
    if item.lifetime_s is not None:
        values["lifetime_s"] = _format_estimate(item.lifetime_s)
    return values


def _format_estimate(estimate: messages.Estimate) -> dict[str, float]:
    return {"mean": float(estimate.mean), "sd": float(estimate.sd)}
