"""A mirror of the API tells every change, whatever breaks: the same on every API that CARICO is tested on."""

import asyncio
import contextlib
import itertools
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from typing import Any

import pytest

from carico_core.domain import errors
from carico_core.runtime.kube import list_watch, paged_lists
from tests.contract import kube_site
from tests.contract.kubernetes import shapes
from tests.tools import waiting
from tests.tools.memory import memory_kube

PODS = "/api/v1/pods"


class Copy:
    """A reader of a mirror: keeps the objects, and notes the kinds of events."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.told: list[str] = []
        self._moved = asyncio.Event()

    async def follow(self, events: AsyncGenerator[list_watch.MirrorEvent, None]) -> None:
        """Read until cancelled."""
        async with contextlib.aclosing(events):
            async for event in events:
                self._take(event)
                self._moved.set()

    async def until(self, wanted: Callable[[], bool]) -> None:
        """Returns once `wanted` holds."""
        async with asyncio.timeout(kube_site.PATIENCE_S):
            while not wanted():
                self._moved.clear()
                await self._moved.wait()

    def versions(self) -> dict[str, str]:
        """The state as name -> resourceVersion."""
        return {name: obj["metadata"]["resourceVersion"] for name, obj in self.objects.items()}

    def _take(self, event: list_watch.MirrorEvent) -> None:
        match event:
            case list_watch.Listed(objects=objects):
                self.told.append("LISTED")
                self.objects = {obj["metadata"]["name"]: obj for obj in objects}
            case list_watch.Changed(type="DELETED", object=obj):
                self.told.append(f"DELETED {obj['metadata']['name']}")
                self.objects.pop(obj["metadata"]["name"])
            case list_watch.Changed(type=kind, object=obj):
                self.told.append(f"{kind} {obj['metadata']['name']}")
                self.objects[obj["metadata"]["name"]] = obj
            case list_watch.Away():
                self.told.append("AWAY")


@contextlib.asynccontextmanager
async def following(
    site: kube_site.Site, events: AsyncGenerator[list_watch.MirrorEvent, None] | None = None
) -> AsyncIterator[Copy]:
    """A copy that has listed once."""
    copy = Copy()
    task = asyncio.create_task(copy.follow(events or site.mirror()))
    try:
        await copy.until(lambda: bool(copy.told))
        yield copy
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_a_mirror_lists_then_tells_each_change(site: kube_site.Site) -> None:
    await site.create("a")
    async with following(site) as copy:
        await site.create("b")
        await site.client.request(
            "PATCH", f"{site.pods}/a", body={"metadata": {"labels": {"x": "1"}}}, content_type=shapes.MERGE
        )
        await site.delete("b")
        await copy.until(lambda: "DELETED b" in copy.told)
    # A real API tells first that the Pod is to go.
    assert [told for told in copy.told if told != "MODIFIED b"] == ["LISTED", "ADDED b", "MODIFIED a", "DELETED b"]
    assert copy.objects["a"]["metadata"]["labels"] == {"x": "1"}


async def test_a_list_of_many_pages_is_whole(site: kube_site.Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paged_lists, "PAGE_LIMIT", 3)
    for number in range(8):
        await site.create(f"p{number}")
    listed = await paged_lists.list_all(site.client, site.pods, params={})
    assert sorted(obj["metadata"]["name"] for obj in listed.objects) == [f"p{number}" for number in range(8)]
    async with following(site) as copy:
        await site.create("later")
        await copy.until(lambda: len(copy.objects) == 9)
    assert copy.told == ["LISTED", "ADDED later"]


class Expiring:
    """A client to which the snapshot of its pages expires after the first."""

    def __init__(self, client: kube_site.Client) -> None:
        self.stream = client.stream
        self._client = client

    async def request(
        self, method: str, path: str, *, params: Mapping[str, str] | None = None, timeout_s: float = 10.0
    ) -> Any:
        if "continue" in (params or {}):
            raise errors.Gone(status=410, reason="Expired", message="too old", request=path)
        return await self._client.request(method, path, params=params, timeout_s=timeout_s)


@pytest.mark.parametrize("count", [4, 200])
async def test_a_list_whose_pages_expire_is_whole(
    site: kube_site.Site, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(paged_lists, "PAGE_LIMIT", 3)
    names = [f"p{number}" for number in range(count)]
    for some in range(0, count, 50):
        await asyncio.gather(*(site.create(name) for name in names[some : some + 50]))
    listed = await paged_lists.list_all(Expiring(site.client), site.pods, params={})
    assert sorted(obj["metadata"]["name"] for obj in listed.objects) == sorted(names)
    whole = await site.client.request("GET", site.pods)
    assert listed.objects == whole["items"]


async def test_selectors_limit_a_mirror(site: kube_site.Site) -> None:
    pod = await site.create("a")
    await site.create("b")
    events = site.client.mirror(
        PODS, params={"fieldSelector": f"spec.nodeName={site.namespace}"}, options=kube_site.OPTIONS
    )
    async with following(site, events) as copy:
        assert copy.objects == {}
        await site.bind(pod)
        await copy.until(lambda: bool(copy.objects))
    assert copy.told == ["LISTED", "ADDED a"]


class Tampered:
    """A client whose first watches go wrong in one way."""

    def __init__(self, client: kube_site.Client, *, break_after: int | None = None, version: str | None = None) -> None:
        self._client = client
        self._break_after = break_after
        self._version = version

    async def request(
        self, method: str, path: str, *, params: Mapping[str, str] | None = None, timeout_s: float = 10.0
    ) -> Any:
        return await self._client.request(method, path, params=params, timeout_s=timeout_s)

    async def stream(
        self, method: str, path: str, params: Mapping[str, str] | None = None, *, idle_timeout_s: float | None = None
    ) -> AsyncGenerator[bytes, None]:
        asked = dict(params or {})
        if self._version is not None:
            asked["resourceVersion"], self._version = self._version, None
        limit, self._break_after = self._break_after, None
        async with contextlib.aclosing(
            self._client.stream(method, path, asked, idle_timeout_s=idle_timeout_s)
        ) as chunks:
            async for chunk in chunks:
                if limit is not None:
                    # Half an object, then silence for good.
                    yield chunk[:limit]
                    raise errors.ApiUnavailable("broke off")
                yield chunk


async def test_a_broken_watch_is_resumed_where_it_stood(site: kube_site.Site) -> None:
    api = Tampered(site.client, break_after=20)
    async with following(site, site.mirror(api)) as copy:
        await site.create("a")
        await site.create("b")
        await copy.until(lambda: len(copy.objects) == 2)
    assert copy.told == ["LISTED", "ADDED a", "ADDED b"]


async def test_a_version_too_old_is_listed_again(site: kube_site.Site) -> None:
    await site.create("a")
    if isinstance(site.client, memory_kube.MemoryKube):
        site.client.compact()
    else:
        # A restarted API server knows no earlier change.
        await site.restart()
    async with following(site, site.mirror(Tampered(site.client, version="1"))) as copy:
        await copy.until(lambda: len(copy.told) == 2)
        await site.create("b")
        await copy.until(lambda: len(copy.objects) == 2)
    assert copy.told == ["LISTED", "LISTED", "ADDED b"]


async def test_nothing_is_lost_while_the_api_is_killed_and_restarted(site: kube_site.Site) -> None:
    stop = threading.Event()
    written: list[str] = []

    def has(count: int) -> Callable[[], bool]:
        return lambda: len(written) >= count

    async with following(site) as copy:
        writing = asyncio.create_task(write_until(site, stop, written))
        for times in (1, 2):
            await waiting.until(has(5 * times))
            await site.restart()
        await waiting.until(has(15))
        stop.set()
        await writing
        listed = await paged_lists.list_all(site.client, site.pods, params={})
        truth = {obj["metadata"]["name"]: obj["metadata"]["resourceVersion"] for obj in listed.objects}
        await copy.until(lambda: copy.versions() == truth)
    assert 1 <= copy.told.count("AWAY") <= 2
    assert copy.told.count("LISTED") == 1 + copy.told.count("AWAY")


async def write_until(site: kube_site.Site, stop: threading.Event, written: list[str]) -> None:
    """Pods come, change and go, also while the API is away; `written` has a name for each write that succeeded."""
    for number in itertools.count():
        if stop.is_set():
            return
        name, older = f"p{number}", f"p{number - 3}"
        with contextlib.suppress(errors.ApiUnavailable, errors.NotFound, errors.Conflict):
            await site.create(name)
            written.append(name)
            if number % 2:
                await site.delete(older)
                written.append(older)
        await asyncio.sleep(0.005)
