"""What NATS says of itself, and whether every node, aggregator and scheduler is heard on it."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

import orjson

from carico_cli.doctor import findings
from carico_cli.live import where as places
from carico_core.domain import cluster, errors, messages
from carico_core.wire import messages as wire
from carico_core.wire import subjects

CONNECT_MOST_S = 5.0
ANSWER_MOST_S = 2.0
# A clock this far off makes a node's messages look old, or of the future.
CLOCK_MOST_S = 2.0
# A question that each service answers at once.
QUESTIONS = {"aggregator": "model.get", "scheduler": "capacity.list"}
# So many advertisements may come between what NATS has kept and what the scheduler says that it heard.
KEPT_WITHIN = 5
_NOTHING = (math.inf, 0)
# One question a node; more than this many are not waited for one by one.
ASKED_AT_ONCE = 64
WHO = "is the address right, and are CARICO_BUS_NKEY and CARICO_BUS_TLS_CA those of the role cli (docs/security.md)?"
DAEMON_SET = "is the agent's DaemonSet there, and let in by the nodes' taints? Without one a node gets no learnt Pods"


class Bus(Protocol):
    """What is needed of the bus."""

    async def latest_capacities(self) -> list[tuple[str, bytes]]:
        """(subject, payload) of each node's newest advertisement."""
        ...

    async def request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes:
        """The answer of a service."""
        ...

    async def close(self) -> None:
        """Leaves."""
        ...


async def check(
    connect: Callable[[], Awaitable[Bus]], nodes: Sequence[cluster.Node], *, lease_s: float, now_s: float,
    at: places.Address, namespace: str,
) -> list[findings.Finding]:  # fmt: skip
    """Everything about the bus."""
    what, url = "NATS", at.url
    try:
        async with asyncio.timeout(CONNECT_MOST_S):
            bus = await connect()
    except TimeoutError:
        forward = f" From outside the cluster: `kubectl -n {namespace} port-forward service/carico-nats 4222`"
        do = at.look if at.is_local else WHO + forward
        return [findings.fail(what, f"nothing that lets us in at {url} within {CONNECT_MOST_S:.0f} s", do)]
    except errors.CaricoError as error:
        return [findings.fail(what, str(error), "see docs/nats.md and docs/security.md")]
    try:
        found = [findings.ok(what, f"{url}: version and JetStream suit")]
        try:
            stored = await bus.latest_capacities()
        except errors.BusError:
            do = "start an aggregator or a scheduler: either makes them"
            return [*found, findings.warn("streams", "not there yet", do)]
        asked = {name: await _service(bus, name, verb, at=at, namespace=namespace) for name, verb in QUESTIONS.items()}
        newest = _newest(asked["scheduler"][1])
        found += _agents(stored, nodes, newest=newest, lease_s=lease_s, now_s=now_s, at=at)
        found += [finding for finding, _ in asked.values()]
        found += await _notes(bus, [node.name for node in nodes])
        return found
    finally:
        await bus.close()


