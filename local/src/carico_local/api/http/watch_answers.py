"""One watch over HTTP: the initial state where requested, then each change as it comes, with bookmarks in between."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from carico_core.runtime.process.connections import web
from carico_local.api import cluster
from carico_local.api.kubectl import representations
from carico_local.api.model import resources, statuses
from carico_local.api.storage import listing, watch

# kube-apiserver ends a watch without a timeout after 30 to 60 minutes (--min-request-timeout).
_DEFAULT_TIMEOUT_S = 1800.0
# kube-apiserver sends a bookmark about once a minute, and one 2 s before the end of a watch (cacher.go).
_BOOKMARK_EVERY_S = 60.0
_BOOKMARK_BEFORE_END_S = 2.0


async def answer(
    request: web.Request,
    *,
    state: cluster.Cluster,
    target: resources.Target,
    query: listing.ListQuery,
    presenter: representations.Presenter,
) -> web.StreamResponse:
    """Stream a watch to its end."""
    response = web.StreamResponse(headers={"Content-Type": "application/json", "Cache-Control": "no-cache, private"})
    response.enable_chunked_encoding()
    stream = _Stream(state, target, query, presenter)
    try:
        # Nothing may come between reading the initial state and listening for changes: no await in open().
        first = stream.open()
    except statuses.RequestFailed as failure:
        # As in kube-apiserver's cache, the watch is accepted and then reports that it cannot continue.
        first = watch.error_line(failure)
    try:
        await response.prepare(request)
        if first:
            await response.write(first)
        async for lines in stream.lines():
            await response.write(lines)
        with contextlib.suppress(ConnectionError):
            await response.write_eof()
    except ConnectionError:
        return response
    finally:
        stream.close()
    return response


class _Stream:
    """What one watch sends."""

    def __init__(
        self,
        state: cluster.Cluster,
        target: resources.Target,
        query: listing.ListQuery,
        presenter: representations.Presenter,
    ) -> None:
        self._state = state
        self._target = target
        self._query = query
        self._presenter = presenter
        self._watcher: watch.Watcher | None = None

    def open(self) -> bytes:
        """Register the watch and return its first lines; raise `RequestFailed` (410)."""
        query, storage = self._query, self._target.resource.storage
        revision = self._state.store.revision
        view = watch.View(
            namespace=self._target.namespace,
            selector=query.selector,
            representation=self._presenter.name,
            render=self._presenter.one,
        )
        from_state = query.initial_events or not query.version
        since = revision if from_state else query.version or 0
        if since > revision:
            raise statuses.RequestFailed(504, "Timeout", f"Too large resource version: {since}, current: {revision}")
        self._watcher = self._state.hub.watch(storage, view, since)
        if not from_state:
            return b""
        chosen = self._state.lister.select(self._target.resource, self._target.namespace, query)
        lines = [watch.frame("ADDED", self._presenter.one(stored)) for stored in chosen]
        if query.initial_events and query.bookmarks:
            lines.append(watch.frame("BOOKMARK", self._presenter.bookmark(revision, initial_end=True)))
        return b"".join(lines)

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield lines until the timeout, the end of the server, or a reader too far behind."""
        watcher = self._watcher
        if watcher is None:
            return
        loop = asyncio.get_running_loop()
        timeout_s = _DEFAULT_TIMEOUT_S if self._query.timeout_s is None else self._query.timeout_s
        end_s = loop.time() + timeout_s
        next_bookmark_s = self._next_bookmark_s(loop.time(), end_s)
        while not watcher.closed:
            timer = loop.call_at(min(end_s, next_bookmark_s), watcher.wake)
            lines = await watcher.wait()
            timer.cancel()
            if loop.time() >= next_bookmark_s:
                lines += watch.frame("BOOKMARK", self._presenter.bookmark(self._state.store.revision))
                next_bookmark_s = self._next_bookmark_s(loop.time(), end_s)
            if lines:
                yield lines
            if loop.time() >= end_s:
                return
        if rest := watcher.take():
            yield rest

    def close(self) -> None:
        """Unregister the watch."""
        if self._watcher is not None:
            self._state.hub.forget(self._target.resource.storage, self._watcher)

    def _next_bookmark_s(self, now_s: float, end_s: float) -> float:
        if not self._query.bookmarks:
            return end_s + 1.0
        last_s = end_s - _BOOKMARK_BEFORE_END_S
        if now_s >= last_s:
            return end_s + 1.0
        return min(now_s + _BOOKMARK_EVERY_S, last_s)
