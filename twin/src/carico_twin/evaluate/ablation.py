"""Each step of the default estimator, and each rule around it, switched off in turn, on the same seeds."""

import dataclasses
import math
from collections.abc import Iterable

from carico_core.numerics.estimators.footprint import class_costs, footprint
from carico_scheduler.rules import policy
from carico_twin import agents, catalogue, scenario, virtual_time, world
from carico_twin.evaluate import contenders, runs, tables

STEPS = "ablation"
FAULTS = "faults"
BASE = "as installed"
# Each stresses another part: a cold model, several classes, memory, unequal nodes, work outside Kubernetes.
PLANS = (
    "pi-100", "pi-500", "mixed-500+20", "memory-grows", "two-kinds", "unequal-nodes", "noisy-neighbour",
    "late-memory", "four-threads",
)  # fmt: skip
QUICK_PLANS = ("pi-500", "memory-grows", "two-kinds")
MOST_SEEDS = 3


def tasks(seeds: Iterable[int], *, quick: bool) -> list[runs.Task]:
    """Return every variant on every plan with at most three seeds, and the faults."""
    every = catalogue.all_scenarios()
    few = list(seeds)[: 1 if quick else MOST_SEEDS]
    steps = [
        runs.Task(group=STEPS, plan=every[plan], contender=_contender(name, choice), seed=seed)
        for plan in (QUICK_PLANS if quick else PLANS) for name, choice in variants().items() for seed in few
    ]  # fmt: skip
    return steps + [
        runs.Task(group=FAULTS, plan=plan, contender=_contender(name, choice), seed=seed)
        for plan in faults(quick=quick) for name, choice in fault_variants().items() for seed in few
    ]  # fmt: skip


def _contender(name: str, choice: world.Choice) -> contenders.Contender:
    return contenders.Contender(name=name, family="ablation", choice=choice, says=name)


def variants() -> dict[str, world.Choice]:
    """Return the default and its variants, each with one change, by the name of the change."""
    without = footprint.FootprintConstants
    steps: dict[str, object] = {
        "no classes": without(by_class=False),
        "no federation of costs": without(federated=False),
        "no confidence bound": without(risk_sd=0.0),
        "no limit on unmeasured loads": without(growth=0.0),
        "not eager: new classes learnt each second": without(eager_s=0.0),
        "no memory growth": without(per_dimension=class_costs.CostConstants(growth_sd=0.0)),
        "no variance of the Pods' own": without(per_dimension=class_costs.CostConstants(own_half_life_s=math.inf)),
        "full readings taken as they are": without(censored=False),
        "no start lag": without(start_lag_s=0.0),
    }
    return {
        BASE: world.CaricoOptions(),
        **{name: world.CaricoOptions(agent=agents.AgentOptions(constants=each)) for name, each in steps.items()},
        **_around(),
    }


def _around() -> dict[str, world.Choice]:
    """Return variants of merge, publishing and scheduling."""
    return {
        "merge: sequential": world.CaricoOptions(merge="sequential"),
        "merge: none": world.CaricoOptions(merge=None),
        "published each second only": world.CaricoOptions(agent=agents.AgentOptions(publish_at_events=False)),
        "released at start (paper)": world.CaricoOptions(policy=policy.Policy(release=policy.Release.PAPER)),
        "score: absolute": world.CaricoOptions(policy=policy.Policy(score=policy.ScoreMode.ABSOLUTE)),
        "score: relative": world.CaricoOptions(policy=policy.Policy(score=policy.ScoreMode.RELATIVE)),
    }


def fault_variants() -> dict[str, world.Choice]:
    """Return the variants that run under faults: with and without the rules against them."""
    changed = _around()
    kept = ("merge: none", "published each second only", "released at start (paper)")
    alone = footprint.FootprintConstants(federated=False)
    return {
        BASE: world.CaricoOptions(),
        "no federation of costs": world.CaricoOptions(agent=agents.AgentOptions(constants=alone)),
        **{name: changed[name] for name in kept},
    }


def faults(*, quick: bool) -> list[scenario.Scenario]:
    """Return pi-500 with late or lost messages, and with dead agents; nodes that join, and one that never ran work."""
    delays = (0.01, 1.0) if quick else (0.01, 0.1, 0.5, 1.0, 2.0, 5.0)
    losses = (0.1,) if quick else (0.01, 0.1, 0.3)
    dead = dataclasses.replace(catalogue.pi(500), name="a tenth of the agents dead", dead_agents=0.1)
    return [
        *(catalogue.linked(f"messages {delay:g} s late", delay_s=delay) for delay in delays),
        *(
            catalogue.linked(f"{loss:.0%} of the messages lost", delay_s=virtual_time.Link().delay_s, loss=loss)
            for loss in losses
        ),
        dead,
        dataclasses.replace(catalogue.joining(), name="a tenth of the nodes joins in mid-job"),
        catalogue.newcomer(),
    ]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """One variant over all plans of the ablation, compared with the default: ratios above 1 are worse."""

    name: str
    total: tables.Summary
    job_ratio: float
    slowdown_ratio: float
    overrun_more_node_s: float
    capacity_overrun: float


def effects(found: tables.Table) -> list[Effect]:
    """Compare every variant with the default; plans that one of them did not finish count for neither."""
    names = dict.fromkeys(name for cells in found.values() for name in cells)
    return [_effect(found, name) for name in names] if BASE in names else []


def _effect(found: tables.Table, name: str) -> Effect:
    shared = [plan for plan, cells in found.items() if name in cells and BASE in cells]
    whole = [plan for plan in shared if found[plan][name].finished == found[plan][BASE].finished == 1.0]
    changed, base = (tables.summary(found, dict.fromkeys(whole, each)) for each in (name, BASE))
    over = {each: sum(found[plan][each].mean("overrun_node_s") for plan in shared) for each in (name, BASE)}
    return Effect(
        name=name,
        total=dataclasses.replace(
            changed, overrun_node_s=over[name], unfinished=tuple(plan for plan in shared if plan not in whole)
        ),
        job_ratio=changed.job_s / base.job_s,
        slowdown_ratio=changed.slowdown / base.slowdown,
        overrun_more_node_s=over[name] - over[BASE],
        capacity_overrun=sum(found[plan][name].mean("capacity_overrun") for plan in shared),
    )