def _agents(
    stored: list[tuple[str, bytes]], nodes: Sequence[cluster.Node], *, newest: Mapping[str, tuple[float, int]],
    lease_s: float, now_s: float, at: places.Address,
) -> list[findings.Finding]:  # fmt: skip
    """Who advertises. `newest`: age by its own clock, and seq, of what the scheduler has heard last of nodes."""
    heard: dict[str, messages.Advertisement] = {}
    unreadable = 0
    for subject, payload in stored:
        try:
            found = wire.decode_advertisement(payload, subject=subject)
            heard[found.node] = found
        except errors.MessageError:
            unreadable += 1
    fresh = {name for name, one in heard.items() if now_s - one.ts_ns / 1e9 <= lease_s}
    names = [node.name for node in nodes]
    if not names:
        return [findings.skip("agents", f"{len(fresh)} advertise; which nodes there are is not known")]
    speaking = [name for name in names if name not in fresh and newest.get(name, _NOTHING)[0] <= lease_s]
    kept = {subject for subject, _ in stored}
    # Of what NATS keeps of a node nothing is left after a lease.
    last = {name: heard[name].seq if name in heard else 0 for name in speaking}
    unread = {name for name in speaking if name not in heard and subjects.capacity(name) in kept}
    unkept = [name for name in speaking if name not in unread and abs(newest[name][1] - last[name]) > KEPT_WITHIN]
    behind = [name for name in speaking if name in heard and name not in unkept]
    silent = [name for name in names if name not in fresh and name not in speaking]
    ahead = [name for name, one in heard.items() if one.ts_ns / 1e9 - now_s > CLOCK_MOST_S]
    said = [findings.ok("agents", f"{len(names) - len(silent)} nodes of {len(names)} advertise")]
    if silent:
        do = f"`carico logs agent/{silent[0]} --name {at.name}`" if at.is_local else DAEMON_SET
        said.append(findings.warn("agents", f"not heard for {lease_s:.0f} s: {findings.names(silent)}", do))
    for how, off in (("ahead of", ahead), ("behind", behind)):
        if off:
            do = "set the clocks by NTP: messages from the future are believed too long, and old ones are dropped"
            said.append(findings.warn("clocks", f"{how} this machine's: {findings.names(off)}", do))
    if unkept:
        do = f"the log of NATS says why, which is to be restarted once its disk has room ({at.look})"
        if at.is_local:
            do = f"`carico logs nats --name {at.name}` says why; after a full disk it starts anew once there is room"
        said.append(findings.warn("streams", f"heard, but no longer kept by NATS: {findings.names(unkept)}", do))
    if unreadable:
        do = "another version of CARICO, or someone else, writes to carico.v1.capacity: compare the versions"
        said.append(findings.warn("messages", f"{unreadable} stored advertisements cannot be read", do))
    return said


async def _service(
    bus: Bus, name: str, verb: str, *, at: places.Address, namespace: str
) -> tuple[findings.Finding, bytes]:
    """Whether a service answers, and what."""
    try:
        answer = await bus.request(subjects.query(name, verb), b"", timeout_s=ANSWER_MOST_S)
    except errors.BusError as error:
        log = f"carico logs {name} --name {at.name}" if at.is_local else ""
        do = f"`{log or f'kubectl -n {namespace} logs deployment/carico-{name}'}`; `nats service ls` shows who answers"
        return findings.fail(name, f"does not answer: {error}", do), b""
    return findings.ok(name, "answers"), answer


def _newest(capacities: bytes) -> dict[str, tuple[float, int]]:
    """Age and seq of what the scheduler has heard last, by node; a clock that is off does not change them."""
    try:
        rows = orjson.loads(capacities)["nodes"]
        return {str(row["node"]): (float(row["age_s"]), int(row["seq"])) for row in rows if row["age_s"] is not None}
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        return {}


async def _notes(bus: Bus, nodes: list[str]) -> list[findings.Finding]:
    """What the agents' telemetry does without, such as PSI, by what they say themselves."""

    async def ask(node: str) -> tuple[str, list[str]]:
        try:
            answer = orjson.loads(
                await bus.request(subjects.query("agent", "state.get", node), b"", timeout_s=ANSWER_MOST_S)
            )
        except (errors.BusError, errors.BadName, orjson.JSONDecodeError):
            return node, []
        said: Any = answer.get("notes", []) if isinstance(answer, dict) else []
        return node, [str(note) for note in said]

    told: list[tuple[str, list[str]]] = []
    for begin in range(0, len(nodes), ASKED_AT_ONCE):
        told += await asyncio.gather(*map(ask, nodes[begin : begin + ASKED_AT_ONCE]))
    by_note: dict[str, list[str]] = {}
    for node, said in told:
        for note in said:
            by_note.setdefault(note, []).append(node)
    do = "the agent goes on without; docs/architecture.md says what that costs"
    return [findings.warn("telemetry", f"{findings.names(found)}: {note}", do) for note, found in by_note.items()]
