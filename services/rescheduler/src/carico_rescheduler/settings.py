"""The settings of the rescheduler."""

import dataclasses

from carico_core.domain import messages
from carico_core.domain import names as domain_names
from carico_core.numerics.rescheduling.containers import gains
from carico_core.runtime.bus import port as buses
from carico_core.runtime.kube import api_client as kubes
from carico_core.runtime.leadership import leader_settings
from carico_core.runtime.process import settings
from carico_rescheduler.context import movable
from carico_rescheduler.context import problem as contexts
from carico_rescheduler.moves import surge_steps
from carico_rescheduler.plan import decision

PREFIX = "rescheduler"
PROGRAM = "carico-rescheduler"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReschedulerSettings:
    """Read once in `main`: environment CARICO_RESCHEDULER_..., flags --..."""

    automatic: bool = settings.setting(
        True, help="carry out each plan that pays; without it, plans are made, and carried out on request only",
        why="who deploys a rescheduler wants moves; `carico reschedule --dry-run` shows them first",
    )  # fmt: skip
    mode: movable.Mode = settings.setting(
        movable.Mode.SURGE,
        help="how a Pod moves: surge (the new one is ready before the old one goes), evict (by the eviction API), or "
        "node-selector (the Deployment is pinned to a node)",
        why="surge loses no request",
    )
    names: tuple[str, ...] = settings.setting(
        (domain_names.SCHEDULER_NAME,), help="schedulerNames whose Pods may move",
        why="another scheduler would place them by other rules",
    )  # fmt: skip
    namespaces: tuple[str, ...] = settings.setting((), help="namespaces whose Pods may move; none: all")
    baseline_namespaces: tuple[str, ...] = settings.setting(
        ("kube-system", "carico"), help="namespaces whose Pods never move", why="the cluster and CARICO need them"
    )
    every_s: float = settings.setting(
        60.0, help="time between two plans", unit="s", minimum=1.0, maximum=86400.0,
        why="traffic and load change in minutes; each plan costs its search",
    )  # fmt: skip
    search_s: float = settings.setting(
        1.0, help="time of a search, on one core", unit="s", minimum=0.01, maximum=60.0,
        why="each plan costs as much of a core at most; some dozen Pods need less",
    )  # fmt: skip
    least_age_s: float = settings.setting(
        600.0, help="least age of a Pod that may move", unit="s", minimum=0.0, maximum=86400.0,
        why="a moved Pod is new, so none moves twice in this time",
    )  # fmt: skip
    least_bytes: float = settings.setting(
        100_000.0, help="traffic between nodes that a plan must end, unless it ends least-tasks", unit="B/s",
        minimum=1.0, maximum=1e12, why="a thousandth of a link of 1 Gbit/s; less is noise",
    )  # fmt: skip
    least_tasks: float = settings.setting(
        1.0, help="tasks above the ceilings of nodes that a plan must end, unless it ends least-bytes", unit="tasks",
        minimum=0.01, maximum=1e6, why="the load of a node varies by less",
    )  # fmt: skip
    task_bytes: float = settings.setting(
        10e6, help="traffic between nodes that weighs as much as one task above a ceiling", unit="B/s",
        minimum=1.0, maximum=1e12,
        why="2,000 requests a second of 5 kB that wait .5 ms for the network: one request waits at any time",
    )  # fmt: skip
    most_moves: int = settings.setting(
        20, help="maximum moves of a plan", minimum=1, maximum=1000,
        why="the next plan knows what they have changed; in a full cluster, fewer may only lose",
    )  # fmt: skip
    moves_per_hour: int = settings.setting(
        60, help="maximum moves in any hour", minimum=0, maximum=100_000, why="users notice restarts"
    )
    place_s: float = settings.setting(
        30.0, help="how long a new Pod may wait for its node before the move is undone", unit="s",
        minimum=1.0, maximum=3600.0, why="the scheduler binds in milliseconds where there is room",
    )  # fmt: skip
    start_s: float = settings.setting(
        300.0, help="how long a new Pod may take to be ready before the move is undone", unit="s",
        minimum=1.0, maximum=7200.0, why="images are pulled in this time",
    )  # fmt: skip
    stop_timeout_s: float = settings.setting(
        10.0, help="how long a shutdown waits until the move under way has ended or is undone", unit="s",
        minimum=0.0, maximum=300.0,
    )  # fmt: skip
    ceiling_cpu: float | None = settings.setting(
        None, help="CPU usage above which every node is overloaded", minimum=messages.CEILING_LEAST, maximum=1.0,
        why="agents advertise their own; a lower one would take apart what the scheduler packs",
    )  # fmt: skip
    ceiling_memory: float | None = settings.setting(
        None, help="memory usage above which no move fills a node", minimum=messages.CEILING_LEAST, maximum=1.0,
        why="agents advertise their own",
    )  # fmt: skip
    http: settings.HttpSettings = dataclasses.field(default_factory=settings.HttpSettings)
    log: settings.LogSettings = dataclasses.field(default_factory=settings.LogSettings)
    bus: buses.BusSettings = dataclasses.field(default_factory=buses.BusSettings)
    kube: kubes.KubeSettings = dataclasses.field(default_factory=kubes.KubeSettings)
    leader: leader_settings.LeaderSettings = dataclasses.field(default_factory=leader_settings.LeaderSettings)

    def __post_init__(self) -> None:
        if not self.names:
            raise ValueError("--names: got none, expected the schedulerNames whose Pods may move")
        domain_names.check_namespaces("--namespaces", self.namespaces)
        domain_names.check_namespaces("--baseline-namespaces", self.baseline_namespaces)

    def policy(self) -> movable.Policy:
        """Return what may move."""
        return movable.Policy(
            mode=self.mode,
            schedulers=frozenset(self.names),
            namespaces=frozenset(self.namespaces),
            baseline_namespaces=frozenset(self.baseline_namespaces),
            least_age_s=self.least_age_s,
        )

    def ceilings(self) -> contexts.Ceilings:
        """Return what replaces the ceilings that agents advertise."""
        return contexts.Ceilings(cpu=self.ceiling_cpu, memory=self.ceiling_memory)

    def rule(self) -> decision.Rule:
        """Return when moves pay."""
        return decision.Rule(
            least_bytes=self.least_bytes, least_tasks=self.least_tasks, most_moves=self.most_moves,
            weights=gains.Weights(task_bytes=self.task_bytes),
        )  # fmt: skip

    def limits(self) -> surge_steps.StepTimes:
        """Return how long the steps of a move may take."""
        return surge_steps.StepTimes(place_s=self.place_s, start_s=self.start_s)
