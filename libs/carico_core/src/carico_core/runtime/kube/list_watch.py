"""List and watch one collection for ever, as a stream of events that keeps a reader's copy up to date.

Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
"""

import asyncio
import contextlib
import dataclasses
import random
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Literal, cast

import orjson

from carico_core.domain import errors
from carico_core.numerics import backoff
from carico_core.runtime.kube import paged_lists
from carico_core.runtime.process import clock as clocks

Object = paged_lists.Object
ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]
# The first event, and the first after each gap.
Listed = paged_lists.Listed
# One line of a watch is one object, and etcd accepts at most 1.5 MiB.
LINE_LIMIT_BYTES = 16 * 2**20


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """One object was added, modified or deleted (then `object` is its last state)."""

    type: ChangeType
    object: Object


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Away:
    """The API does not answer, or refuses; reported once for each kind of error in turn, until the next `Listed`."""

    error: errors.CaricoError


MirrorEvent = Listed | Changed | Away


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Times of a list-watch, in seconds."""

    # The server ends a watch after this long (times 1 to 1.25, so that clients spread); client-go: 5 to 10 minutes.
    watch_s: float = 240.0
    # How much longer the client waits before it considers the connection dead.
    grace_s: float = 15.0
    list_timeout_s: float = paged_lists.TIMEOUT_S
    backoff_first_s: float = 0.1
    backoff_most_s: float = 5.0
    # After reading n events, later ones are left to gather for 2 n ms, and for this long at most. To be woken for one
    # event takes as much CPU time as to read it. Where events are seldom, each is read about as soon as it comes.
    gather_s: float = 0.0


_GATHER_PER_EVENT_S = 0.002
# After more than this there probably is still more: what a transport reads at once, and half of what aiohttp keeps.
READ_BYTES = 64 * 1024
DEFAULT_OPTIONS = Options()
# From a version that it has not reached yet kube-apiserver sends nothing at all, not even the bookmark that comes 2 s
# before the end of other watches: after a break, a watch of this length shows whether the API still has the position.
DOUBTED_WATCH_S = 20.0
# A server that is stopped keeps its TCP connections alive. Only a watch that ends on time shows that its own server
# still works, even if several servers share an address. A watch of 20 to 25 s that is 8 s late, and a second one that
# does not start within 10 s, make 43 s until `Away`; client-go's HTTP/2 pings take 45 s. This costs a request every 22
# s per collection, so it is for those that decide by what they see, not for every agent.
# And they ask an API that is away more often, so that binds continue within 2 s of its return; few processes do.
# They follow every Pod, in up to thousands of events a second.
FRESH_OPTIONS = Options(watch_s=20.0, grace_s=8.0, backoff_most_s=1.5, gather_s=0.01)


class CopyAge:
    """The age of a copy: the time since the watched server sent anything, or ended a watch on time."""

    def __init__(self, clock: clocks.Clock) -> None:
        self._clock = clock
        self._answered_s: float | None = None

    def note(self, answered_s: float | None = None) -> None:
        """Note that the server answered, now or at `answered_s`."""
        self._answered_s = self._clock.monotonic_s() if answered_s is None else answered_s

    def age_s(self) -> float | None:
        """Return the seconds since the server last answered; None before the first list."""
        return None if self._answered_s is None else self._clock.monotonic_s() - self._answered_s


async def mirror(
    api: paged_lists.Api, path: str, *, params: Mapping[str, str], clock: clocks.Clock, rng: random.Random,
    options: Options, read: paged_lists.Read | None = None, freshness: CopyAge | None = None,
) -> AsyncGenerator[MirrorEvent, None]:  # fmt: skip
    """Yield `Listed`, then `Changed` for each change; never ends by itself.

    A watch that ends, or breaks once, is resumed at its position without an event. If the API stays away, `Away` is
    yielded once, and a new list when it is back: a server that restarted may have another history, so the old one is
    not relied on. Neither is it if nothing comes at all after a single break: a reader that was suspended may have
    missed that etcd was restored from a backup. One that is back and does not serve the collection yields `Away` once
    more, with that error. After 410 it lists again. Events that the reader has seen are not repeated.

    `read` is applied to each object of a list as it arrives: see `kube.paged_lists.list_all`. `freshness` is updated
    whenever the watched server sends something.
    """
    follower = _Follower(
        api, path, params=params, clock=clock, rng=rng, options=options, read=read,
        freshness=freshness or CopyAge(clock),
    )  # fmt: skip
    while True:
        if follower.position is None:
            async for event in follower.list_until_listed():
                yield event
                # A list would stay in memory until the next event.
                del event
        async with contextlib.aclosing(follower.watch()) as events:
            async for event in events:
                yield event


class _Follower:
    """The position of one list-watch, and the rules for continuing after each kind of end."""

    def __init__(
        self,
        api: paged_lists.Api,
        path: str,
        *,
        params: Mapping[str, str],
        clock: clocks.Clock,
        rng: random.Random,
        options: Options,
        read: paged_lists.Read | None,
        freshness: CopyAge,
    ) -> None:
        self.position: str | None = None
        self._freshness = freshness
        self._read = read
        self._api = api
        self._path = path
        self._params = dict(params)
        self._clock = clock
        self._rng = rng
        self._options = options
        self._backoff = backoff.Backoff(first_s=options.backoff_first_s, most_s=options.backoff_most_s, rng=rng)
        self._broken = 0
        # Whether nothing has come since a break.
        self._is_doubted = False
        # The kind of error that was last reported (`_kind_of`); None while the API is there.
        self._away: type[errors.CaricoError] | None = None

    async def list_until_listed(self) -> AsyncGenerator[MirrorEvent, None]:
        """Yield one `Listed`, after one `Away` for each kind of error if the API does not answer, or refuses."""
        while True:
            # A list shows the state at the request of its first page, or later.
            started_s = self._clock.monotonic_s()
            try:
                listed = await paged_lists.list_all(
                    self._api, self._path, params=self._params, timeout_s=self._options.list_timeout_s, read=self._read
                )
            except (errors.ApiError, errors.ApiUnavailable) as error:
                if _kind_of(error) is not self._away:
                    self._away = _kind_of(error)
                    yield Away(error=error)
                await asyncio.sleep(self._backoff.next_s())
                continue
            self._away = None
            self._freshness.note(started_s)
            self._is_doubted = False
            self.position = listed.resource_version
            yield listed
            return

    async def watch(self) -> AsyncGenerator[MirrorEvent, None]:
        """Yield the events of one watch; afterwards `position` is where to continue, or None to list again."""
        started_s, before = self._clock.monotonic_s(), self.position
        broken: errors.CaricoError | None = None
        try:
            async with contextlib.aclosing(self._changes()) as changes:
                async for change in changes:
                    yield change
        except errors.Gone:
            self.position = None
        except (errors.ApiError, errors.ApiUnavailable) as error:
            broken = error
        settled_s = min(self._options.backoff_most_s, self._options.watch_s / 2.0)
        # A long silence does not show that a server works.
        is_silent = isinstance(broken, errors.ApiSilent)
        if self._clock.monotonic_s() - started_s > settled_s and not is_silent:
            self._backoff.reset()
            self._broken = 0
        if broken is None or self.position != before:
            self._broken = 0
        if broken is not None:
            self._broken += 1
            self._is_doubted = True
        elif self._is_doubted:
            self.position = None
        # After the first break it retries silently: one of several servers went away, or this one only restarts.
        if broken is not None and self._broken > 1:
            self.position, self._away = None, _kind_of(broken)
            yield Away(error=broken)
        # Every round waits, so that a server that ends each watch at once is not requested in a busy loop.
        await asyncio.sleep(self._backoff.next_s())

    async def _changes(self) -> AsyncGenerator[Changed, None]:
        watch_s = self._options.watch_s * self._rng.uniform(1.0, 1.25)
        if self._is_doubted:
            watch_s = min(watch_s, DOUBTED_WATCH_S)
        params = self._params | {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self.position or "",
            "timeoutSeconds": str(max(1, round(watch_s))),
        }
        idle_s = watch_s + self._options.grace_s
        stream = self._api.stream("GET", self._path, params, idle_timeout_s=idle_s)
        async with contextlib.aclosing(stream) as chunks, contextlib.aclosing(lines(chunks)) as parts:
            async for part in parts:
                self._freshness.note()
                for line in part:
                    change = self._take(decode_event(line, self._path))
                    if change is not None:
                        yield change
                if self._options.gather_s and sum(map(len, part)) < READ_BYTES:
                    await asyncio.sleep(min(_GATHER_PER_EVENT_S * len(part), self._options.gather_s))
        self._freshness.note()

    def _take(self, event: Object) -> Changed | None:
        """Return the change to pass on; None for a bookmark or a repetition. Moves the position."""
        kind, subject = event["type"], event["object"]
        version = str(subject["metadata"]["resourceVersion"])
        # DELETED is always passed on: some APIs give it the version of the object's last change.
        repeated = kind != "DELETED" and _is_not_newer(version, self.position)
        self._is_doubted &= version != self.position and _is_not_newer(version, self.position)
        if not _is_not_newer(version, self.position):
            self.position = version
            self._backoff.reset()
        if repeated or kind == "BOOKMARK":
            return None
        return Changed(type=kind, object=subject)


async def lines(chunks: AsyncIterator[bytes]) -> AsyncGenerator[list[bytes], None]:
    """Yield the non-empty lines that each chunk completes; drop an incomplete last one, which may be half an object."""
    rest = b""
    async for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        found = [line for line in whole if line.strip()]
        if found:
            yield found
        if len(rest) > LINE_LIMIT_BYTES:
            raise errors.ApiUnavailable(f"a watch sent a line of more than {LINE_LIMIT_BYTES} bytes")


def decode_event(line: bytes, path: str) -> Object:
    """Return the watch event of one line. Raises `Gone` or `ApiUnavailable` for an ERROR event."""
    try:
        event = orjson.loads(line)
        kind, subject = event["type"], event["object"]
        if kind == "ERROR":
            raise _error_of(subject, path)
        if kind not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK"):
            raise ValueError(kind)
        subject["metadata"]["resourceVersion"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise errors.ApiUnavailable(f"watch of {path}: cannot read the event {line[:120]!r}") from error
    return cast(Object, event)


def _error_of(status: Object, path: str) -> errors.CaricoError:
    code, message = int(status.get("code") or 500), str(status.get("message") or "")
    if code == 410:
        return errors.Gone(status=code, reason="Expired", message=message, request=f"WATCH {path}")
    return errors.ApiUnavailable(f"WATCH {path}: {code} {status.get('reason') or ''}: {message}")


def _kind_of(error: errors.CaricoError) -> type[errors.CaricoError]:
    """Return what an error says of the API: that it does not answer, in whatever way, or how it refuses."""
    return errors.ApiUnavailable if isinstance(error, errors.ApiUnavailable) else type(error)


def _is_not_newer(version: str, than: str | None) -> bool:
    """Return whether both are numbers and `version` is not the larger; opaque versions count as newer."""
    if than is None or not (version.isdecimal() and than.isdecimal()):
        return False
    return int(version) <= int(than)
