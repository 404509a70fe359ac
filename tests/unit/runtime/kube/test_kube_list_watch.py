"""A mirror of a collection keeps a reader's copy right whatever the API does, and never asks in a busy loop."""

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import orjson
import pytest

from carico_core.domain import errors
from carico_core.runtime.kube import access as accesses
from carico_core.runtime.kube import api_client, list_watch, paged_lists
from carico_core.runtime.process import clock as clocks
from tests.tools import waiting

AWAY = errors.ApiUnavailable("away")
GONE = errors.Gone(status=410, reason="Expired", message="too old", request="GET /x")


class End(Exception):
    """The script is over."""


class Script:
    """An API that answers as written: lists are pages or errors; watches are lines, then an error or an end."""

    def __init__(self, *, lists: list[Any], watches: list[list[Any]]) -> None:
        self.lists = lists
        self.watches = watches
        self.asked: list[dict[str, str]] = []

    async def request(
        self, method: str, path: str, *, params: Mapping[str, str] | None = None, timeout_s: float = 10.0
    ) -> Any:
        self.asked.append({"list": "1", **(params or {})})
        answer = self.lists.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def stream(
        self, method: str, path: str, params: Mapping[str, str] | None = None, *, idle_timeout_s: float | None = None
    ) -> AsyncGenerator[bytes, None]:
        self.asked.append(dict(params or {}))
        if not self.watches:
            raise End
        for item in self.watches.pop(0):
            if isinstance(item, Exception):
                raise item
            yield item if isinstance(item, bytes) else orjson.dumps(item) + b"\n"

    def positions(self) -> list[str]:
        """What each list and watch started from."""
        return ["list" if "list" in item else item["resourceVersion"] for item in self.asked]


def obj(name: str, version: int | str) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": str(version)}}


def page(version: int, *items: dict[str, Any], following: str = "") -> dict[str, Any]:
    return {"metadata": {"resourceVersion": str(version), "continue": following}, "items": list(items)}


def event(kind: str, name: str, version: int | str) -> dict[str, Any]:
    return {"type": kind, "object": obj(name, version)}


