"""The targets of the evaluation, each met or missed with its number.

kube-scheduler's "best" is chosen in hindsight for each scenario (`tables.best`); ours is one setting for all.
"""

import dataclasses
import math
from collections.abc import Iterator

from carico_core.domain import amounts
from carico_twin import catalogue
from carico_twin.evaluate import contenders, study, tables

SLOWDOWN = 1.22
PI_MEAN_S = 6.3
PI_JOB_OVER_BEST = 1.03
RAMP_UP_S = 2.0
MOST_PER_CORE = 2.0
TRAIN_JOB_OVER_BEST = 1.05
MEMORY_SHARE = 0.95
MIXED_PI_S = 7.5
CONTENDED_SHARE = 0.05
LOAD_SPREAD = 0.15
WAITING_JOB_OVER_BEST = 1.05
ISOLATION = contenders.footprint_name(contenders.ISOLATION_CEILING)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A target: `value` must be at most `bound`. value NaN: a run that it needs is missing or did not finish."""

    name: str
    value: float
    bound: float
    unit: str
    detail: str

    @property
    def verdict(self) -> str:
        """met, missed or unknown."""
        if math.isnan(self.value) or math.isnan(self.bound):
            return "unknown"
        # For rounding: a bound of 0 allows a difference in the last bits.
        return "met" if self.value <= self.bound + 1e-9 else "missed"


class _Facts:
    """The table, read by plan and contender; NaN if there is no run."""

    def __init__(self, found: tables.Table) -> None:
        self.found = found
        self.ours = contenders.DEFAULT
        every = contenders.all_contenders()
        self.kube = contenders.in_families(every, "kube")
        self.constant = contenders.in_families(every, "constant")
        self.footprint = contenders.in_families(every, "footprint")

    def mean(self, plan: str, name: str, figure: str) -> float:
        cell = self.found.get(plan, {}).get(name)
        return math.nan if cell is None else cell.mean(figure)

    def pi_mean_s(self, plan: str, name: str) -> float:
        cell = self.found.get(plan, {}).get(name)
        spread = {} if cell is None else cell.pod_s.get("pi", {})
        return spread["mean"].mean if "mean" in spread else math.nan

    def best_kube(self, plan: str) -> str | None:
        return tables.best(self.found.get(plan, {}), self.kube)


def judge(found: tables.Table) -> list[Target]:
    """Return every target for the default setting of ours."""
    facts = _Facts(found)
    parts = (_over_all, _pi_1000, _dominated, _pi_others, _ramp_up, _train, _mixed, _isolation, _unequal, _waiting)
    return [target for part in parts for target in part(facts)]


def plans_of_all(found: tables.Table) -> list[str]:
    """Return the scenarios in the means."""
    return [plan for plan in catalogue.all_scenarios() if plan in found]


def family_summaries(found: tables.Table) -> dict[str, tables.Summary]:
    """Return each family's best in hindsight over all scenarios, and our two settings alone."""
    every = contenders.all_contenders()
    plans = plans_of_all(found)
    single = [contenders.DEFAULT, study.OTHER_CEILING]
    summaries = {name: tables.summary(found, _ran(found, plans, name)) for name in dict.fromkeys(single)}
    for family in dict.fromkeys(each.family for each in every.values()):
        names = contenders.in_families(every, family)
        ran = [plan for plan in plans if any(name in found[plan] for name in names)]
        best = {plan: tables.best(found[plan], names) for plan in ran}
        label = names[0] if len(names) == 1 else f"{family}, best in hindsight"
        summaries[label] = tables.summary(found, best)
    # A mode that ran on only some scenarios has no comparable mean.
    count = max(len(plans), 1)
    return {name: each for name, each in summaries.items() if each.scenarios + len(each.unfinished) == count}


def _ran(found: tables.Table, plans: list[str], name: str) -> dict[str, str | None]:
    return {plan: name for plan in plans if name in found[plan]}


