"""The verbs of the API: each reads a request, acts on the cluster, and returns the answer."""

import urllib.parse
from typing import Any

import orjson

from carico_core.runtime.process.connections import web
from carico_local.api import cluster
from carico_local.api.http import requests, watch_answers
from carico_local.api.kubectl import representations
from carico_local.api.lifecycle import deletion, events, pods, writing
from carico_local.api.model import objects, patching, resources, schema, statuses
from carico_local.api.rules import event_forms

_DELETE_OPTIONS = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
# Kinds whose delete answers with the object; the others answer with a Status.
_RETURNED = (resources.PODS, resources.NAMESPACES, resources.SERVICE_ACCOUNTS)
_MAX_WARNINGS = 10


class Handlers:
    """Answers to the requests on one cluster's objects."""

    def __init__(self, state: cluster.Cluster) -> None:
        self._state = state

    async def get(self, request: web.Request, target: resources.Target) -> web.StreamResponse:
        """Answer with one object."""
        stored = self._find(target)
        return _answer(self._presenter(request, target).one(stored))

    async def list(self, request: web.Request, target: resources.Target) -> web.StreamResponse:
        """Answer with a page of objects, or with a watch."""
        query = requests.parse_list(target.resource, request.query)
        presenter = self._presenter(request, target)
        if query.watch:
            return await watch_answers.answer(
                request, state=self._state, target=target, query=query, presenter=presenter
            )
        return _answer(presenter.page(self._state.lister.page(target.resource, target.namespace, query)))

    async def create(self, request: web.Request, target: resources.Target) -> web.StreamResponse:
        """Answer with the new object."""
        body = _incoming(target.resource, await requests.read_body(request))
        kind, mode = _stored_as(target.resource), _mode(request)
        written = self._state.writer.create(kind, target.namespace, body, mode)
        warning = ""
        if kind is resources.PODS and not mode.dry_run:
            pod = written.stored.data
            warning = events.warn_of_no_scheduler(self._state.writer, pod, self._state.scheduler_names)
        if kind is resources.NAMESPACES and not mode.dry_run:
            name = written.stored.data["metadata"]["name"]
            cluster.give_service_account(self._state.store, self._state.clock, name)
        response = self._written(request, target, written, code=201)
        if warning:
            response.headers.add("Warning", f'299 - "{warning}"')
        return response

    async def replace(self, request: web.Request, target: resources.Target) -> web.StreamResponse:
        """Answer with the object after a PUT."""
        body = _incoming(target.resource, await requests.read_body(request))
        return self._updated(request, target, lambda _present: body)

    async def patch(self, request: web.Request, target: resources.Target) -> web.StreamResponse:
        """Answer with the object after a PATCH."""
        kind, patch = request.content_type, await requests.read_body(request, patching.PATCH_TYPES)
        resource = target.resource

        def edit(present: objects.Object) -> Any:
            shown = event_forms.from_core(present) if resource is resources.GROUPED_EVENTS else present
            patched = patching.apply(kind, data=shown, patch=patch, definition=resource.definition)
            _check_uid(resource, present, patched)
            return _incoming(resource, patched)

        try:
            return self._updated(request, target, edit)
        except statuses.Unreadable as error:
            raise statuses.unreadable_patch(error.message) from error

    async def delete(self, request: web.Request, target: resources.Target) -> web.StreamResponse:
        """Answer with the object that was deleted, or a Status."""
        options = await _delete_options(request)
        stored = self._find(target)
        last = self._state.remover.delete(_stored_as(target.resource), stored, options)
        if target.resource in _RETURNED:
            return _answer(self._presenter(request, target).one(last))
        metadata = stored.data["metadata"]
        details = {"name": metadata["name"], "kind": target.resource.plural, "uid": metadata["uid"]}
        if target.resource.group:
            details["group"] = target.resource.group
        return _answer(orjson.dumps(statuses.success(details)))

    async def delete_collection(self, request: web.Request, target: resources.Target) -> web.StreamResponse:
        """Answer with the list of deleted objects."""
        options = await _delete_options(request)
        query = requests.parse_list(target.resource, request.query)
        page = self._state.lister.page(target.resource, target.namespace, query)
        with self._state.store.batch():
            for stored in page.items:
                self._state.remover.delete(_stored_as(target.resource), stored, options)
        return _answer(self._presenter(request, target).page(page))

    async def bind(self, request: web.Request, target: resources.Target) -> web.StreamResponse:
        """Bind a Pod to its node, and answer with a Status."""
        binding = pods.parse_binding(await requests.read_body(request))
        named = (binding.get("metadata") or {}).get("name", "")
        if named and named != target.name:
            raise statuses.bad_request(f"the name of the Binding ({named}) is not that of the Pod ({target.name})")
        dry_run = requests.dry_run(request.query)
        pod = self._find(target)
        pods.bind(self._state.store, self._state.clock, pod, binding, dry_run=dry_run)
        return _answer(orjson.dumps(statuses.success(code=201)), code=201)

    async def evict(self, request: web.Request, target: resources.Target) -> web.StreamResponse:
        """Delete a Pod gracefully, and answer with a Status. There are no disruption budgets."""
        eviction, _ = schema.decode(pods.EVICTION, await requests.read_body(request))
        options = deletion.parse_options(eviction.get("deleteOptions") or {}, request.query.get)
        self._state.remover.delete(resources.PODS, self._find(target), options)
        return _answer(orjson.dumps(statuses.success(code=201)), code=201)

    def _find(self, target: resources.Target) -> objects.Stored:
        return self._state.writer.find(target.resource, (target.namespace, target.name))

    def _updated(self, request: web.Request, target: resources.Target, edit: writing.Edit) -> web.StreamResponse:
        written = self._state.writer.update(
            _stored_as(target.resource),
            (target.namespace, target.name),
            edit,
            _mode(request, status=target.subresource == "status"),
        )
        if written.removed and target.namespace:
            self._state.remover.settle_namespace(target.namespace)
        return self._written(request, target, written)

    def _written(
        self, request: web.Request, target: resources.Target, written: writing.Written, *, code: int = 200
    ) -> web.StreamResponse:
        response = _answer(self._presenter(request, target).one(written.stored), code=code)
        if request.query.get("fieldValidation", "Warn") == "Warn":
            for path in written.unknown[:_MAX_WARNINGS]:
                response.headers.add("Warning", f'299 - "unknown field {_header_quote(path)}"')
        return response

    def _presenter(self, request: web.Request, target: resources.Target) -> representations.Presenter:
        return representations.Presenter(
            resource=target.resource,
            form=representations.negotiate(request.headers.get("Accept", "")),
            clock=self._state.clock,
            include_object=request.query.get("includeObject", "Metadata"),
        )


