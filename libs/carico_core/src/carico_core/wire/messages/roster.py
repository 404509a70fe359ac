"""Rosters on `carico.v1.roster.<node>`: JSON, so that people can read them with `nats sub`.

Pods name their class by its place in a list, since many Pods of a node share a class and a class name can be long. A
class is in the list once for each template that its Pods have.
"""

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from carico_core.domain import errors, messages, usage
from carico_core.wire import codec, fields, schemas
from carico_core.wire.messages import elements

# Far above any kubelet's limit of Pods. With longer lists, or long names, a roster is cut: see `encode_roster`.
PODS_MAX = 1280
# A container's id is longer: this much of it is sent.
_Id = Annotated[str, Meta(min_length=1, max_length=64)]
_Containers = Annotated[dict[_Id, elements.ContainerName], Meta(max_length=fields.CONTAINERS_MAX)]
_Place = Annotated[int, Meta(ge=0, lt=fields.CLASSES_MAX)]


class _Class(msgspec.Struct, gc=False):
    name: elements.ClassName
    template: elements.Template | None = None


class _Roster(elements.Message, kw_only=True, gc=False):
    node: elements.ObjectName
    classes: Annotated[list[_Class], Meta(max_length=fields.CLASSES_MAX)]
    pods: Annotated[dict[elements.Uid, _Place | None], Meta(max_length=PODS_MAX)]
    failed: Annotated[frozenset[elements.Uid], Meta(max_length=PODS_MAX)] = frozenset()
    containers: Annotated[dict[elements.Uid, _Containers], Meta(max_length=PODS_MAX)] = msgspec.field(
        default_factory=dict
    )


_DECODER = schemas.Decoder(_Roster, is_json=True)
# The most characters of a Pod's containers, and of its template, that a roster has: of the first that fits.
_ALL, _NONE = 1 << 20, -1
_STEPS = (
    (_ALL, _ALL), (1024, _ALL), (256, _ALL), (_NONE, _ALL), (_NONE, 1024), (_NONE, 256), (_NONE, _NONE)
)  # fmt: skip


def encode_roster(roster: messages.Roster) -> bytes:
    """Return the bytes of a roster.

    What would exceed a payload is left out: first containers, then templates, of each the longest first, then Pods with
    long names of classes, which have no known class. Who creates a Pod chooses all of these: others must not lose
    theirs to it.
    """
    pods = dict(itertools.islice(roster.pods.items(), PODS_MAX))
    for containers_most, templates_most in _STEPS:
        cut = dataclasses.replace(
            roster,
            containers={uid: each for uid, each in roster.containers.items() if _ids_chars(each) <= containers_most},
            templates={uid: each for uid, each in roster.templates.items() if _template_chars(each) <= templates_most},
        )
        if len(payload := _format(cut, pods)) <= codec.PAYLOAD_MAX_BYTES:
            return payload
    pods = dict(sorted(pods.items(), key=lambda each: len((each[1] or "").encode())))
    while len(payload := _format(cut, pods)) > codec.PAYLOAD_MAX_BYTES:
        pods = dict(itertools.islice(pods.items(), len(pods) // 2))
    return payload


def _ids_chars(found: Mapping[str, str]) -> int:
    return sum(map(len, found)) + sum(map(len, found.values()))


def _template_chars(found: usage.Template) -> int:
    return len(found.image) + sum(map(len, found.containers)) + len(found.priority_class)


def decode_roster(payload: bytes, *, subject: str) -> messages.Roster:
    """Return the roster in `payload`. Raises `MessageError` if anything in it is wrong."""
    found = _DECODER.read(payload)
    elements.check_version(found)
    elements.check_writer("node", found.node, subject)
    elements.check_printable("classes", [each.name for each in found.classes])
    elements.check_printable("pods", found.pods)
    elements.check_printable("failed", found.failed)
    places = [place for place in found.pods.values() if place is not None]
    if places and max(places) >= len(found.classes):
        detail = f"got place {max(places)}, expected one of {len(found.classes)} classes"
        raise errors.MessageError(errors.Drop.OUT_OF_RANGE, "pods", detail)
    elements.check_printable("containers", (name for each in found.containers.values() for name in each.values()))
    templates = [elements.read_template("classes[...]", each.template) for each in found.classes]
    of_pods = ((uid, None if place is None else templates[place]) for uid, place in found.pods.items())
    return messages.Roster(
        node=found.node, boot=found.boot, seq=found.seq, ts_ns=found.ts, failed=found.failed,
        pods={uid: None if place is None else found.classes[place].name for uid, place in found.pods.items()},
        templates={uid: template for uid, template in of_pods if template is not None},
        containers=found.containers,
    )  # fmt: skip


def _format(roster: messages.Roster, pods: Mapping[str, str | None]) -> bytes:
    # By class and images: of templates that differ in their requests only, the last counts.
    places: dict[tuple[str, str], int] = {}
    templates: dict[tuple[str, str], usage.Template] = {}
    listed: dict[str, int | None] = {}
    for uid, name in pods.items():
        if name is None:
            listed[uid] = None
            continue
        template = roster.templates.get(uid)
        key = name, "" if template is None else template.image
        if key not in places and len(places) >= fields.CLASSES_MAX:
            continue
        listed[uid] = places.setdefault(key, len(places))
        if template is not None:
            templates[key] = template
    values = {
        "node": roster.node,
        **elements.format_header(boot=roster.boot, seq=roster.seq, ts_ns=roster.ts_ns),
        "classes": [_format_class(key[0], templates.get(key)) for key in places],
        "pods": listed,
        "failed": sorted(roster.failed & listed.keys()),
    }
    containers = {uid: dict(roster.containers[uid]) for uid in listed if uid in roster.containers}
    return codec.format_json({**values, "containers": containers} if containers else values)


def _format_class(name: str, template: usage.Template | None) -> dict[str, object]:
    return {"name": name} if template is None else {"name": name, "template": elements.format_template(template)}