def _over_all(facts: _Facts) -> Iterator[Target]:
    plans = [plan for plan in plans_of_all(facts.found) if facts.ours in facts.found[plan]]
    best = {plan: facts.best_kube(plan) for plan in plans}
    ours = tables.summary(facts.found, dict.fromkeys(plans, facts.ours))
    kube = tables.summary(facts.found, best)
    count = amounts.plural(ours.scenarios, "scenario")
    yield Target(
        name="all scenarios: geometric-mean job time, against kube-scheduler's best in hindsight",
        value=ours.job_s, bound=kube.job_s, unit="s", detail=count,
    )  # fmt: skip
    yield Target(
        name="all scenarios: geometric-mean slowdown", value=ours.slowdown, bound=SLOWDOWN, unit="",
        detail=f"{count}; kube-scheduler's best {_shown(kube.slowdown, '.3f')}",
    )  # fmt: skip
    over = {plan: facts.mean(plan, facts.ours, "overrun_node_s") for plan in plans}
    yield Target(
        name="all scenarios: memory overrun", value=sum(over.values()) if over else math.nan, bound=0.0, unit="node-s",
        detail=", ".join(f"{plan} {value:.1f}" for plan, value in over.items() if value > 0.0) or "none anywhere",
    )  # fmt: skip
    yield Target(
        name="out-of-memory: Pods killed for memory", value=facts.mean("out-of-memory", facts.ours, "oom_killed"),
        bound=0.0, unit="Pods",
        detail=f"kube-no-memory {_shown(facts.mean('out-of-memory', 'kube-no-memory', 'oom_killed'), '.1f')}",
    )  # fmt: skip


def _job_target(facts: _Facts, plan: str, factor: float) -> Target:
    best = facts.best_kube(plan)
    bound = math.nan if best is None else factor * facts.mean(plan, best, "job_s")
    least = min(
        (facts.mean(plan, name, "job_s") for name in facts.kube if name in facts.found.get(plan, {})), default=math.nan
    )
    return Target(
        name=f"{plan}: job time, at most {factor - 1.0:.0%} over kube-scheduler's best", unit="s",
        value=facts.mean(plan, facts.ours, "job_s"), bound=bound,
        detail=f"best {best or 'unknown'}; least job time of any of its settings {_seconds(least)}",
    )  # fmt: skip


def _pi_1000(facts: _Facts) -> Iterator[Target]:
    yield Target(
        name="pi-1000: mean Pod time", value=facts.mean("pi-1000", facts.ours, "pod_mean_s"), bound=PI_MEAN_S, unit="s",
        detail=f"oracle {_shown(facts.mean('pi-1000', 'oracle', 'pod_mean_s'), '.2f')} s",
    )  # fmt: skip
    yield _job_target(facts, "pi-1000", PI_JOB_OVER_BEST)
    yield Target(
        name="pi-1000: most Pods running on a node, per core", bound=MOST_PER_CORE, unit="",
        value=facts.mean("pi-1000", facts.ours, "most_per_core"), detail="mean over seeds of each run's most",
    )  # fmt: skip


def _dominated(facts: _Facts) -> Iterator[Target]:
    cells = facts.found.get("pi-1000", {})
    ours = [cells[name] for name in facts.footprint if name in cells]
    rivals = [name for name in (*facts.kube, *facts.constant) if name in cells]
    left = [
        name for name in rivals
        if not any(_is_better(each, cells[name]) for each in ours)
    ]  # fmt: skip
    yield Target(
        name="pi-1000: kube-scheduler's settings and constants that no ceiling of ours beats in both figures",
        value=float(len(left)) if ours and rivals else math.nan, bound=0.0, unit="settings",
        detail=f"of {len(rivals)}: {', '.join(left) or 'none'}; {len(ours)} ceilings",
    )  # fmt: skip


def _is_better(ours: tables.Cell, other: tables.Cell) -> bool:
    return ours.mean("job_s") <= other.mean("job_s") and ours.mean("pod_mean_s") <= other.mean("pod_mean_s")


