"""The body of a request as JSON, and the query of a list or watch, parsed and checked."""

from collections.abc import Mapping

import orjson

from carico_core.runtime.process.connections import web
from carico_local.api.model import resources, statuses
from carico_local.api.storage import listing, selectors

_MATCHES = ("", "NotOlderThan")
_JSON = "application/json"


async def read_body(request: web.Request, accepted: tuple[str, ...] = (_JSON,)) -> object:
    """Return the decoded JSON of a body; raise `RequestFailed` (400, 413, 415)."""
    if request.content_type not in accepted:
        raise statuses.unsupported_media_type(request.content_type, accepted)
    try:
        body: object = orjson.loads(await request.read())
    except orjson.JSONDecodeError as error:
        raise statuses.bad_request(f"the body is not JSON: {error}") from error
    return body


def parse_list(resource: resources.Resource, query: Mapping[str, str]) -> listing.ListQuery:
    """Parse the query of a list or watch; raise `RequestFailed` (400)."""
    match = query.get("resourceVersionMatch", "")
    if match not in _MATCHES:
        raise statuses.bad_request(f"resourceVersionMatch: got {match!r}, expected NotOlderThan")
    return listing.ListQuery(
        selector=selectors.parse(
            resource, labels=query.get("labelSelector", ""), fields=query.get("fieldSelector", "")
        ),
        limit=_number(query, "limit") or 0,
        token=query.get("continue", ""),
        version=_number(query, "resourceVersion"),
        watch=flag(query, "watch"),
        bookmarks=flag(query, "allowWatchBookmarks"),
        initial_events=flag(query, "sendInitialEvents"),
        timeout_s=_number(query, "timeoutSeconds"),
    )


def flag(query: Mapping[str, str], name: str) -> bool:
    """Return whether a boolean parameter is set; raise `RequestFailed` (400) for any other value."""
    text = query.get(name, "").lower()
    if text not in ("", "true", "1", "t", "false", "0", "f"):
        raise statuses.bad_request(f"{name}: got {text!r}, expected true or false")
    return text in ("true", "1", "t")


def dry_run(query: Mapping[str, str]) -> bool:
    """Return whether the request is a dry run; raise `RequestFailed` (400)."""
    text = query.get("dryRun", "")
    if text not in ("", "All"):
        raise statuses.bad_request(f"dryRun: got {text!r}, expected All")
    return text == "All"


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise statuses.bad_request(f"{name}: got {text[:40]!r}, expected a number of 0 or more")
    return int(text)
