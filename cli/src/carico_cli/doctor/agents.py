"""Which nodes advertise, by what NATS keeps of them and by what the scheduler has heard."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import orjson

from carico_cli.clusters import which
from carico_cli.doctor import findings
from carico_core.domain import errors, messages
from carico_core.wire import messages as wire
from carico_core.wire import subjects

# A clock this far off makes a node's messages look old, or of the future.
CLOCK_MOST_S = 2.0
# So many advertisements may come between what NATS has kept and what the scheduler says that it heard.
KEPT_WITHIN = 5
DAEMON_SET = "does the agent's DaemonSet exist, and tolerate the taints? A node without an agent gets no Pods"


class Newest(NamedTuple):
    """What the scheduler has heard last of a node: how old it is, by the scheduler's own clock, and its number."""

    age_s: float
    seq: int


_NOTHING = Newest(age_s=math.inf, seq=0)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Agents:
    """How many advertise, by their own clocks, and the names of the nodes with a problem."""

    nodes: int
    fresh: int
    silent: list[str]
    # By how their clocks stand to this machine's.
    ahead: list[str]
    behind: list[str]
    # The scheduler hears them, and NATS keeps no more of it.
    unkept: list[str]
    # Stored advertisements.
    unreadable: int


def newest_of(capacities: bytes) -> dict[str, Newest]:
    """Return by node what the scheduler heard last, from its answer; empty where that is malformed."""
    try:
        rows = orjson.loads(capacities)["nodes"]
        said = [row for row in rows if row["age_s"] is not None]
        return {str(row["node"]): Newest(age_s=float(row["age_s"]), seq=int(row["seq"])) for row in said}
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        return {}


def look(
    stored: Sequence[tuple[str, bytes]], nodes: Sequence[str], *, newest: Mapping[str, Newest], lease_s: float,
    now_s: float,
) -> Agents:  # fmt: skip
    """Return how the nodes stand, by what NATS keeps as (subject, payload), and by what the scheduler has heard."""
    kept = {subject: _read(subject, payload) for subject, payload in stored}
    heard = {one.node: one for one in kept.values() if one is not None}
    age_s = {name: now_s - one.ts_ns / 1e9 for name, one in heard.items()}
    silent: list[str] = []
    behind: list[str] = []
    unkept: list[str] = []
    for name in nodes:
        last = newest.get(name, _NOTHING)
        if age_s.get(name, math.inf) <= lease_s:
            continue
        if last.age_s > lease_s:
            silent.append(name)
        elif name in heard:
            is_kept = abs(last.seq - heard[name].seq) <= KEPT_WITHIN
            (behind if is_kept else unkept).append(name)
        elif subjects.capacity(name) not in kept and last.seq > KEPT_WITHIN:
            # Of what NATS keeps of a node nothing is left after a lease; who has only begun is not kept yet.
            unkept.append(name)
    return Agents(
        nodes=len(nodes),
        fresh=sum(age <= lease_s for age in age_s.values()),
        silent=silent,
        ahead=[name for name, age in age_s.items() if age < -CLOCK_MOST_S],
        behind=behind,
        unkept=unkept,
        unreadable=sum(one is None for one in kept.values()),
    )


def told(agents: Agents, *, lease_s: float, at: which.Address) -> list[findings.Finding]:
    """Return the same in words."""
    if not agents.nodes:
        return [findings.skip("agents", f"{agents.fresh} advertise; which nodes there are is not known")]
    speak = agents.nodes - len(agents.silent)
    return [
        findings.ok("agents", f"{speak} nodes of {agents.nodes} advertise"),
        *_silent(agents.silent, lease_s, at),
        *_clocks("ahead of", agents.ahead),
        *_clocks("behind", agents.behind),
        *_unkept(agents.unkept, at),
        *_unreadable(agents.unreadable),
    ]


def _read(subject: str, payload: bytes) -> messages.Advertisement | None:
    """Return the advertisement; None where it cannot be read."""
    try:
        return wire.decode_advertisement(payload, subject=subject)
    except errors.MessageError:
        return None


def _silent(names: list[str], lease_s: float, at: which.Address) -> list[findings.Finding]:
    if not names:
        return []
    do = f"`carico logs agent/{names[0]} --name {at.name}`" if at.is_local else DAEMON_SET
    return [findings.warn("agents", f"not heard for {lease_s:.0f} s: {findings.names(names)}", do)]


def _clocks(how: str, names: list[str]) -> list[findings.Finding]:
    if not names:
        return []
    do = "set the clocks by NTP: messages from the future are believed too long, and old ones are dropped"
    return [findings.warn("clocks", f"{how} this machine's: {findings.names(names)}", do)]


def _unkept(names: list[str], at: which.Address) -> list[findings.Finding]:
    if not names:
        return []
    do = f"the log of NATS says why, which is to be restarted once its disk has room ({at.look})"
    if at.is_local:
        do = f"`carico logs nats --name {at.name}` says why; after a full disk it starts anew once there is room"
    return [findings.warn("streams", f"heard, but no longer kept by NATS: {findings.names(names)}", do)]


def _unreadable(count: int) -> list[findings.Finding]:
    if not count:
        return []
    do = "another version of CARICO, or someone else, writes to carico.v1.capacity: compare the versions"
    return [findings.warn("messages", f"{count} stored advertisements cannot be read", do)]