def _pi_others(facts: _Facts) -> Iterator[Target]:
    for pods in (100, 250, 500, 750):
        yield _job_target(facts, f"pi-{pods}", PI_JOB_OVER_BEST)


def _ramp_up(facts: _Facts) -> Iterator[Target]:
    for plan, bound, what in (
        ("pi-100", RAMP_UP_S, "from a cold model"), ("pi-250", RAMP_UP_S, "from a cold model"),
        ("known-pi-250", _noise(facts, "known-pi-250"), "of a class known to the cluster; bound: what is measurable"),
    ):  # fmt: skip
        ours, oracle = (facts.mean(plan, name, "job_s") for name in (facts.ours, "oracle"))
        yield Target(
            name=f"{plan}: ramp-up {what}, job time beyond the oracle's", value=ours - oracle, bound=bound, unit="s",
            detail=f"ours {_shown(ours, '.1f')} s, oracle {_shown(oracle, '.1f')} s",
        )  # fmt: skip


def _noise(facts: _Facts, plan: str) -> float:
    """Return the combined half width of both intervals: a smaller difference is not significant. NaN if unknown."""
    cells = facts.found.get(plan, {})
    if facts.ours not in cells or "oracle" not in cells:
        return math.nan
    halves = [cells[name].figures["job_s"].half for name in (facts.ours, "oracle")]
    return math.hypot(*halves)


def _train(facts: _Facts) -> Iterator[Target]:
    for pods in (100, 200):
        plan = f"train-{pods}"
        yield _job_target(facts, plan, TRAIN_JOB_OVER_BEST)
        yield Target(
            name=f"{plan}: largest share of a node's memory", value=facts.mean(plan, facts.ours, "peak_memory_share"),
            bound=MEMORY_SHARE, unit="", detail="mean over seeds of each run's largest",
        )  # fmt: skip


def _mixed(facts: _Facts) -> Iterator[Target]:
    for pis, trains in ((500, 20), (250, 50), (100, 100)):
        plan = f"mixed-{pis}+{trains}"
        yield _job_target(facts, plan, 1.0)
        yield Target(
            name=f"{plan}: mean Pod time of pi", value=facts.pi_mean_s(plan, facts.ours), bound=MIXED_PI_S,
            unit="s", detail=f"kube-500m {_shown(facts.pi_mean_s(plan, 'kube-500m'), '.2f')} s",
        )  # fmt: skip


def _isolation(facts: _Facts) -> Iterator[Target]:
    yield Target(
        name=f"isolation: time in which a server's node has more runnable tasks than cores, {ISOLATION}",
        value=facts.mean("isolation", ISOLATION, "contended_share"), bound=CONTENDED_SHARE, unit="of the time",
        detail=", ".join(
            f"{name} {_shown(facts.mean('isolation', name, 'contended_share'), '.1%')}"
            for name in ("kube-500m", "kube-1000m", facts.ours)
        ),
    )  # fmt: skip


def _unequal(facts: _Facts) -> Iterator[Target]:
    for plan in study.UNEQUAL_PLANS:
        yield Target(
            name=f"{plan}: load per core, largest less smallest over the mean",
            value=facts.mean(plan, facts.ours, "load_per_core_spread"), bound=LOAD_SPREAD, unit="",
            detail=f"kube-exact {_shown(facts.mean(plan, 'kube-exact', 'load_per_core_spread'), '.2f')}",
        )  # fmt: skip


def _shown(value: float, form: str) -> str:
    return format(value, form) if math.isfinite(value) else "unknown"


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if math.isfinite(value) else "unknown"


def _waiting(facts: _Facts) -> Iterator[Target]:
    for plan in study.WAITING_PLANS:
        yield _job_target(facts, plan, WAITING_JOB_OVER_BEST)
        yield Target(
            name=f"{plan}: memory overrun", value=facts.mean(plan, facts.ours, "overrun_node_s"), bound=0.0,
            unit="node-s", detail="mean over seeds",
        )  # fmt: skip
