"""Which faults a run does, and when: a pure function of its seed.

Each pair of a part and a kind of fault is a card. The whole deck is dealt before any card comes again, so that every
run that is long enough covers the matrix of docs/high-availability.md, in another order and with other overlaps.
"""

import dataclasses
import random
from collections.abc import Sequence

# Of the schedulers, by what they are when the fault begins; and one of the others, at random.
LEADER, STANDBY, AGGREGATOR, AGENT, NODE, NATS, API = "leader", "standby", "aggregator", "agent", "node", "nats", "api"
# kill -9 and start again; SIGSTOP and SIGCONT; SIGTERM and start again; everything that it sends, receives, or both to
# and from the bus or the API waits; node and agent are killed and stay away; all streams and buckets are deleted; the
# Lease is deleted; no byte more fits on the disk of the bus and the API.
KILL, STOP, RESTART, AWAY, STREAMS, LEASE, DISK = "kill", "stop", "restart", "away", "streams", "lease", "full disk"
CUT_BUS, CUT_API = "cut from bus", "cut from API"
DIRECTIONS = ("both ways", "sends nothing", "receives nothing")
CLUSTER = "cluster"

CARDS: tuple[tuple[str, str], ...] = (
    *((KILL, part) for part in (LEADER, STANDBY, AGGREGATOR, AGENT, NODE, NATS, API)),
    *((STOP, part) for part in (LEADER, STANDBY, AGGREGATOR, AGENT, NODE, NATS, API)),
    *((RESTART, part) for part in (LEADER, STANDBY, AGGREGATOR, AGENT, NODE, NATS, API)),
    *((CUT_BUS, part) for part in (LEADER, STANDBY, AGGREGATOR, AGENT)),
    *((CUT_API, part) for part in (LEADER, STANDBY)),
    (AWAY, NODE),
    (STREAMS, CLUSTER),
    (LEASE, CLUSTER),
    (DISK, CLUSTER),
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One fault. `at_s` counts from the first one; `choice`, in [0, 1), chooses among several parts of one kind."""

    at_s: float
    kind: str
    part: str
    lasts_s: float
    direction: str
    choice: float


def deal(
    seed: int, *, seconds: float, longest_s: float, every_s: float = 2.4, cards: Sequence[tuple[str, str]] = CARDS
) -> list[Step]:
    """Return the faults of a run: in the mean one each `every_s` seconds, each 1 to `longest_s` long."""
    rng = random.Random(seed)
    steps: list[Step] = []
    deck: list[tuple[str, str]] = []
    at_s = 0.0
    while at_s < seconds:
        if not deck:
            deck = rng.sample(cards, len(cards))
        kind, part = deck.pop()
        # As many short ones as long ones.
        lasts_s = min(longest_s ** rng.random(), seconds - at_s)
        direction = rng.choice(DIRECTIONS)
        steps.append(
            Step(at_s=at_s, kind=kind, part=part, lasts_s=lasts_s, direction=direction, choice=rng.random())
        )  # fmt: skip
        at_s += rng.uniform(0.2, 1.8) * every_s
    return steps
