"""Checks NATS, and whether nodes, aggregator and scheduler answer on it."""

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib import metadata
from typing import NamedTuple, Protocol

from carico_cli.doctor import agents, findings, limits, members, places
from carico_cli.live import addresses, capacity_list, node_answers, services, signals
from carico_cli.live import members as member_signals
from carico_cli.live import picture as pictures
from carico_core.domain import cluster, errors, messages
from carico_core.domain import names as domain_names
from carico_core.runtime.bus import port as buses
from carico_core.runtime.process import clock as clocks
from carico_core.wire import subjects

CONNECT_MOST_S = 5.0
ANSWER_MOST_S = 2.0
# A question to each service that it answers at once.
QUESTIONS = {"aggregator": "model.get", "scheduler": "capacity.list"}
_NO_MODEL = "; nodes that kwok plays report nothing to an aggregator"
STATS_WITHIN_S = 0.3
# Nodes that are asked at the same time.
ASKED_AT_ONCE = 64


class Bus(Protocol):
    """The bus."""

    async def latest_capacities(self) -> list[tuple[str, bytes]]:
        """Return (subject, payload) of each node's newest advertisement."""
        ...

    async def request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes:
        """Return the answer of a service."""
        ...

    async def service_stats(self, name: str, *, within_s: float) -> list[tuple[float, bytes]]:
        """Return (seconds, statistics) of each instance of a service."""
        ...

    async def subscribe(self, subject: str, handler: buses.Handler) -> buses.Subscription:
        """Call `handler` with every message of `subject`."""
        ...

    async def close(self) -> None:
        """Disconnect."""
        ...


class Scheduler(NamedTuple):
    """The schedulerNames whose Pods the scheduler places, and how far its clock is ahead of this machine's.

    Where none answers: the default, and 0. A difference that does not matter is 0, too.
    """

    names: frozenset[str] = frozenset({domain_names.SCHEDULER_NAME})
    ahead_s: float = 0.0


async def scheduler(connect: Callable[[], Awaitable[Bus]], clock: clocks.Clock) -> Scheduler:
    """Return what is to be known of the scheduler before anything is judged."""
    found = signals.Signals(clock=clock, lease_s=math.inf)
    try:
        bus = await connect()
    except errors.CaricoError:
        return Scheduler()
    try:
        page = capacity_list.parse(await bus.request(capacity_list.SUBJECT, b"", timeout_s=ANSWER_MOST_S))
        found.on_capacity_list(page)
    except (errors.BusError, errors.MessageError):
        # `check` reports it.
        return Scheduler()
    finally:
        await bus.close()
    return Scheduler(found.scheduler_names, found.scheduler_ahead_ns / 1e9)


async def check(
    connect: Callable[[], Awaitable[Bus]], nodes: Sequence[cluster.Node], *, lease_s: float, now_s: float,
    at: addresses.Address, place: places.Place, ahead_s: float = 0.0,
) -> list[findings.Finding]:  # fmt: skip
    """Check the bus and the services on it. `connect` ends with an error after `CONNECT_MOST_S`.

    `ahead_s`: see `Scheduler`, by whose clock `now_s` is.
    """
    what, url = "NATS", at.url
    try:
        bus = await connect()
    except errors.BusRefused as error:
        return [findings.fail(what, str(error), f"docs/security.md; {place.log('nats')}")]
    except errors.BusUnavailable as error:
        do = at.look if at.is_local else place.reach_bus
        return [findings.fail(what, f"{url}: {error}", do)]
    except errors.CaricoError as error:
        return [findings.fail(what, str(error), "see docs/nats.md and docs/security.md")]
    try:
        stored, unread = await _stored(bus, place)
        found = [findings.ok(what, f"{url}: its version is supported, and JetStream is on"), *unread]
        heard, live, asked = await asyncio.gather(_members(bus), agents.listen(bus), _services(bus, place))
        names = [node.name for node in nodes]
        newest = agents.newest_of(await _listed(bus, asked["scheduler"][1])) | live
        seen = agents.look(stored, names, newest=newest, lease_s=lease_s, now_s=now_s)
        found += agents.report(seen, lease_s=lease_s, place=place, ahead_s=ahead_s)
        found += [finding for finding, _ in asked.values()]
        found += await _rescheduler(bus, place)
        found += members.report(heard, place=place)
        answering = services.parse_all({name: await _stats(bus, name) for name in services.ASKED})
        found += _leaders(answering)
        found += _versions(answering, place)
        found += await limits.check(bus, place)
        answers = await _states(bus, names)
        found += _notes(answers)
        found += agents.learning(answers, stored or [], place=place)
        return found
    finally:
        await bus.close()


async def _stored(bus: Bus, place: places.Place) -> tuple[list[tuple[str, bytes]] | None, list[findings.Finding]]:
    """Return the stored advertisements; None, and why, where they cannot be read."""
    try:
        return await bus.latest_capacities(), []
    except errors.BusError as error:
        do = f"an aggregator or a scheduler creates those that are missing; {place.log('nats')}"
        return None, [findings.warn("streams", f"cannot be read: {error}", do)]


