"""A list read as it comes: the same objects however the bytes are cut, and never more than a few of them held."""

import asyncio
import random
import tracemalloc
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import orjson
import pytest

from carico_core.domain import errors
from carico_core.runtime.kube import paged_lists

GONE = errors.Gone(status=410, reason="Expired", message="too old", request="GET /x")
# What stands between two objects, in places where it is not that.
TRAPS = {
    "spec": {"claims": [{"metadata": {"name": "x"}}, {"metadata": {"name": "y"}}], "text": 'a"},{"metadata":{"b'},
    "status": {"list": [{"metadata": {}}, {"metadata": {}}], "é": "ü\\"},
}


class Expiring:
    """An API whose pages expire after the first, and that then sends `parts`."""

    def __init__(self, parts: list[bytes]) -> None:
        self._parts = parts
        self._first = True

    async def request(
        self, method: str, path: str, *, params: Mapping[str, str] | None = None, timeout_s: float = 10.0
    ) -> Any:
        if not self._first:
            raise GONE
        self._first = False
        return {"metadata": {"resourceVersion": "1", "continue": "next"}, "items": []}

    async def stream(
        self, method: str, path: str, params: Mapping[str, str] | None = None, *, idle_timeout_s: float | None = None
    ) -> AsyncGenerator[bytes, None]:
        assert params == {"labelSelector": "a=b"}
        for part in self._parts:
            yield part


def obj(number: int, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": f"pod-{number}", "uid": str(number)}, **more}


def answer(*items: dict[str, Any], option: int | None = None) -> bytes:
    metadata = {"resourceVersion": "7"}
    return orjson.dumps({"kind": "PodList", "metadata": metadata, "items": list(items)}, option=option)


def cut(text: bytes, rng: random.Random) -> list[bytes]:
    most = rng.choice((2, 9, 100, len(text)))
    parts, at = [], 0
    while at < len(text):
        size = rng.randint(1, most)
        parts.append(text[at : at + size])
        at += size
    return parts


async def listed(parts: list[bytes], read: paged_lists.Read | None = None) -> paged_lists.Listed:
    return await paged_lists.list_all(Expiring(parts), "/x", params={"labelSelector": "a=b"}, read=read)


@pytest.mark.parametrize("option", [None, orjson.OPT_INDENT_2])
@pytest.mark.parametrize("count", [0, 1, 2, 5])
async def test_a_list_is_the_same_however_it_arrives(count: int, option: int | None) -> None:
    items = [obj(number, **TRAPS) for number in range(count)]
    rng = random.Random(count)
    for _ in range(20):
        found = await listed(cut(answer(*items, option=option), rng))
        assert found == paged_lists.Listed(objects=items, resource_version="7")


async def test_objects_that_begin_differently_come_all_the_same() -> None:
    items = [obj(1), {"kind": "Pod", **obj(2)}, obj(3), {"apiVersion": "v1", **obj(4)}]
    text = answer(*items)
    tail_first = orjson.dumps({"items": items, "metadata": {"resourceVersion": "7"}})
    for each in (text, tail_first):
        assert (await listed([each[:30], each[30:]])).objects == items


@pytest.mark.parametrize(
    "parts",
    [
        [answer(obj(1), obj(2))[:-3]],
        [answer(obj(1), obj(2))[:-30]],
        [],
        [b"no JSON"],
        [b'{"metadata":{},"items":[]}'],
        [b'{"items":[{"metadata":1},{"metadata":{}}],"metadata":{"resourceVersion":"1"}}'],
    ],
)
async def test_what_is_no_whole_list_is_refused(parts: list[bytes]) -> None:
    with pytest.raises(errors.ApiUnavailable, match="/x"):
        await listed(parts)


@pytest.mark.parametrize(("token", "requests"), [("again", 2), ("{0}", paged_lists.PAGES_MOST)])
async def test_a_list_without_end_is_no_list(token: str, requests: int) -> None:
    """A command asked for its pages for ever, whether one follows itself or each has another token."""

    class Again(Expiring):
        pages = 0

        async def request(
            self, method: str, path: str, *, params: Mapping[str, str] | None = None, timeout_s: float = 10.0
        ) -> Any:
            self.pages += 1
            assert self.pages <= paged_lists.PAGES_MOST
            return {"metadata": {"resourceVersion": "1", "continue": token.format(self.pages)}, "items": []}

    api = Again([])
    with pytest.raises(errors.ApiUnavailable, match="no end"):
        await paged_lists.list_all(api, "/x", params={})
    assert api.pages == requests


async def test_an_object_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paged_lists, "UNSPLIT_LIMIT_BYTES", 1000)
    with pytest.raises(errors.ApiUnavailable, match="1000 bytes"):
        await listed([answer(obj(1, text="x" * 2000))])


@pytest.mark.parametrize("way", ["pages", "stream"])
def test_of_a_list_no_more_is_held_than_a_page(way: str) -> None:
    """Of eight pages of Pods, one is there at a time, or a fraction of one."""
    count = 4_000
    more = {"spec": {f"field-{number}": {"value": f"{number:040}"} for number in range(25)}}
    one = orjson.dumps(obj(1, **more))
    page_bytes = paged_lists.PAGE_LIMIT * len(one)

    class Api(Expiring):
        """Sends what it makes at that moment, so that it holds nothing itself."""

        async def request(self, method: str, path: str, **others: Any) -> Any:
            if way == "stream":
                return await super().request(method, path, **others)
            at = int(others["params"].get("continue", 0))
            page = b'{"metadata":{"resourceVersion":"7","continue":"%d"},"items":[' % (at + paged_lists.PAGE_LIMIT)
            if at + paged_lists.PAGE_LIMIT >= count:
                page = page.replace(b'"continue":"%d"' % count, b'"continue":""')
            return orjson.loads(page + b",".join([one] * paged_lists.PAGE_LIMIT) + b"]}")

        async def stream(self, *_: Any, **__: Any) -> AsyncGenerator[bytes, None]:
            yield b'{"metadata":{"resourceVersion":"7"},"items":['
            for number in range(0, count, 20):
                yield b",".join([one] * 20) + (b"," if number + 20 < count else b"]}")

    async def read() -> int:
        names = await paged_lists.list_all(Api([]), "/x", params={}, read=lambda found: found["metadata"]["uid"])
        return len(names.objects)

    tracemalloc.start()
    try:
        assert asyncio.run(read()) == count
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Decoded, a page takes nine times its bytes, and orjson twelve times as many while it decodes.
    assert peak_bytes < (24 if way == "pages" else 1) * page_bytes
