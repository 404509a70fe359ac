"""The users of the applications: they count every request, with its time from the first byte sent to the answer."""

import asyncio
import dataclasses
import itertools
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence

from carico_core.domain import errors
from carico_local.applications import catalog, frames, network

# An event that has not arrived after this time is lost.
LOST_AFTER_S = 10.0
# Devices send an event a second (section 5.3.1).
DEVICE_S = 1.0
QUERY_S = 1.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How many users of each application, and their pauses. Browsers and planners: the next request follows an answer.

    browsers of the boutique, planners of the routing problem, devices of the data hub.
    """

    name: str
    browsers: int
    planners: int
    devices: int
    pause_s: float = 0.1

    def __post_init__(self) -> None:
        if min(self.browsers, self.planners, self.devices) < 0 or self.pause_s < 0.0:
            raise errors.SettingsError(f"load {self.name}: got a negative number, expected none below 0")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request: of which application, when it began and how long it took (monotonic s), and why it failed."""

    application: str
    at_s: float
    took_s: float
    failed: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The requests of an application in a span of time. Times in ms; None without a request that succeeded."""

    count: int
    failed: int
    mean_ms: float | None
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None


def summarize(requests: Iterable[Request], application: str, *, from_s: float, until_s: float) -> Summary:
    """Return the requests of an application that began in a span."""
    found = [each for each in requests if each.application == application and from_s <= each.at_s < until_s]
    times = sorted(each.took_s * 1e3 for each in found if not each.failed)
    return Summary(
        count=len(found), failed=sum(bool(each.failed) for each in found),
        mean_ms=statistics.fmean(times) if times else None, p50_ms=_quantile(times, 0.5),
        p95_ms=_quantile(times, 0.95), p99_ms=_quantile(times, 0.99),
    )  # fmt: skip


def _quantile(times: Sequence[float], share: float) -> float | None:
    return times[min(int(share * len(times)), len(times) - 1)] if times else None


class Users:
    """All users of a load; `requests` grows until `run` is cancelled."""

    def __init__(self, load: Load, client: network.Client, *, now_s: Callable[[], float]) -> None:
        self._load = load
        self._client = client
        self._now_s = now_s
        self.requests: list[Request] = []
        # Events that were sent and have not arrived: when, on the monotonic clock.
        self._sent: dict[int, float] = {}
        self._numbers = itertools.count()
        self._is_ending = False

    async def run(self) -> None:
        """Send requests until `end`, and wait for the last answers."""
        load = self._load
        async with asyncio.TaskGroup() as group:
            for count, user in ((load.browsers, self._browse), (load.planners, self._plan), (load.devices, self._send)):
                for number in range(count):
                    # "initially shifted by 1 / x seconds"
                    group.create_task(user(number / count))
            if load.devices:
                group.create_task(self._receive())
                group.create_task(self._query())

    def end(self) -> None:
        """Begin no further request."""
        self._is_ending = True

    async def _browse(self, shift_s: float) -> None:
        await asyncio.sleep(shift_s)
        for route in self._until_end(_script()):
            await self._ask("boutique", catalog.APPLICATIONS["boutique"].entry, route)
            await asyncio.sleep(self._load.pause_s)

    async def _plan(self, shift_s: float) -> None:
        await asyncio.sleep(shift_s)
        for route in self._until_end(itertools.repeat("/")):
            await self._ask("vrp", catalog.APPLICATIONS["vrp"].entry, route)
            await asyncio.sleep(self._load.pause_s)

    async def _query(self) -> None:
        for route in self._until_end(itertools.repeat("/")):
            await self._ask("hub-query", "hub-query", route)
            await asyncio.sleep(QUERY_S)

    def _until_end(self, routes: Iterable[str]) -> Iterator[str]:
        return itertools.takewhile(lambda _: not self._is_ending, routes)

    async def _ask(self, application: str, service: str, route: str) -> None:
        began_s = self._now_s()
        failed = ""
        try:
            await self._client.call(service, {"route": route}, bytes(500))
        except network.Failed as error:
            failed = str(error)
        self._add(application, began_s, self._now_s() - began_s, failed)

    async def _send(self, shift_s: float) -> None:
        """Be a device: send an event each second, whatever became of the last one."""
        due_s = self._now_s() + shift_s
        async with asyncio.TaskGroup() as group:
            while not self._is_ending:
                await asyncio.sleep(max(0.0, due_s - self._now_s()))
                group.create_task(self._emit())
                due_s += DEVICE_S

    async def _emit(self) -> None:
        number = next(self._numbers)
        self._sent[number] = self._now_s()
        try:
            head = {"route": "/", "events": [number]}
            await self._client.call(catalog.APPLICATIONS["hub"].entry, head, bytes(500))
        except network.Failed as error:
            # It may have been stored before the answer was lost: then it is no longer waited for.
            if (sent_s := self._sent.pop(number, None)) is not None:
                self._add("hub", sent_s, self._now_s() - sent_s, str(error))

    async def _receive(self) -> None:
        """Be the client that streams events: each is counted when it arrives, or as lost."""
        while not self._is_ending or self._sent:
            try:
                self._take(await self._client.call("hub-streaming", {"route": "/stream"}))
            except network.Failed as error:
                # An event that waits for it only arrives later; the request itself has failed.
                self._add("hub-stream", self._now_s(), 0.0, str(error))
                await asyncio.sleep(0.05)
            self._drop_lost()

    def _take(self, answer: frames.Message) -> None:
        for number in answer.head.get("events", ()):
            if (sent_s := self._sent.pop(number, None)) is not None:
                self._add("hub", sent_s, self._now_s() - sent_s)

    def _drop_lost(self) -> None:
        now_s = self._now_s()
        for number in [number for number, sent_s in self._sent.items() if now_s - sent_s > LOST_AFTER_S]:
            self._add("hub", self._sent.pop(number), LOST_AFTER_S, "the event did not arrive")

    def _add(self, application: str, at_s: float, took_s: float, failed: str = "") -> None:
        self.requests.append(Request(application=application, at_s=at_s, took_s=took_s, failed=failed))


def _script() -> Iterator[str]:
    """Yield the routes of a customer's visits (section 5.3.1): home, currency, three products, and the order."""
    while True:
        yield from ("/", "/currency", *("/product", "/cart") * 3, "/checkout")
