"""Label and field selectors, parsed from a query and matched against objects.

Source: k8s.io/apimachinery/pkg/labels and /fields, and
https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/
"""

import dataclasses
import re
from collections.abc import Callable

from carico_core.domain import selectors
from carico_local.api.model import objects, resources, statuses

_LABEL_KEY = r"(?:[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
_LABEL_VALUE = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
_IN = re.compile(rf"({_LABEL_KEY})\s+(in|notin)\s*\(([^()]*)\)")
_COMPARED = re.compile(rf"({_LABEL_KEY})\s*(==|=|!=|>|<)\s*({_LABEL_VALUE})")
_EXISTS = re.compile(rf"(!?)\s*({_LABEL_KEY})")
_FIELD = re.compile(r"([^=!]+)(==|=|!=)(.*)")
_WORDS = {"in": selectors.IN, "notin": selectors.NOT_IN}
_SIGNS = {"=": selectors.IN, "==": selectors.IN, "!=": selectors.NOT_IN, ">": selectors.GREATER, "<": selectors.LESS}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """Label and field terms, all of which must hold."""

    labels: tuple[selectors.Requirement, ...] = ()
    fields: tuple[selectors.Requirement, ...] = ()

    @property
    def everything(self) -> bool:
        """True where every object matches."""
        return not self.labels and not self.fields

    def matches(self, data: objects.Object) -> bool:
        """Return True where an object satisfies every term."""
        if self.labels and not selectors.matches(self.labels, data["metadata"].get("labels") or {}):
            return False
        return all(term.matches({term.key: _FIELDS[term.key](data)}) for term in self.fields)


def parse(resource: resources.Resource, *, labels: str, fields: str) -> Selector:
    """Parse the selectors of a query; raise `RequestFailed` (400) for a malformed one."""
    return Selector(labels=parse_labels(labels), fields=parse_fields(resource, fields))


def parse_labels(text: str) -> tuple[selectors.Requirement, ...]:
    """Parse a label selector.

    >>> [term.operator for term in parse_labels("a=b,c notin (d,e),!f")]
    ['In', 'NotIn', 'DoesNotExist']
    """
    return tuple(_label_term(term.strip(), text) for term in _split(text))


def parse_fields(resource: resources.Resource, text: str) -> tuple[selectors.Requirement, ...]:
    """Parse a field selector; only fields that kube-apiserver selects by are accepted."""
    terms = []
    for part in filter(None, text.split(",")):
        match = _FIELD.fullmatch(part.strip())
        if match is None:
            raise statuses.bad_request(f"invalid selector: {text!r}; can't understand {part!r}")
        key, operator, value = match.groups()
        if key not in SELECTABLE.get(resource.storage, ()) and key not in ("metadata.name", "metadata.namespace"):
            raise statuses.bad_request(f"field label not supported: {key}")
        terms.append(selectors.Requirement(key=key, operator=_SIGNS[operator], values=(value,)))
    return tuple(terms)


def _split(text: str) -> list[str]:
    """Split at commas outside parentheses."""
    return [term for term in re.split(r",(?![^(]*\))", text) if term.strip()]


def _label_term(term: str, text: str) -> selectors.Requirement:
    if match := _IN.fullmatch(term):
        values = tuple(value.strip() for value in match[3].split(","))
        return selectors.Requirement(key=match[1], operator=_WORDS[match[2]], values=values)
    if match := _COMPARED.fullmatch(term):
        key, sign, value = match.groups()
        if sign in "<>" and not re.fullmatch(r"-?\d+", value):
            raise statuses.bad_request(f"unable to parse requirement: {value!r} must be an integer for {sign!r}")
        return selectors.Requirement(key=key, operator=_SIGNS[sign], values=(value,))
    if match := _EXISTS.fullmatch(term):
        return selectors.Requirement(key=match[2], operator="DoesNotExist" if match[1] else "Exists")
    raise statuses.bad_request(f"unable to parse requirement: {term!r} in label selector {text!r}")


def _path(*names: str) -> Callable[[objects.Object], str]:
    def read(data: objects.Object) -> str:
        value: object = data
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
        if isinstance(value, bool):
            return "true" if value else "false"
        return "" if value is None else str(value)

    return read


def _event_path(*names: str) -> Callable[[objects.Object], str]:
    """Map a grouped Event's field to the core form, in which Events are stored."""
    return _path("involvedObject", *names)


_OBJECT_FIELDS = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_FIELDS: dict[str, Callable[[objects.Object], str]] = {
    "metadata.name": _path("metadata", "name"),
    "metadata.namespace": _path("metadata", "namespace"),
    "spec.nodeName": _path("spec", "nodeName"),
    "spec.schedulerName": _path("spec", "schedulerName"),
    "spec.restartPolicy": _path("spec", "restartPolicy"),
    "spec.serviceAccountName": _path("spec", "serviceAccountName"),
    "spec.hostNetwork": lambda data: _path("spec", "hostNetwork")(data) or "false",
    "spec.unschedulable": lambda data: _path("spec", "unschedulable")(data) or "false",
    "status.phase": _path("status", "phase"),
    "status.podIP": _path("status", "podIP"),
    "status.nominatedNodeName": _path("status", "nominatedNodeName"),
    "type": _path("type"),
    "reason": _path("reason"),
    "reportingComponent": _path("reportingComponent"),
    "source": lambda data: _path("source", "component")(data) or _path("reportingComponent")(data),
    **{f"involvedObject.{name}": _event_path(name) for name in _OBJECT_FIELDS},
    **{f"regarding.{name}": _event_path(name) for name in _OBJECT_FIELDS},
}
SELECTABLE: dict[str, tuple[str, ...]] = {
    "pods": (
        "spec.nodeName",
        "spec.schedulerName",
        "spec.restartPolicy",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    "nodes": ("spec.unschedulable",),
    "namespaces": ("status.phase",),
    "secrets": ("type",),
    "events": (
        "type",
        "reason",
        "reportingComponent",
        "source",
        *(f"{prefix}.{name}" for prefix in ("involvedObject", "regarding") for name in _OBJECT_FIELDS),
    ),
}
