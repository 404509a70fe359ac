"""Which faults a run does, and when: a pure function of its seed.

Each pair of a part and a kind of fault is a card. The whole deck is dealt before any card comes again, so that every
run that is long enough covers the matrix of docs/high-availability.md, in another order and with other overlaps.
"""

import dataclasses
import random
from collections.abc import Sequence

# Of the schedulers, by what they are when the fault begins; and one of the others, at random.
LEADER, STANDBY, AGGREGATOR, AGENT, AUTH = "leader", "standby", "aggregator", "agent", "auth"
NODE, NATS, API = "node", "nats", "api"
# kill -9 and start again; SIGSTOP and SIGCONT; SIGTERM and start again.
KILL, STOP, RESTART = "kill", "stop", "restart"
# Killed by the kernel at a limit that is too low (kill -9 without cgroups), again and again while it starts; stopped
# most of each moment, as by a disk that is slow; its wall clock is set, and set back.
MEMORY, SLOW, CLOCK = "out of memory", "slow disk", "clock jump"
# Everything that it sends, receives, or both to and from the bus or the API waits. Of two API servers, the one that all
# its connections go to stops.
CUT_BUS, CUT_API, ONE_API = "cut from bus", "cut from API", "one of two API servers"
# Its tokens for the bus and the API are refused, and its connections to the bus end; then it gets others.
TOKEN = "token revoked"
# Its static key is replaced: the servers accept both, then the new one alone.
KEY = "key rotated"
# Node and agent are killed and stay away; all streams and buckets are deleted; the Lease is deleted; no byte more fits
# on the disk of the bus and the API; every Deployment and DaemonSet restarts its Pods one after the other.
AWAY, STREAMS, LEASE, DISK, ROLL = "away", "streams", "lease", "full disk", "rolling restart"
# Two of three servers of NATS are killed and stay away.
QUORUM = "quorum lost"
DIRECTIONS = ("both ways", "sends nothing", "receives nothing")
CLUSTER = "cluster"

CARDS: tuple[tuple[str, str], ...] = (
    *((KILL, part) for part in (LEADER, STANDBY, AGGREGATOR, AGENT, AUTH, NODE, NATS, API)),
    *((STOP, part) for part in (LEADER, STANDBY, AGGREGATOR, AGENT, AUTH, NODE, NATS, API)),
    *((RESTART, part) for part in (NODE, NATS, API)),
    *((MEMORY, part) for part in (LEADER, STANDBY, AGGREGATOR, AGENT, AUTH, NATS)),
    *((CLOCK, part) for part in (LEADER, STANDBY, AGGREGATOR, AGENT, AUTH, NODE, API)),
    *((SLOW, part) for part in (NATS, API)),
    *((CUT_BUS, part) for part in (LEADER, STANDBY, AGGREGATOR, AGENT, AUTH)),
    *((CUT_API, part) for part in (LEADER, STANDBY, AUTH, NODE)),
    *((ONE_API, part) for part in (LEADER, STANDBY, AUTH, NODE)),
    *((TOKEN, part) for part in (LEADER, STANDBY, AGGREGATOR, AGENT)),
    (KEY, AUTH),
    (AWAY, NODE),
    *((kind, CLUSTER) for kind in (STREAMS, LEASE, DISK, ROLL)),
)  # fmt: skip
# Of a run with three servers of NATS; what has NATS for its part is for one of them.
OF_THREE = (*CARDS, (QUORUM, NATS))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One fault. `at_s` counts from the first one; `choice`, in [0, 1), chooses among several parts of one kind.

    `size`, in [0, 1): how far a clock jumps, and how soon a process is killed again.
    """

    at_s: float
    kind: str
    part: str
    lasts_s: float
    direction: str
    choice: float
    size: float


def deal(
    seed: int, *, seconds: float, longest_s: float, every_s: float, cards: Sequence[tuple[str, str]]
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
        step = Step(
            at_s=at_s, kind=kind, part=part, lasts_s=lasts_s, direction=rng.choice(DIRECTIONS), choice=rng.random(),
            size=rng.random(),
        )  # fmt: skip
        steps.append(step)
        at_s += rng.uniform(0.2, 1.8) * every_s
    return steps
