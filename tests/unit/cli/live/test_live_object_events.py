"""The newest Events about an object, however many there are."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from carico_cli.live import object_events
from carico_core.domain import errors
from carico_core.runtime.kube import paged_lists


def event(number: int) -> dict[str, Any]:
    """One whose time is the reverse of its place in the list, as far as 100,000 go."""
    at = 100_000 - number
    return {"message": str(number), "lastTimestamp": f"2026-01-01T{at // 3600:02d}:{at // 60 % 60:02d}:{at % 60:02d}Z"}


class Api:
    """An API with so many Events; `fails` says from which one on it raises what."""

    def __init__(self, count: int, fails: Callable[[int], Exception | None] = lambda _: None) -> None:
        self.count = count
        self.fails = fails
        self.asked: list[Mapping[str, str]] = []

    async def request(self, method: str, path: str, *, params: Mapping[str, str] | None = None) -> Any:
        assert (method, path) == ("GET", "/api/v1/namespaces/shop/events")
        assert params is not None and params["fieldSelector"] == "involvedObject.uid=u"
        self.asked.append(params)
        first = int(params.get("continue", "0"))
        if (error := self.fails(first)) is not None:
            raise error
        last = min(first + int(params["limit"]), self.count)
        following = {"continue": str(last)} if last < self.count else {}
        return {"metadata": following, "items": [event(number) for number in range(first, last)] or None}


async def read(api: Api) -> object_events.Found:
    return await object_events.newest(api, "shop", "involvedObject.uid=u")


def messages(found: object_events.Found) -> list[int]:
    return [int(each["message"]) for each in found.newest]


async def test_all_events_are_returned_with_the_newest_last() -> None:
    found = await read(Api(3))
    assert (messages(found), found.earlier, found.unread) == ([2, 1, 0], 0, None)
    assert await read(Api(0)) == object_events.Found(newest=[], earlier=0)


async def test_the_newest_of_many_are_kept_and_the_others_counted() -> None:
    count = 3 * paged_lists.PAGE_LIMIT
    found = await read(Api(count))
    assert messages(found) == list(reversed(range(object_events.KEPT_MOST)))
    assert (found.earlier, found.unread) == (count - object_events.KEPT_MOST, None)


async def test_of_a_hundred_thousand_only_the_first_are_read_and_that_is_said() -> None:
    api = Api(100_000)
    found = await read(api)
    assert len(api.asked) == object_events.READ_MOST / paged_lists.PAGE_LIMIT
    assert len(found.newest) == object_events.KEPT_MOST
    assert found.unread == "only the first 10,000 were read, by name; newer ones may be missing"


def later(error: Exception) -> Callable[[int], Exception | None]:
    return lambda first: error if first >= paged_lists.PAGE_LIMIT else None


GONE = errors.Gone(status=410, reason="Expired", message="too old", request="GET")


@pytest.mark.parametrize(("error", "why"), [(GONE, "change too fast"), (TimeoutError(), "were read within 4 s")])
async def test_a_list_that_breaks_off_is_said(error: Exception, why: str) -> None:
    found = await read(Api(1_000, later(error)))
    assert len(found.newest) == object_events.KEPT_MOST
    assert found.unread is not None and "the first 500" in found.unread and why in found.unread


async def test_an_api_that_does_not_answer_is_an_error() -> None:
    with pytest.raises(errors.ApiUnavailable, match="no answer within 4 s"):
        await read(Api(1, lambda _: TimeoutError()))
    forbidden = errors.Forbidden(status=403, reason="Forbidden", message="no right", request="GET")
    with pytest.raises(errors.Forbidden):
        await read(Api(1_000, later(forbidden)))
