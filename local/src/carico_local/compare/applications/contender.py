"""Who places the Pods of the applications, and what moves them."""

import dataclasses

from carico_core.domain import errors, names
from carico_core.numerics.rescheduling.containers import annealing
from carico_local.applications import users
from carico_local.compare import contender as contenders

NOTHING, CARICO, KUBE, DESCHEDULER = "none", "carico", "kube-scheduler", "descheduler"
PAPER = tuple(each.value for each in annealing.Variant)
NAMES = (NOTHING, KUBE, DESCHEDULER, *PAPER, CARICO)
QUICK = (NOTHING, DESCHEDULER, CARICO)
# A sixth to a third of the paper's users (table 8), for nodes of half a processor; its rates of messages.
LOADS = {
    "low": users.Load(name="low", browsers=2, planners=1, devices=6),
    "high": users.Load(name="high", browsers=6, planners=8, devices=30),
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PlacementContender:
    """A contender. `algorithm`: of our rescheduler; empty where it does not act.

    `is_placed`: its Pods begin where the paper's do (table 10), rather than where their scheduler wants them.
    """

    name: str
    scheduler_name: str
    requests: bool
    is_placed: bool = True
    algorithm: str = ""


def parse(name: str) -> PlacementContender:
    """Return the contender of that name. Raises `SettingsError`.

    none: nothing moves. kube-scheduler: it chooses the nodes, and nothing moves. descheduler: with kube-scheduler. The
    others are algorithms of our rescheduler, all with its moves.

    >>> parse("ws-sa-pn").algorithm
    'ws-sa-pn'
    """
    if name in (KUBE, DESCHEDULER):
        return PlacementContender(
            name=name, scheduler_name=contenders.KUBE_SCHEDULER, requests=True, is_placed=name == DESCHEDULER
        )
    if name in NAMES:
        algorithm = "" if name == NOTHING else name
        return PlacementContender(name=name, scheduler_name=names.SCHEDULER_NAME, requests=False, algorithm=algorithm)
    raise errors.SettingsError(f"--contender: got {name!r}, expected one of {', '.join(NAMES)} with --applications")