def failure(code: int) -> dict[str, Any]:
    return {"type": "ERROR", "object": {"kind": "Status", "code": code, "reason": "R", "message": "m"}}


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Every wait of a mirror; none is really waited."""
    seen: list[float] = []

    async def sleep(seconds: float) -> None:
        seen.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    return seen


async def run(
    script: Script, clock: clocks.FakeClock | None = None, *, options: list_watch.Options = list_watch.DEFAULT_OPTIONS
) -> list[str]:
    """What a mirror tells until the script ends."""
    told: list[str] = []
    mirror = list_watch.mirror(
        script,
        "/x",
        params={"labelSelector": "a=b"},
        clock=clock or clocks.FakeClock(),
        rng=random.Random(1),
        options=options,
    )
    with contextlib.suppress(End):
        async for item in mirror:
            match item:
                case list_watch.Listed(objects=objects):
                    told.append("list " + ",".join(found["metadata"]["name"] for found in objects))
                case list_watch.Changed(type=kind, object=found):
                    told.append(f"{kind} {found['metadata']['name']}")
                case list_watch.Away():
                    told.append("away")
    return told


async def test_pages_then_changes(waits: list[float]) -> None:
    script = Script(
        lists=[page(5, obj("a", 1), following="next"), page(5, obj("b", 2))],
        watches=[[event("ADDED", "c", 6), event("DELETED", "a", 7)]],
    )
    assert await run(script) == ["list a,b", "ADDED c", "DELETED a"]
    assert script.asked[0] == {"list": "1", "labelSelector": "a=b", "limit": "500"}
    assert script.asked[1]["continue"] == "next"
    assert script.asked[2]["resourceVersion"] == "5"
    assert script.asked[2]["allowWatchBookmarks"] == "true"
    assert 240 <= int(script.asked[2]["timeoutSeconds"]) <= 300
    assert script.asked[3]["resourceVersion"] == "7"


async def test_objects_of_a_list_are_read_page_by_page() -> None:
    read: list[str] = []

    class Paged(Script):
        async def request(self, *arguments: Any, **more: Any) -> Any:
            read.append("page")
            return await super().request(*arguments, **more)

    def name(found: dict[str, Any]) -> str:
        read.append(found["metadata"]["name"])
        return str(found["metadata"]["name"])

    script = Paged(lists=[page(5, obj("a", 1), obj("b", 1), following="next"), page(5, obj("c", 2))], watches=[])
    listed = await paged_lists.list_all(script, "/x", params={}, read=name)
    assert (listed.objects, read) == (["a", "b", "c"], ["page", "a", "b", "page", "c"])


async def test_a_list_whose_pages_expire_is_read_without_pages(waits: list[float]) -> None:
    whole = page(6, obj("a", 1), obj("b", 6))
    script = Script(lists=[page(5, obj("a", 1), following="next"), GONE], watches=[[whole]])
    assert await run(script) == ["list a,b"]
    assert "limit" not in script.asked[2]
    assert "continue" not in script.asked[2]


async def test_bookmarks_move_the_position_and_are_not_yielded(waits: list[float]) -> None:
    script = Script(lists=[page(5)], watches=[[event("BOOKMARK", "", 90)], [event("ADDED", "a", 91)]])
    assert await run(script) == ["list ", "ADDED a"]
    assert script.positions() == ["list", "5", "90", "91"]


async def test_repeated_and_older_events_are_not_yielded(waits: list[float]) -> None:
    script = Script(
        lists=[page(5, obj("a", 5))],
        watches=[
            [event("MODIFIED", "a", 5), event("MODIFIED", "a", 8), event("MODIFIED", "a", 8), event("MODIFIED", "a", 6)]
        ],
    )
    assert await run(script) == ["list a", "MODIFIED a"]
    assert script.positions() == ["list", "5", "8"]


async def test_a_delete_with_the_version_of_the_last_change_is_yielded(waits: list[float]) -> None:
    script = Script(lists=[page(5, obj("a", 5))], watches=[[event("DELETED", "a", 5)]])
    assert await run(script) == ["list a", "DELETED a"]


async def test_versions_that_are_not_numbers_are_taken_as_they_come(waits: list[float]) -> None:
    script = Script(lists=[page(5)], watches=[[event("ADDED", "a", "x9"), event("ADDED", "b", "x1")]])
    assert await run(script) == ["list ", "ADDED a", "ADDED b"]
    assert script.positions() == ["list", "5", "x1"]


@pytest.mark.parametrize("told_in", ["stream", "answer"])
async def test_too_old_is_listed_again(told_in: str, waits: list[float]) -> None:
    refusal: Any = failure(410) if told_in == "stream" else GONE
    script = Script(lists=[page(5), page(50, obj("a", 9))], watches=[[refusal], [event("ADDED", "b", 51)]])
    assert await run(script) == ["list ", "list a", "ADDED b"]
    assert script.positions() == ["list", "5", "list", "50", "51"]


async def test_one_break_is_silent(waits: list[float]) -> None:
    changes: list[list[Any]] = [[event("ADDED", "a", 6), AWAY], [event("ADDED", "b", 7), AWAY]]
    script = Script(lists=[page(5)], watches=[*changes, [event("BOOKMARK", "", 7)], [AWAY]])
    assert await run(script) == ["list ", "ADDED a", "ADDED b"]
    assert script.positions() == ["list", "5", "6", "7", "7", "7"]


async def test_two_breaks_are_one_away_and_a_new_list(waits: list[float]) -> None:
    lists = [page(5, obj("a", 1)), AWAY, AWAY, errors.ApiBusy("too many requests"), page(3)]
    script = Script(lists=lists, watches=[[AWAY], [AWAY], [event("ADDED", "b", 4)]])
    # The version is lower than before: another past, as after a restored backup.
    assert await run(script) == ["list a", "away", "list ", "ADDED b"]
    assert script.positions() == ["list", "5", "5", "list", "list", "list", "list", "3", "4"]


@pytest.mark.parametrize("heard", [[], [event("ADDED", "old", 4)]])
async def test_what_says_nothing_new_after_a_break_is_listed_again(heard: list[Any], waits: list[float]) -> None:
    """A reader that was suspended while etcd was restored from a backup saw nothing until the API had caught up."""
    script = Script(
        lists=[page(50, obj("a", 1)), page(3)],
        watches=[[event("ADDED", "b", 60), AWAY], heard, [event("ADDED", "c", 4)]],
    )
    assert await run(script) == ["list a", "ADDED b", "list ", "ADDED c"]
    assert script.positions() == ["list", "50", "60", "list", "3", "4"]
    assert [int(each["timeoutSeconds"]) <= list_watch.DOUBTED_WATCH_S for each in script.asked if "watch" in each] == [
        False, True, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize("version", [5, 8])
async def test_a_bookmark_after_a_break_shows_that_the_position_holds(version: int, waits: list[float]) -> None:
    watches: list[list[Any]] = [[AWAY], [event("BOOKMARK", "", version)], [], [event("ADDED", "a", 9)]]
    script = Script(lists=[page(5)], watches=watches)
    assert await run(script) == ["list ", "ADDED a"]
    assert script.positions() == ["list", "5", "5", str(version), str(version), "9"]


async def test_an_api_that_comes_up_and_does_not_serve_the_collection_says_so(waits: list[float]) -> None:
    missing = errors.NotFound(status=404, reason="NotFound", message="no such resource", request="GET /x")
    silent = errors.ApiSilent("no answer in time")
    script = Script(lists=[AWAY, silent, AWAY, missing, missing, page(5)], watches=[])
    mirror = list_watch.mirror(
        script, "/x", params={}, clock=clocks.FakeClock(), rng=random.Random(1), options=list_watch.DEFAULT_OPTIONS
    )  # fmt: skip
    async with contextlib.aclosing(mirror):
        told = [await anext(mirror) for _ in range(3)]
    assert [each.error if isinstance(each, list_watch.Away) else "listed" for each in told] == [AWAY, missing, "listed"]


async def test_away_comes_once_for_each_outage(waits: list[float]) -> None:
    script = Script(lists=[AWAY, AWAY, page(5), AWAY, page(6)], watches=[[GONE], []])
    assert await run(script) == ["away", "list ", "away", "list "]


@pytest.mark.parametrize(
    "line",
    [
        b"{not json}\n",
        b"[]\n",
        b"null\n",
        b'{"type": "ADDED"}\n',
        b'{"type": "ADDED", "object": null}\n',
        b'{"type": "ADDED", "object": {"metadata": {}}}\n',
        b'{"type": "ADDED", "object": {"metadata": []}}\n',
        b'{"type": "NEWS", "object": {"metadata": {"resourceVersion": "9"}}}\n',
        b'{"type": "ERROR", "object": null}\n',
        b'{"type": "ERROR", "object": {"code": "x"}}\n',
    ],
)
async def test_a_line_that_cannot_be_read_ends_the_watch_only(line: bytes, waits: list[float]) -> None:
    script = Script(lists=[page(5)], watches=[[event("ADDED", "a", 6), line], [event("ADDED", "b", 7)]])
    assert await run(script) == ["list ", "ADDED a", "ADDED b"]


@pytest.mark.parametrize("code", [500, 504, 403, 0])
async def test_an_error_in_the_stream_is_a_break(code: int, waits: list[float]) -> None:
    script = Script(lists=[page(5)], watches=[[event("ADDED", "a", 6), failure(code)], [event("ADDED", "b", 7)]])
    assert await run(script) == ["list ", "ADDED a", "ADDED b"]


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        "x",
        {},
        {"items": []},
        {"items": 5, "metadata": {"resourceVersion": "1"}},
        {"items": ["x"], "metadata": {"resourceVersion": "1"}},
        {"items": [{"metadata": None}], "metadata": {"resourceVersion": "1"}},
    ],
)
async def test_a_list_that_cannot_be_read_is_away(answer: Any, waits: list[float]) -> None:
    script = Script(lists=[answer, page(5)], watches=[])
    assert await run(script) == ["away", "list "]


async def test_half_a_line_at_the_end_is_not_an_object(waits: list[float]) -> None:
    whole = orjson.dumps(event("ADDED", "a", 6)) + b"\n"
    script = Script(lists=[page(5)], watches=[[whole[:9], whole[9:] + whole[:20]], [event("ADDED", "b", 7)]])
    assert await run(script) == ["list ", "ADDED a", "ADDED b"]
    assert script.positions() == ["list", "5", "6", "7"]


async def test_a_line_without_end_is_refused(waits: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_watch, "LINE_LIMIT_BYTES", 1000)
    script = Script(lists=[page(5)], watches=[[b"x" * 600, b"x" * 600, event("ADDED", "a", 6)]])
    assert await run(script) == ["list "]


async def test_watches_that_end_at_once_are_asked_for_ever_less(waits: list[float]) -> None:
    script = Script(lists=[page(5)], watches=[[] for _ in range(50)])
    await run(script)
    assert len(waits) == 50
    assert all(wait > 0.04 for wait in waits)
    assert sum(waits[20:]) > 30 * 2.0


async def test_lists_and_410_in_turn_are_asked_for_ever_less(waits: list[float]) -> None:
    script = Script(lists=[page(5) for _ in range(41)], watches=[[GONE] for _ in range(40)])
    await run(script)
    assert sum(waits[20:]) > 20 * 2.0


async def test_an_api_that_is_away_is_asked_for_ever_less_and_by_chance(waits: list[float]) -> None:
    script = Script(lists=[AWAY for _ in range(40)] + [page(5)], watches=[])
    await run(script)
    assert 0.05 <= waits[0] <= 0.1
    assert max(waits) <= list_watch.DEFAULT_OPTIONS.backoff_most_s
    assert len({round(wait, 6) for wait in waits[10:]}) > 20


async def test_those_who_decide_list_within_2_s_of_the_return_of_an_api_however_long_it_was_away(
    waits: list[float],
) -> None:
    script = Script(lists=[AWAY for _ in range(40)] + [page(5)], watches=[])
    await run(script, options=list_watch.FRESH_OPTIONS)
    assert len(waits) == 40
    assert max(waits) <= 1.5
    assert sum(waits[20:]) > 20 * 0.7


async def test_a_quiet_watch_that_lasted_is_resumed_at_once(waits: list[float]) -> None:
    clock = clocks.FakeClock()

    class Lasting(Script):
        async def stream(
            self,
            method: str,
            path: str,
            params: Mapping[str, str] | None = None,
            *,
            idle_timeout_s: float | None = None,
        ) -> AsyncGenerator[bytes, None]:
            clock.advance(240.0)
            async for line in super().stream(method, path, params, idle_timeout_s=idle_timeout_s):
                yield line

    assert await run(Lasting(lists=[page(5)], watches=[[AWAY] for _ in range(20)]), clock) == ["list "]
    assert max(waits) <= 0.1


async def test_the_client_waits_longer_than_the_server(waits: list[float]) -> None:
    idle: list[float | None] = []

    class Noting(Script):
        async def stream(
            self,
            method: str,
            path: str,
            params: Mapping[str, str] | None = None,
            *,
            idle_timeout_s: float | None = None,
        ) -> AsyncGenerator[bytes, None]:
            idle.append(idle_timeout_s)
            async for line in super().stream(method, path, params, idle_timeout_s=idle_timeout_s):
                yield line

    script = Noting(lists=[page(5)], watches=[])
    await run(script)
    assert idle[0] is not None
    assert idle[0] > int(script.asked[1]["timeoutSeconds"])


async def test_a_server_that_goes_silent_is_given_up_at_the_second_try_however_long_each_lasts(
    waits: list[float],
) -> None:
    clock = clocks.FakeClock()

    class Stopped(Script):
        async def stream(self, *arguments: Any, **more: Any) -> AsyncGenerator[bytes, None]:
            async for chunk in super().stream(*arguments, **more):
                yield chunk
            clock.advance(30.0)
            raise errors.ApiSilent("no answer in time")

    script = Stopped(lists=[page(5), page(5)], watches=[[event("ADDED", "a", 6)], [], []])
    script.lists.append(End())
    assert await run(script, clock) == ["list ", "ADDED a", "away", "list ", "away"]


def test_fresh_mirrors_notice_a_stopped_server_within_45_s() -> None:
    options = list_watch.FRESH_OPTIONS
    silent_s = 1.25 * options.watch_s + options.grace_s
    assert silent_s + options.backoff_first_s + api_client.WATCH_START_TIMEOUT_S < 45.0


async def test_the_age_of_a_mirror_is_the_time_since_its_own_server_sent_anything(waits: list[float]) -> None:
    clock, ages = clocks.FakeClock(), []
    fresh = list_watch.CopyAge(clock)
    assert fresh.age_s() is None

    class Slow(Script):
        async def request(self, *arguments: Any, **more: Any) -> Any:
            answer = await super().request(*arguments, **more)
            clock.advance(2.0)
            return answer

        async def stream(self, *arguments: Any, **more: Any) -> AsyncGenerator[bytes, None]:
            clock.advance(7.0)
            ages.append(fresh.age_s())
            async for chunk in super().stream(*arguments, **more):
                yield chunk
                clock.advance(1.0)

    # A list of 2 s; a bookmark and the end of the watch 1 s later; an event; a break, which is no sign of life.
    bookmarks = [event("BOOKMARK", "", version) for version in (9, 10)]
    watches: list[list[Any]] = [bookmarks[:1], [event("ADDED", "a", 10), errors.ApiSilent("x")], bookmarks[1:]]
    script = Slow(lists=[page(5)], watches=watches)
    mirror = list_watch.mirror(
        script, "/x", params={}, clock=clock, rng=random.Random(1), options=list_watch.FRESH_OPTIONS, freshness=fresh
    )
    with contextlib.suppress(End):
        async for _ in mirror:
            pass
    assert ages == [9.0, 7.0, 8.0, 7.0]


async def test_a_stopped_server_is_noticed_although_its_connections_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list is answered; the watch begins and stays silent past its time; the second one is not even answered."""
    listed = orjson.dumps(page(5, obj("a", 1)))
    watches = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal watches
        with contextlib.suppress(asyncio.IncompleteReadError, OSError), contextlib.closing(writer):
            while True:
                request = await reader.readuntil(b"\r\n\r\n")
                if b"watch=1" not in request:
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(listed), listed))
                    continue
                watches += 1
                if watches == 1:
                    # Only for the second one: the first imports aiohttp, which takes a second under load.
                    monkeypatch.setattr(api_client, "WATCH_START_TIMEOUT_S", 0.3)
                    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    access = accesses.Access(
        server=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", tls=None,
        credentials=accesses.FixedCredentials(),
    )  # fmt: skip
    client = api_client.KubeClient(
        access, wanted=api_client.KubeSettings(), clock=clocks.SystemClock(), user_agent="test",
        watching=list_watch.Options(watch_s=0.2, grace_s=0.1, backoff_first_s=0.01),
    )  # fmt: skip
    async with asyncio.timeout(waiting.WAIT_S):
        async with contextlib.aclosing(client.mirror("/api/v1/pods")) as mirror:
            assert isinstance(await anext(mirror), list_watch.Listed)
            away = await anext(mirror)
    assert isinstance(away, list_watch.Away) and isinstance(away.error, errors.ApiSilent)
    assert watches == 2
    await client.close()
    server.close()
    # The connections' tasks end.
    await asyncio.sleep(0.05)


async def test_events_gather_for_a_moment_that_grows_with_their_number(waits: list[float]) -> None:
    watched = [orjson.dumps(event("ADDED", f"n{version}", version)) + b"\n" for version in range(6, 60)]
    script = Script(lists=[page(5)], watches=[[watched[0], b"".join(watched[1:4]), b"".join(watched[4:])]])
    options = list_watch.Options(gather_s=0.01)
    assert len(await run(script, options=options)) == 1 + len(watched)
    assert waits[:3] == [0.002, 0.006, 0.01]


async def test_nothing_is_waited_for_while_more_has_come_than_is_read_at_once(waits: list[float]) -> None:
    long = event("ADDED", "n" * list_watch.READ_BYTES, 6)
    script = Script(lists=[page(5)], watches=[[long, event("ADDED", "b", 7)]])
    assert len(await run(script, options=list_watch.Options(gather_s=0.01))) == 3
    assert waits[0] == 0.002