async def _delete_options(request: web.Request) -> deletion.DeleteOptions:
    body: objects.Object = {}
    if request.can_read_body:
        raw = await request.read()
        if raw.strip():
            body, _ = schema.decode(_DELETE_OPTIONS, await requests.read_body(request))
    return deletion.parse_options(body, request.query.get)


def _answer(body: bytes, *, code: int = 200) -> web.Response:
    return web.Response(body=body, status=code, headers={"Content-Type": "application/json"})


def _stored_as(resource: resources.Resource) -> resources.Resource:
    """Return the resource in whose form the objects are stored."""
    return resources.EVENTS if resource is resources.GROUPED_EVENTS else resource


def _incoming(resource: resources.Resource, body: object) -> object:
    """Return a body in the form in which it is stored."""
    if resource is resources.GROUPED_EVENTS and isinstance(body, dict):
        # Checked in the client's form, so that errors name the client's fields.
        schema.decode(resource.definition, body)
        return event_forms.to_core(body)
    return body


def _check_uid(resource: resources.Resource, present: objects.Object, patched: objects.Object) -> None:
    """Raise `RequestFailed` (422) for a patch that changes the UID; in a PUT the UID is a precondition."""
    uid, now = patched["metadata"].get("uid"), present["metadata"]["uid"]
    if uid and uid != now:
        cause = statuses.Cause(
            reason="FieldValueInvalid", message=f'Invalid value: "{uid}": field is immutable', field="metadata.uid"
        )
        raise statuses.invalid(resource.kind, present["metadata"]["name"], [cause], group=resource.group)


def _mode(request: web.Request, *, status: bool = False) -> writing.Mode:
    strict = request.query.get("fieldValidation") == "Strict"
    return writing.Mode(status=status, strict=strict, dry_run=requests.dry_run(request.query))


def _header_quote(path: str) -> str:
    """Escape a field path for a quoted header value: it comes from the client's own body."""
    return '\\"' + urllib.parse.quote(path, safe=".[]-_/ $") + '\\"'
