"""Reads a cluster's live signals until cancelled: connects, notices that the cluster is gone, and reconnects."""

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any

import orjson

from carico_cli.live import addresses, capacity_list, pods, ports, services, signals
from carico_cli.live import loads as live_loads
from carico_cli.live import picture as pictures
from carico_core.domain import errors
from carico_core.runtime.bus import port as buses
from carico_core.runtime.kube import list_watch
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import tasks
from carico_core.wire import streams, subjects

if TYPE_CHECKING:
    from carico_cli.live import node_answers

CONNECT_S = 5.0
AGAIN_S = 1.0
KEPT_EVERY_S = 1.0
# Advertisements do not include reservations, so the scheduler is asked: at most once a second, and less in a large
# cluster, since its answer costs some microseconds a node (`python -m bench top`), which must stay below 1 % of a core.
RESERVED_EVERY_S = 1.0
RESERVED_EVERY_S_PER_NODE = 0.004
ANSWER_S = 2.0
SERVICES_EVERY_S = 2.0
# How many instances will answer is not known: they have this long.
SERVICES_ANSWER_S = 0.3
DECISIONS_AT_FIRST = 50
NODE_EXPLAIN = subjects.query("scheduler", "node.explain")
# https://docs.nats.io/reference/reference-protocols/nats_api_reference
BACKLOG = f"$JS.API.STREAM.INFO.{streams.SUBSPACES}"


# What a first picture waits for.
KEPT, SCHEDULER, SERVICES, PODS = FIRSTS = ("kept", "scheduler", "services", "pods")


class _Left(errors.CaricoError):
    """The reader must reconnect."""