async def _services(bus: Bus, place: places.Place) -> dict[str, tuple[findings.Finding, bytes]]:
    return {name: await _service(bus, name, verb, place=place) for name, verb in QUESTIONS.items()}


async def _listed(bus: Bus, first: bytes) -> list[capacity_list.Page]:
    """Return the scheduler's list of nodes, whose first page was received; empty where it cannot be read."""
    try:
        return await capacity_list.following(bus, first, timeout_s=ANSWER_MOST_S)
    except (errors.BusError, errors.MessageError):
        return []


async def _members(bus: Bus) -> list[messages.Heartbeat]:
    try:
        return await member_signals.listen(bus)
    except errors.BusError:
        # What follows reports a bus that is away.
        return []


async def _service(bus: Bus, name: str, verb: str, *, place: places.Place) -> tuple[findings.Finding, bytes]:
    """Ask a service; return the finding and its answer."""
    subject = subjects.query(name, verb)
    try:
        answer = await bus.request(subject, b"", timeout_s=ANSWER_MOST_S)
    except errors.BusUnavailable as error:
        return findings.fail(name, f"does not answer: {error}", place.of_service(name)), b""
    except errors.BusError as error:
        do = place.log(name) + (_NO_MODEL if name == "aggregator" else "")
        return findings.warn(name, f"answers: {str(error).removeprefix(f'{subject}: ')}", do), b""
    return findings.ok(name, "answers"), answer


async def _rescheduler(bus: Bus, place: places.Place) -> list[findings.Finding]:
    """Return whether moves are paused; nothing where no rescheduler answers."""
    paused = await services.moves_paused(bus, timeout_s=ANSWER_MOST_S)
    if paused is None:
        return []
    if not paused:
        return [findings.ok("rescheduler", "answers")]
    return [findings.warn("rescheduler", f"moves are {paused}", f"`{place.carico('reschedule resume')}`")]


def _leaders(answering: Sequence[pictures.Service]) -> list[findings.Finding]:
    """Return a finding where several schedulers lead: a standby answers nothing."""
    count = sum(each.name == services.SCHEDULER for each in answering)
    if count < 2:
        return []
    detail = (
        f"{count} lead on this bus, which have different Leases (CARICO_LEADER_NAME, CARICO_LEADER_NAMESPACE) or none: "
        "any of them answers, and nodes may get more Pods than they have room for"
    )
    do = "run one, with the names of all in CARICO_SCHEDULER_NAMES: docs/high-availability.md"
    return [findings.warn("scheduler", detail, do)]


def _versions(answering: Sequence[pictures.Service], place: places.Place) -> list[findings.Finding]:
    """Return a finding where services, or this command, have different versions."""
    here = metadata.version("carico-cli")
    by_version: dict[str, list[str]] = {here: ["this command"]}
    for each in answering:
        by_version.setdefault(each.version or "?", []).append(f"{each.name} {each.instance[:8]}")
    if len(by_version) == 1:
        return [findings.ok("versions", here)] if len(by_version[here]) > 1 else []
    shown = "; ".join(f"{version}: {findings.names(names)}" for version, names in sorted(by_version.items()))
    return [findings.warn("versions", f"they differ: {shown}", f"run one version everywhere: {place.restart}")]


async def _stats(bus: Bus, name: str) -> list[tuple[float, bytes]]:
    try:
        return await bus.service_stats(name, within_s=STATS_WITHIN_S)
    except errors.BusError:
        return []


async def _states(bus: Bus, nodes: list[str]) -> dict[str, bytes]:
    """Return what each agent that answers reports of itself."""

    async def ask(node: str) -> tuple[str, bytes | None]:
        try:
            return node, await bus.request(subjects.query("agent", "state.get", node), b"", timeout_s=ANSWER_MOST_S)
        except (errors.BusError, errors.BadName):
            return node, None

    answers: list[tuple[str, bytes | None]] = []
    for begin in range(0, len(nodes), ASKED_AT_ONCE):
        answers += await asyncio.gather(*map(ask, nodes[begin : begin + ASKED_AT_ONCE]))
    return {node: answer for node, answer in answers if answer is not None}


def _notes(answers: Mapping[str, bytes]) -> list[findings.Finding]:
    """Return what telemetry the agents lack, such as PSI, from their own answers."""
    by_note: dict[str, list[str]] = {}
    for node, answer in answers.items():
        # Printable text only: an agent could send commands to the terminal.
        with contextlib.suppress(errors.MessageError):
            for note in node_answers.parse_notes(answer):
                by_note.setdefault(note, []).append(node)
    do = "the agent works without it; docs/critiques.md describes what that costs"
    return [findings.warn("telemetry", f"{findings.names(found)}: {note}", do) for note, found in by_note.items()]
