"""Which nodes advertise, according to NATS and to the scheduler."""

import asyncio
import contextlib
import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from carico_cli.doctor import findings, places
from carico_cli.live import capacity_list, members, node_answers, signals
from carico_cli.live import picture as pictures
from carico_cli.output import formats
from carico_core.domain import amounts, errors, messages
from carico_core.wire import messages as wire
from carico_core.wire import subjects

# Costs are measured within seconds of a start; an agent keeps a row of history each second, for three minutes.
LEARNS_WITHIN_S = 60
# At most this many advertisements may arrive between the reading of NATS and the scheduler's answer.
KEPT_WITHIN = 5
DAEMON_SET = "does the agent's DaemonSet exist and tolerate the nodes' taints? A node without an agent gets no Pods"


class Newest(NamedTuple):
    """A node's newest advertisement as it was heard: its age by the listener's clock, and its sequence number."""

    age_s: float
    seq: int


_NOTHING = Newest(age_s=math.inf, seq=0)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Agents:
    """How many nodes advertise, and the names of those with a problem."""

    nodes: int
    fresh: int
    silent: list[str]
    # Their clocks are ahead of or behind this machine's.
    ahead: list[str]
    behind: list[str]
    # Their advertisements are heard, and NATS no longer stores them.
    unkept: list[str]
    # How many stored advertisements cannot be decoded.
    unreadable: int


async def listen(bus: members.Bus) -> dict[str, Newest]:
    """Return each node's newest advertisement that arrives now, for which neither storage nor a scheduler is needed."""
    heard: dict[str, bytes] = {}
    with contextlib.suppress(errors.BusError):
        subscription = await bus.subscribe(subjects.CAPACITY_ALL, heard.__setitem__)
        await asyncio.sleep(pictures.ADVERTISED_WITHIN_S)
        await subscription.unsubscribe()
    read = (_read(subject, payload) for subject, payload in heard.items())
    return {one.node: Newest(age_s=0.0, seq=one.seq) for one in read if one is not None}


def newest_of(pages: Iterable[capacity_list.Page]) -> dict[str, Newest]:
    """Return each node's newest advertisement as the scheduler lists it."""
    return {
        name: Newest(age_s=each.age_s, seq=each.seq)
        for page in pages
        for name, each in page.nodes.items()
        if each.age_s is not None
    }


def look(
    stored: Sequence[tuple[str, bytes]] | None, nodes: Sequence[str], *, newest: Mapping[str, Newest], lease_s: float,
    now_s: float,
) -> Agents:  # fmt: skip
    """Compare what NATS stores, as (subject, payload), with the newest advertisements that are heard.

    `stored`: None where that cannot be read. `now_s`: by the scheduler's clock, where one answers.
    """
    kept = {subject: _read(subject, payload) for subject, payload in stored or ()}
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
            # NATS keeps an advertisement for one lease; the first ones of a new agent may not be stored yet.
            unkept.append(name)
    return Agents(
        nodes=len(nodes),
        fresh=sum(age <= lease_s for age in age_s.values()),
        silent=silent,
        ahead=[name for name, age in age_s.items() if age < -signals.CLOCK_MOST_S],
        behind=behind,
        unkept=[] if stored is None else unkept,
        unreadable=sum(one is None for one in kept.values()),
    )


def report(
    agents: Agents, *, lease_s: float, place: places.Place, ahead_s: float = 0.0
) -> list[findings.Finding]:  # fmt: skip
    """Return the findings about agents. ahead_s: how far the scheduler's clock is ahead of this machine's."""
    if not agents.nodes:
        return [findings.skip("agents", f"{agents.fresh} advertise; the cluster's nodes are not known")]
    speak = agents.nodes - len(agents.silent)
    whose = "the scheduler's" if ahead_s else "this machine's"
    return [
        *([findings.ok("agents", f"{speak} of {amounts.plural(agents.nodes, 'node')} advertise")] if speak else []),
        *_silent(agents, lease_s, place),
        *_own_clock(ahead_s),
        *_clocks(f"ahead of {whose}", agents.ahead),
        *_clocks(f"behind {whose}", agents.behind),
        *_unkept(agents.unkept, place),
        *_unreadable(agents.unreadable),
    ]


def _read(subject: str, payload: bytes) -> messages.Advertisement | None:
    """Return the advertisement; None where it cannot be decoded."""
    try:
        return wire.decode_advertisement(payload, subject=subject)
    except errors.MessageError:
        return None


def _silent(agents: Agents, lease_s: float, place: places.Place) -> list[findings.Finding]:
    if not agents.silent:
        return []
    names = agents.silent
    do = place.of_service("agent", names[0])
    if place.kind is places.Kind.KUBERNETES:
        do = f"{DAEMON_SET}; {place.log('agent')}"
    if len(names) == agents.nodes:
        return [
            findings.fail(
                "agents", f"none of {amounts.plural(agents.nodes, 'node')} advertises: no Pod can be placed", do
            )
        ]
    return [findings.warn("agents", f"no advertisement for {lease_s:.0f} s from {findings.names(names)}", do)]


def _own_clock(ahead_s: float) -> list[findings.Finding]:
    if not ahead_s:
        return []
    how = "behind" if ahead_s > 0.0 else "ahead of"
    detail = f"this machine's is {formats.duration(abs(ahead_s))} {how} the scheduler's, by which ages here are shown"
    do = "synchronise the clocks (NTP): `carico explain job` and `carico recommend` go by this machine's"
    return [findings.warn("clocks", detail, do)]


def _clocks(how: str, names: list[str]) -> list[findings.Finding]:
    if not names:
        return []
    do = "synchronise the clocks (NTP): messages from the future count for too long, and old ones are dropped"
    return [findings.warn("clocks", f"{how} clock: {findings.names(names)}", do)]


def _unkept(names: list[str], place: places.Place) -> list[findings.Finding]:
    if not names:
        return []
    do = f"{place.log('nats')} says why; restart NATS once its disk has room"
    if place.kind is places.Kind.LOCAL:
        do = f"{place.log('nats')} says why; after a full disk it restarts by itself once there is room"
    return [findings.warn("streams", f"NATS no longer stores advertisements of {findings.names(names)}", do)]


def learning(
    answers: Mapping[str, bytes], stored: Sequence[tuple[str, bytes]], *, place: places.Place
) -> list[findings.Finding]:  # fmt: skip
    """Return a finding about nodes whose Pods have run for `LEARNS_WITHIN_S` and that have still measured none."""
    said = (_read(subject, payload) for subject, payload in stored)
    warming = {one.node for one in said if one is not None and one.mode is messages.Mode.WARMING and one.pods}
    names = []
    for node in sorted(warming & answers.keys()):
        with contextlib.suppress(errors.MessageError):
            # One row a second.
            pods = node_answers.parse_detail(answers[node]).history.get("pods", ())[-LEARNS_WITHIN_S:]
            names += [node] if len(pods) == LEARNS_WITHIN_S and min(pods) > 0 else []
    if not names:
        return []
    detail = f"nothing is measured on {findings.names(names)}, although Pods run there for {LEARNS_WITHIN_S} s"
    do = f"{place.log('agent', names[0])}: does it see their cgroups? Until then, capacity is a guess"
    return [findings.warn("learning", detail, do)]


def _unreadable(count: int) -> list[findings.Finding]:
    if not count:
        return []
    do = "another version of CARICO, or another program, publishes on carico.v1.capacity: compare the versions"
    return [findings.warn("messages", f"{count} stored advertisements cannot be decoded", do)]