class Reader:
    """One cluster's signals: `run` reads them, `picture` returns the newest."""

    def __init__(
        self, where: addresses.Where, connect: ports.Connect, *, clock: clocks.Clock, lease_s: float,
        record: ports.SignalSink | None = None, firsts: Iterable[str] = FIRSTS, is_brief: bool = False,
    ) -> None:  # fmt: skip
        """`record`: receives the same capacities, decisions and Pods. `firsts`: what `complete` waits for.

        `is_brief`: nodes and jobs as they are now, once, for a command that ends then.
        """
        self._record = record
        self._is_brief = is_brief
        self._where = where
        self._connect = connect
        self._clock = clock
        self._signals = signals.Signals(clock=clock, lease_s=lease_s)
        # What single Pods use, while it is looked at.
        self.loads = live_loads.Loads(
            clock=clock, lease_s=lease_s, on_drop=self._signals.drop, names=lambda: self._signals.node_names
        )
        self._pods = pods.Pods()
        self._pods_age = list_watch.CopyAge(clock)
        self._bus: ports.Bus | None = None
        self._api: ports.Api | None = None
        self._url = ""
        self._bus_trouble: str | None = "not connected yet"
        self._api_trouble: str | None = None
        self._is_scheduler_silent = False
        self._away_since_s: float | None = None
        # Set once each of `firsts` has answered or failed to: the first picture is then complete.
        self.complete = asyncio.Event()
        self._awaited = set(firsts)

    def picture(self) -> pictures.Picture:
        """Return the cluster as it is known now."""
        links = (
            pictures.Link(name="NATS", trouble=self._bus_words()),
            pictures.Link(name="Kubernetes API", trouble=self._api_words()),
            pictures.Link(name="scheduler", trouble=self._scheduler_words() if self._is_connected else None),
        )
        names = self._signals.scheduler_names
        return self._signals.picture(
            jobs=self._pods.jobs(names), links=links, pods=self._pods.rows(names), loads=self.loads.now()
        )

    def _api_words(self) -> str | None:
        trouble = self.api_trouble
        if trouble is None:
            return None
        return f"{trouble}; jobs {'as last seen' if self._pods.is_listed else 'are not shown'}"

    def _scheduler_words(self) -> str | None:
        """Return what it means that none answers: only the holder of the Lease does, also where several decide."""
        if not self._is_scheduler_silent:
            return None
        decide = sum(not each.is_leaving for each in self._signals.members)
        if decide:
            return f"none answers: `reserved` is not known; {decide} that share the work still place Pods"
        return "none answers: no Pod is placed, and `reserved` is not known"

    @property
    def bus(self) -> ports.Bus | None:
        """The bus; None while there is none."""
        return self._bus

    @property
    def api(self) -> ports.Api | None:
        """The Kubernetes API; None while there is none."""
        return self._api

    def where(self) -> addresses.Address:
        """Return the cluster's address. Raises `SettingsError` where there is none now."""
        return self._where()

    async def detail(self, node: str) -> "node_answers.Detail | None":
        """Ask a node's agent; None where none answers, as for nodes that kwok plays."""
        if self._bus is None:
            return None
        # Imported here: only who looks at a single node asks.
        from carico_cli.live import node_answers

        try:
            subject = subjects.query("agent", "state.get", node)
            return node_answers.parse_detail(await self._bus.request(subject, b"", timeout_s=ANSWER_S))
        except (errors.BusError, errors.MessageError, errors.BadName):
            return None

    async def standing(self, node: str) -> "node_answers.Standing | None":
        """Ask the scheduler about a node; None where none answers, or it does not know the node."""
        if self._bus is None:
            return None
        from carico_cli.live import node_answers

        try:
            asked = orjson.dumps({"node": node, "history": True})
            return node_answers.parse_standing(await self._bus.request(NODE_EXPLAIN, asked, timeout_s=ANSWER_S))
        except (errors.BusError, errors.MessageError):
            return None

    async def run(self) -> None:
        """Read until cancelled. The picture shows what is wrong with the cluster, until it is back."""
        while True:
            try:
                address = self._where()
                self._url = address.url
                async with contextlib.AsyncExitStack() as stack:
                    async with asyncio.timeout(CONNECT_S):
                        bus, api = await stack.enter_async_context(self._connect(address))
                    await tasks.apart(self._follow(bus, api, address))
            except TimeoutError:
                self._bus_trouble = f"{self._url} does not answer"
            except errors.CaricoError as error:
                self._bus_trouble = str(error)
            finally:
                self._bus = self._api = None
            await asyncio.sleep(AGAIN_S)

    def _settle(self, what: str) -> None:
        """Note that a source of the first picture has answered, or will not."""
        self._awaited.discard(what)
        if not self._awaited:
            self.complete.set()

    @property
    def _is_connected(self) -> bool:
        return self._bus is not None and self._bus.connected

    def _bus_words(self) -> str | None:
        """Return what is wrong with the bus, in one line."""
        if self._is_connected:
            self._away_since_s = None
            return None
        now_s = self._clock.monotonic_s()
        self._away_since_s = now_s if self._away_since_s is None else self._away_since_s
        what = self._bus_trouble or f"{self._url} is away"
        return f"{what} (reconnecting for {now_s - self._away_since_s:.0f} s)"

    @property
    def bus_trouble(self) -> str | None:
        """Why there is no bus; None where there is one, or the connection was only lost."""
        return self._bus_trouble

    @property
    def api_trouble(self) -> str | None:
        """Why the Pods are not known, or only as last seen; None where they are known."""
        return self._api_trouble or self._pods.why_not(self._clock.monotonic_s(), self._pods_age.age_s())

    async def _follow(self, bus: ports.Bus, api: ports.Api | str, address: addresses.Address) -> None:
        """Follow until cancelled. Raises `CaricoError` where the reader must reconnect."""
        self._bus, self._bus_trouble = bus, None
        self._api_trouble, self._api = (api, None) if isinstance(api, str) else (None, api)
        works: list[Coroutine[Any, Any, None]] = [
            self._listen(bus), self._ask_scheduler(bus), self._stay(bus, address),
        ]  # fmt: skip
        if not self._is_brief:
            works += [self._ask_services(bus), self.loads.follow(bus)]
        if isinstance(api, str):
            self._settle(PODS)
        else:
            works.append(self.follow_pods(api))
        try:
            async with asyncio.TaskGroup() as group:
                for work in works:
                    group.create_task(work)
        except ExceptionGroup as failed:
            raise next(tasks.leaves(failed)) from None

    async def _listen(self, bus: ports.Bus) -> None:
        """Subscribe, and read what the bus has kept, once more after each reconnection."""
        if self._is_brief:
            # What is stored is old where NATS stores nothing now, as with a full disk.
            await self._until_done(lambda: bus.subscribe(subjects.CAPACITY_ALL, self._on_capacity))
            # Once more only while something else does not answer: the nodes must not look silent for its sake.
            while not self.complete.is_set():
                await self._until_done(lambda: self._take_kept(bus))
                self._settle(KEPT)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(KEPT_EVERY_S):
                        await self.complete.wait()
            return
        came_back = asyncio.Event()
        self._signals.begin()
        bus.on_reconnect(self._signals.begin)
        bus.on_reconnect(came_back.set)
        handlers: dict[str, buses.Handler] = {
            subjects.CAPACITY_ALL: self._on_capacity, subjects.DECISION_ALL: self._on_decision,
            subjects.MODEL: self._signals.on_model, subjects.SUMMARY: self._signals.on_summary,
            subjects.MEMBER_ALL: self._signals.on_heartbeat,
        }  # fmt: skip
        # At once: each waits until the server knows of it.
        async with asyncio.TaskGroup() as group:
            for subject, take in handlers.items():
                group.create_task(self._until_done(functools.partial(bus.subscribe, subject, take)))
        while True:
            await self._until_done(lambda: self._take_kept(bus))
            self._settle(KEPT)
            # An aggregator of an earlier version does not answer: that must not delay the rest.
            await self._until_done(lambda: self._take_history(bus), unless=came_back)
            await came_back.wait()
            came_back.clear()

    def _on_capacity(self, subject: str, payload: bytes) -> None:
        self._signals.on_capacity(subject, payload)
        if self._record is not None:
            self._record.on_capacity(subject, payload)

    def _on_decision(self, subject: str, payload: bytes) -> None:
        self._signals.on_decision(subject, payload)
        if self._record is not None:
            self._record.on_decision(subject, payload)

    async def _take_kept(self, bus: ports.Bus) -> None:
        for subject, payload in await bus.latest_capacities():
            self._signals.on_stored_capacity(subject, payload)
            if self._record is not None:
                self._record.on_capacity(subject, payload)
        if self._is_brief:
            return
        decisions, model = await asyncio.gather(bus.recent_decisions(None, None, DECISIONS_AT_FIRST), bus.get_model())
        for subject, payload in decisions:
            self._signals.on_decision(subject, payload)
        if model is not None:
            self._signals.on_model(subjects.MODEL, model)

    async def _take_history(self, bus: ports.Bus) -> None:
        for payload in await bus.recent_summaries():
            self._signals.on_summary(subjects.SUMMARY, payload, is_new=False)

    async def _ask_scheduler(self, bus: ports.Bus) -> None:
        while True:
            try:
                self._signals.on_capacity_list(*await capacity_list.ask(bus, timeout_s=ANSWER_S))
                self._is_scheduler_silent = False
            except (errors.BusError, errors.MessageError):
                self._signals.scheduler_silent()
                self._is_scheduler_silent = True
            self._settle(SCHEDULER)
            await asyncio.sleep(max(RESERVED_EVERY_S, RESERVED_EVERY_S_PER_NODE * len(self._signals.node_names)))

    async def _ask_services(self, bus: ports.Bus) -> None:
        asks_backlog = True
        while True:
            found: list[pictures.Service] | None = None
            backlog = None
            with contextlib.suppress(errors.BusError):
                answers = await asyncio.gather(
                    *(bus.service_stats(name, within_s=SERVICES_ANSWER_S) for name in services.ASKED)
                )
                found = services.parse_all(dict(zip(services.ASKED, answers, strict=True)))
            if asks_backlog and bus.connected:
                backlog = await _backlog(bus)
                # The role reader may not ask: each try would be another refusal in the server's log.
                asks_backlog = backlog is not None
            self._signals.on_services(found, backlog=backlog)
            self._settle(SERVICES)
            await asyncio.sleep(SERVICES_EVERY_S)

    async def follow_pods(self, api: ports.Api) -> None:
        """Watch the Pods: a message for each change costs the API less than listing 10,000 Pods every few seconds."""
        while True:
            self._pods.asked_at_s = self._clock.monotonic_s()
            self._pods_age = list_watch.CopyAge(self._clock)
            options = list_watch.FRESH_OPTIONS
            try:
                async for event in api.mirror(pods.PATH, options=options, freshness=self._pods_age):
                    self._pods.on_event(event)
                    if self._record is not None:
                        self._record.on_pods(event)
                    self._settle(PODS)
                    if self._is_brief and isinstance(event, list_watch.Listed):
                        # Without the watch that would follow.
                        return
            except errors.CaricoError as error:
                self._pods.trouble = str(error)
                self._settle(PODS)
            await asyncio.sleep(CONNECT_S)

    async def _stay(self, bus: ports.Bus, address: addresses.Address) -> None:
        """Raise `_Left` when the bus is closed for good, or the cluster has another address now."""
        closed = asyncio.ensure_future(bus.wait_closed())
        try:
            while not closed.done():
                await asyncio.wait([closed], timeout=AGAIN_S)
                if not bus.connected:
                    self._look(address)
            raise _Left(f"{self._url} has closed the connection") from closed.exception()
        finally:
            closed.cancel()

    def _look(self, address: addresses.Address) -> None:
        """Check whether a cluster that is away has another address now. Raises `_Left` if so."""
        try:
            moved = self._where() != address
            self._bus_trouble = None
        except errors.CaricoError as error:
            self._bus_trouble = str(error)
            return
        if moved:
            raise _Left("the cluster was restarted")

    async def _until_done(self, ask: Callable[[], Awaitable[Any]], *, unless: asyncio.Event | None = None) -> None:
        while unless is None or not unless.is_set():
            try:
                await ask()
                return
            except errors.BusUnavailable:
                # No streams yet, or the bus is away. Signals that are subscribed already arrive all the same.
                self._settle(KEPT)
                await asyncio.sleep(AGAIN_S)


async def _backlog(bus: ports.Bus) -> int | None:
    """Return how many messages wait for the aggregators; None where this identity may not ask."""
    try:
        answer = orjson.loads(await bus.request(BACKLOG, b"", timeout_s=ANSWER_S))
        return int(answer["state"]["messages"])
    except (errors.BusError, orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        return None
