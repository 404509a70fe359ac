"""Events about an object of the Kubernetes API: the newest, however many there are.

The API lists Events by name and not by time, so that the newest are known once all have been read: in pages, of which
no more is kept than is shown. Both the number that is read and the time that it takes are bounded.
"""

import asyncio
import dataclasses
from collections.abc import Container, Mapping
from typing import Any, Protocol

from carico_core.domain import errors
from carico_core.runtime.kube import paged_lists

KEPT_MOST = 200
READ_MOST = 10_000
# Less than the 5 s that commands wait for the API.
WITHIN_S = 4.0

Event = Mapping[str, Any]


class Api(Protocol):
    """The Kubernetes API."""

    async def request(self, method: str, path: str, *, params: Mapping[str, str] | None = None) -> Any:
        """Return the decoded answer."""
        ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The newest Events, oldest first. `earlier`: how many were read and left out; `unread`: why not all were read."""

    newest: list[Event]
    earlier: int
    unread: str | None = None


async def newest(api: Api, namespace: str, selector: str, *, about: Container[str] | None = None) -> Found:
    """Return the newest Events of a namespace that a field selector selects. Raises `CaricoError`.

    `about`: the UIDs of the objects that they are about; None: any.
    """
    path, params = f"/api/v1/namespaces/{namespace}/events", {"fieldSelector": selector}
    params["limit"] = str(paged_lists.PAGE_LIMIT)
    kept: list[Event] = []
    read = left_out = 0
    unread = f"only the first {READ_MOST:,} were read, by name"
    try:
        async with asyncio.timeout(WITHIN_S):
            while read < READ_MOST:
                page = await api.request("GET", path, params=params)
                found = page["items"] or []
                read += len(found)
                wanted = [each for each in found if about is None or each["involvedObject"].get("uid") in about]
                left_out += len(kept) + len(wanted)
                kept = sorted([*kept, *wanted], key=when)[-KEPT_MOST:]
                left_out -= len(kept)
                following = (page.get("metadata") or {}).get("continue")
                if not following:
                    return Found(newest=kept, earlier=left_out)
                params = {**params, "continue": following}
    except TimeoutError:
        unread = f"only the first {read:,}, by name, were read within {WITHIN_S:g} s"
        if not read:
            raise errors.ApiUnavailable(f"GET {path}: no answer within {WITHIN_S:g} s") from None
    except errors.Gone:
        unread = f"only the first {read:,} were read, by name: they change too fast"
    return Found(newest=kept, earlier=left_out, unread=f"{unread}; newer ones may be missing")


def when(event: Event) -> str:
    """Return when an Event was last seen; all have the same format and zone, so that their order is that of time."""
    at = event.get("lastTimestamp") or event.get("eventTime") or event.get("metadata", {}).get("creationTimestamp")
    return str(at or "")
