"""Checks NATS, and whether nodes, aggregator and scheduler answer on it."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from carico_cli.clusters import which
from carico_cli.doctor import agents, findings
from carico_cli.live import node_answers, signals
from carico_core.domain import cluster, errors
from carico_core.runtime.process import clock as clocks
from carico_core.wire import subjects

CONNECT_MOST_S = 5.0
ANSWER_MOST_S = 2.0
# A question to each service that it answers at once.
QUESTIONS = {"aggregator": "model.get", "scheduler": "capacity.list"}
# Nodes that are asked at the same time.
ASKED_AT_ONCE = 64
WHO = "is the address right, and do CARICO_BUS_NKEY and CARICO_BUS_TLS_CA belong to the role cli (docs/security.md)?"


class Bus(Protocol):
    """The bus."""

    async def latest_capacities(self) -> list[tuple[str, bytes]]:
        """Return (subject, payload) of each node's newest advertisement."""
        ...

    async def request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes:
        """Return the answer of a service."""
        ...

    async def close(self) -> None:
        """Disconnect."""
        ...


async def scheduler_names(connect: Callable[[], Awaitable[Bus]], clock: clocks.Clock) -> frozenset[str]:
    """Return the schedulerNames whose Pods the scheduler places; where none answers, the default."""
    found = signals.Signals(clock=clock, lease_s=math.inf)
    try:
        async with asyncio.timeout(CONNECT_MOST_S):
            bus = await connect()
    except (TimeoutError, errors.CaricoError):
        return found.scheduler_names
    try:
        question = subjects.query("scheduler", QUESTIONS["scheduler"])
        found.on_capacity_list(await bus.request(question, b"", timeout_s=ANSWER_MOST_S))
    except (errors.BusError, errors.MessageError):
        # `check` reports it.
        return found.scheduler_names
    finally:
        await bus.close()
    return found.scheduler_names


async def check(
    connect: Callable[[], Awaitable[Bus]], nodes: Sequence[cluster.Node], *, lease_s: float, now_s: float,
    at: which.Address, namespace: str,
) -> list[findings.Finding]:  # fmt: skip
    """Check the bus and the services on it."""
    what, url = "NATS", at.url
    try:
        async with asyncio.timeout(CONNECT_MOST_S):
            bus = await connect()
    except TimeoutError:
        forward = f" From outside the cluster: `kubectl -n {namespace} port-forward service/carico-nats 4222`"
        do = at.look if at.is_local else WHO + forward
        return [findings.fail(what, f"cannot connect to {url} within {CONNECT_MOST_S:.0f} s", do)]
    except errors.CaricoError as error:
        return [findings.fail(what, str(error), "see docs/nats.md and docs/security.md")]
    try:
        found = [findings.ok(what, f"{url}: its version is supported, and JetStream is on")]
        try:
            stored = await bus.latest_capacities()
        except errors.BusError:
            do = "start an aggregator or a scheduler: either creates them"
            return [*found, findings.warn("streams", "they do not exist yet", do)]
        asked = {name: await _service(bus, name, verb, at=at, namespace=namespace) for name, verb in QUESTIONS.items()}
        names = [node.name for node in nodes]
        newest = agents.newest_of(asked["scheduler"][1])
        seen = agents.look(stored, names, newest=newest, lease_s=lease_s, now_s=now_s)
        found += agents.report(seen, lease_s=lease_s, at=at)
        found += [finding for finding, _ in asked.values()]
        found += await _notes(bus, names)
        return found
    finally:
        await bus.close()


async def _service(
    bus: Bus, name: str, verb: str, *, at: which.Address, namespace: str
) -> tuple[findings.Finding, bytes]:
    """Ask a service; return the finding and its answer."""
    try:
        answer = await bus.request(subjects.query(name, verb), b"", timeout_s=ANSWER_MOST_S)
    except errors.BusError as error:
        log = f"carico logs {name} --name {at.name}" if at.is_local else ""
        do = f"`{log or f'kubectl -n {namespace} logs deployment/carico-{name}'}`; `nats service ls` lists the services"
        return findings.fail(name, f"does not answer: {error}", do), b""
    return findings.ok(name, "answers"), answer


async def _notes(bus: Bus, nodes: list[str]) -> list[findings.Finding]:
    """Return what telemetry the agents lack, such as PSI, from their own answers."""

    async def ask(node: str) -> tuple[str, tuple[str, ...]]:
        try:
            answer = await bus.request(subjects.query("agent", "state.get", node), b"", timeout_s=ANSWER_MOST_S)
            # Printable text only: an agent could send commands to the terminal.
            return node, node_answers.parse_notes(answer)
        except (errors.BusError, errors.BadName, errors.MessageError):
            return node, ()

    answers: list[tuple[str, tuple[str, ...]]] = []
    for begin in range(0, len(nodes), ASKED_AT_ONCE):
        answers += await asyncio.gather(*map(ask, nodes[begin : begin + ASKED_AT_ONCE]))
    by_note: dict[str, list[str]] = {}
    for node, notes in answers:
        for note in notes:
            by_note.setdefault(note, []).append(node)
    do = "the agent works without it; docs/critiques.md describes what that costs"
    return [findings.warn("telemetry", f"{findings.names(found)}: {note}", do) for note, found in by_note.items()]
