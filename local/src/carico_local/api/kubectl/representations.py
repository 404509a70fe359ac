"""The forms of an object or list that a client can request by Accept: itself or a Table.

Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#receiving-resources-as-tables
"""

import dataclasses
import enum
from collections.abc import Callable, Sequence

import orjson

from carico_core.runtime.process import clock as clocks
from carico_local.api.kubectl import tables
from carico_local.api.model import objects, resources, statuses
from carico_local.api.rules import event_forms
from carico_local.api.storage import listing

_META = "meta.k8s.io/v1"
_ANSWERED = (
    "application/json",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
)


class Form(enum.StrEnum):
    """How objects are shown."""

    OBJECT = "object"
    TABLE = "table"


_FORMS = {
    "": Form.OBJECT,
    "Table": Form.TABLE,
}


def negotiate(accept: str) -> Form:
    """Return the first form of an Accept header that the API has; raise `RequestFailed` (406) if it has none."""
    offers = [offer.strip() for offer in (accept or "*/*").split(",")]
    for offer in offers:
        media, *rest = (part.strip() for part in offer.split(";"))
        options = dict(part.split("=", 1) for part in rest if "=" in part)
        if media not in ("application/json", "application/*", "*/*", "text/html", "application/vnd.kubernetes.*"):
            continue
        wanted = options.get("as", "")
        if wanted in _FORMS and (not wanted or (options.get("v") == "v1" and options.get("g") == "meta.k8s.io")):
            return _FORMS[wanted]
    raise statuses.not_acceptable(_ANSWERED)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Presenter:
    """Turns stored objects of one resource into bytes of one form."""

    resource: resources.Resource
    form: Form
    clock: clocks.Clock
    # What a Table row contains of its object: Metadata, Object or None.
    include_object: str

    @property
    def name(self) -> str:
        """The key of this representation among others of the same objects."""
        return f"{self.resource.api_version}/{self.form}/{self.include_object}"

    def one(self, stored: objects.Stored) -> bytes:
        """Encode a single object."""
        if self.form is Form.TABLE:
            return self._table([stored], {"resourceVersion": str(stored.version)})
        return self._encode()(self.resource, stored)

    def page(self, page: listing.Page) -> bytes:
        """Encode a page of a list."""
        metadata: objects.Object = {"resourceVersion": str(page.version)}
        if page.token:
            metadata |= {"continue": page.token, "remainingItemCount": page.remaining}
        if self.form is Form.TABLE:
            return self._table(page.items, metadata)
        kind, version = f"{self.resource.kind}List", self.resource.api_version
        if self.resource is resources.GROUPED_EVENTS:
            items = [orjson.dumps(event_forms.from_core(stored.data)) for stored in page.items]
        else:
            items = [stored.body for stored in page.items]
        head = orjson.dumps({"kind": kind, "apiVersion": version, "metadata": metadata})
        return b'%b,"items":[%b]}' % (head[:-1], b",".join(items))

    def bookmark(self, version: int, *, initial_end: bool = False) -> bytes:
        """Encode the object of a bookmark: a kind and a resourceVersion only."""
        metadata: objects.Object = {"resourceVersion": str(version)}
        if initial_end:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        if self.form is Form.TABLE:
            kind, group_version = "Table", _META
        else:
            kind, group_version = self.resource.kind, self.resource.api_version
        return orjson.dumps({"kind": kind, "apiVersion": group_version, "metadata": metadata})

    def _encode(self) -> Callable[[resources.Resource, objects.Stored], bytes]:
        return event_forms.encode if self.resource is resources.GROUPED_EVENTS else objects.encode

    def _table(self, items: Sequence[objects.Stored], metadata: objects.Object) -> bytes:
        columns = tables.columns(self.resource.storage)
        now_ns = self.clock.wall_ns()
        rows = []
        for stored in items:
            row: objects.Object = {"cells": tables.cells(self.resource.storage, stored.data, now_ns)}
            if self.include_object == "Metadata":
                row["object"] = _metadata_only(stored)
            elif self.include_object == "Object":
                row["object"] = orjson.Fragment(self._encode()(self.resource, stored))
            rows.append(row)
        table = {
            "kind": "Table",
            "apiVersion": _META,
            "metadata": metadata,
            "columnDefinitions": columns,
            "rows": rows,
        }
        return orjson.dumps(table)


def _metadata_only(stored: objects.Stored) -> objects.Object:
    return {"kind": "PartialObjectMetadata", "apiVersion": _META, "metadata": stored.data["metadata"]}
