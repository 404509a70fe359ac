"""The HTTP server of a cluster: routes paths to handlers, and answers failures with Statuses."""

import sqlite3
from collections.abc import Collection
from typing import Any

import orjson

from carico_core.runtime.observe import logs
from carico_core.runtime.process.connections import web
from carico_local.api import access, cluster
from carico_local.api.http import handlers, pod_logs
from carico_local.api.kubectl import discovery, openapi
from carico_local.api.model import resources, statuses

# As kube-apiserver's limit of a request's body.
MAX_BODY_BYTES = 3 * 1024 * 1024
_LOG = logs.get("api")


def build(state: cluster.Cluster, *, token: str, hosts: Collection[str] = ()) -> web.Application:
    """Return the application that serves a cluster to clients with the token. `hosts`: names besides loopback's."""
    middlewares = [_answer_failures, access.guard(token, hosts)]
    app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=middlewares)
    kubelets = pod_logs.Proxy(state.store, token=token)
    routes = _Routes(handlers.Handlers(state), kubelets)
    app.router.add_route("*", "/{path:.*}", routes.dispatch)

    async def end_watches(_app: web.Application) -> None:
        state.hub.close()

    async def close_kubelets(_app: web.Application) -> None:
        await kubelets.close()

    app.on_shutdown.append(end_watches)
    app.on_cleanup.append(close_kubelets)
    return app


def json_response(body: Any, *, code: int = 200, content_type: str = "application/json") -> web.Response:
    """Return a JSON response."""
    return web.Response(body=orjson.dumps(body), status=code, headers={"Content-Type": content_type})


@web.middleware
async def _answer_failures(request: web.Request, handler: access.Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except statuses.RequestFailed as failure:
        return _failure(failure)
    except web.HTTPRequestEntityTooLarge:
        return _failure(statuses.too_large(MAX_BODY_BYTES))
    except web.HTTPException as error:
        return _failure(statuses.RequestFailed(error.status, "Unknown", error.reason))
    except sqlite3.Error as error:
        _LOG.error("store_write_failed", error=str(error), path=request.path)
        return _failure(statuses.internal(f"the store cannot write: {error}"))
    except Exception as error:
        _LOG.exception("request_failed", method=request.method, path=request.path)
        return _failure(statuses.internal(type(error).__name__))


def _failure(failure: statuses.RequestFailed) -> web.Response:
    response = json_response(failure.as_json(), code=failure.code)
    if failure.code == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


class _Routes:
    """Routes paths and methods to handlers."""

    def __init__(self, handling: handlers.Handlers, kubelets: pod_logs.Proxy) -> None:
        self._handling = handling
        self._kubelets = kubelets

    async def dispatch(self, request: web.Request) -> web.StreamResponse:
        """Answer any request."""
        target = resources.parse_path(request.path)
        if target is None:
            return _document(request)
        if target.subresource:
            return await self._subresource(request, target)
        return await self._object(request, target) if target.name else await self._collection(request, target)

    async def _collection(self, request: web.Request, target: resources.Target) -> web.StreamResponse:
        if request.method in ("GET", "HEAD"):
            return await self._handling.list(request, target)
        if request.method == "POST" and (target.namespace or not target.resource.namespaced):
            return await self._handling.create(request, target)
        if request.method == "DELETE" and (target.namespace or not target.resource.namespaced):
            return await self._handling.delete_collection(request, target)
        raise statuses.method_not_allowed()

    async def _object(self, request: web.Request, target: resources.Target) -> web.StreamResponse:
        methods = {
            "GET": self._handling.get,
            "HEAD": self._handling.get,
            "PUT": self._handling.replace,
            "PATCH": self._handling.patch,
            "DELETE": self._handling.delete,
        }
        if request.method not in methods:
            raise statuses.method_not_allowed()
        return await methods[request.method](request, target)

    async def _subresource(self, request: web.Request, target: resources.Target) -> web.StreamResponse:
        if target.subresource == "status" and request.method in ("GET", "PUT", "PATCH"):
            return await self._object(request, target)
        if target.subresource == "binding" and request.method == "POST":
            return await self._handling.bind(request, target)
        if target.subresource == "eviction" and request.method == "POST":
            return await self._handling.evict(request, target)
        if target.subresource == "log" and request.method == "GET":
            return await self._kubelets.logs(request, target)
        raise statuses.method_not_allowed()


def _document(request: web.Request) -> web.StreamResponse:
    """Answer health checks, discovery and OpenAPI."""
    if command := resources.of_kubelets(request.path):
        raise statuses.not_on_emulated_nodes(command)
    if absent := resources.absent(request.path):
        raise statuses.no_such_path(absent)
    if request.method not in ("GET", "HEAD"):
        raise statuses.no_such_path() if request.path.startswith("/api") else statuses.method_not_allowed()
    if request.path in access.HEALTH_PATHS:
        return web.Response(text="ok")
    accept = request.headers.get("Accept", "")
    found = discovery.document(request.path, accept)
    if found is not None:
        return json_response(found[0], content_type=found[1])
    if request.path == openapi.V2_PATH:
        return web.Response(body=openapi.V2, content_type=openapi.V2_TYPE)
    document = openapi.document(request.path)
    if document is None:
        raise statuses.no_such_path()
    return json_response(document)
