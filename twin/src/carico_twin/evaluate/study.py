"""Which runs an evaluation makes."""

import dataclasses
from collections.abc import Sequence

from carico_core.domain import errors
from carico_twin import catalogue, scenario, world
from carico_twin.evaluate import ablation, beside, calibration, contenders, recorded, runs

MAIN = "main"
# Ceilings are drawn as curves on these; elsewhere the default and one other stand for them.
CURVES = ("pi-1000", "isolation")
OTHER_CEILING = contenders.footprint_name(0.8)
PAPER_PLANS = (
    "pi-100", "pi-250", "pi-500", "pi-750", "pi-1000", "train-100", "train-200", "mixed-500+20", "mixed-250+50",
    "mixed-100+100", "isolation",
)  # fmt: skip
# Left out of the means over scenarios: they measure balance between unequal nodes, at loads that leave room.
EXTRA_PLANS = ("unequal-half-load", "unequal-full-load")
# A run that takes longer than this in virtual time is given up: three times the longest sensible one.
LIMIT_S = 900.0

QUICK_SEEDS = 2
QUICK_PLANS = (
    "pi-100", "pi-500", "pi-1000", "train-100", "mixed-500+20", "memory-grows", "two-kinds",
    "unequal-nodes",
)  # fmt: skip
QUICK_CALIBRATION = ("pi-100", "pi-1000", "train-100", "mixed-500+20")
QUICK_CURVE = tuple(contenders.footprint_name(each) for each in (0.6, 0.7, 0.8, 0.9))
SEEDS = 10


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a user asked for; nothing named: everything. seeds None: 10, or 2 where it is to be quick.

    calibration: only what is compared with other clusters' numbers. emulated: a comparison on emulated nodes to compare
    the twin with.
    """

    quick: bool = False
    seeds: int | None = None
    scenarios: tuple[str, ...] = ()
    schedulers: tuple[str, ...] = ()
    ablation: bool = False
    plan: scenario.Scenario | None = None
    calibration: bool = False
    emulated: recorded.Comparison | None = None

    @property
    def seed_list(self) -> range:
        """The seeds, from 1 on."""
        default = QUICK_SEEDS if self.quick else SEEDS
        return range(1, 1 + (default if self.seeds is None else self.seeds))


def all_plans() -> dict[str, scenario.Scenario]:
    """Return every scenario by name: the catalogue's, and two loads on unequal nodes that leave room."""
    plans = [*catalogue.all_scenarios().values(), _arriving(EXTRA_PLANS[0], 0.5), _arriving(EXTRA_PLANS[1], 1.0)]
    return {plan.name: dataclasses.replace(plan, limit_s=min(plan.limit_s, LIMIT_S)) for plan in plans}


def _arriving(name: str, share: float) -> scenario.Scenario:
    """pi Pods that arrive for 40 s at this share of what the unequal nodes can work off."""
    plan = catalogue.unequal()
    job = plan.jobs[0]
    per_s = share * sum(each.cores for each in plan.hardware) / job.work.alone_s
    arriving = dataclasses.replace(job, pods=round(per_s * 40.0), create_per_s=per_s)
    return dataclasses.replace(plan, name=name, jobs=(arriving,))


def named(wanted: Sequence[str]) -> list[scenario.Scenario]:
    """The scenarios of these names; all where none is named. Raises `errors.SettingsError` for an unknown one."""
    every = all_plans()
    for name in wanted:
        if name not in every:
            raise contenders.unknown("scenario", name, list(every))
    return [plan for name, plan in every.items() if not wanted or name in wanted]


def tasks(wish: Wish) -> list[runs.Task]:
    """Return every run of an evaluation. Raises `errors.SettingsError` for names that are none."""
    if wish.plan is not None:
        if wish.plan.name in all_plans():
            # Targets are judged by the scenario's name.
            raise errors.SettingsError(
                f"--plan: got the name {wish.plan.name!r}, expected one that no scenario of `carico evaluate` has"
            )
        return _cross([wish.plan], wish)
    chosen = [] if wish.calibration else _cross(named(wish.scenarios), wish)
    if wish.calibration or (not wish.scenarios and not wish.schedulers):
        only = QUICK_CALIBRATION if wish.quick else None
        seeds = wish.seed_list[:1] if wish.quick else wish.seed_list
        chosen += calibration.tasks(seeds, only=only)
    if wish.emulated is not None:
        chosen += beside.tasks(wish.emulated, wish.seed_list)
    if wish.ablation:
        chosen += ablation.tasks(wish.seed_list, quick=wish.quick)
    return chosen


def _cross(plans: Sequence[scenario.Scenario], wish: Wish) -> list[runs.Task]:
    return [
        runs.Task(group=MAIN, plan=plan, contender=contender, seed=seed)
        for plan in plans for contender in contenders.named(wish.schedulers) if _runs(plan.name, contender, wish)
        for seed in wish.seed_list
    ]  # fmt: skip


def _runs(plan: str, contender: contenders.Contender, wish: Wish) -> bool:
    """Return whether this pair is worth its time; a user who named one gets all of it."""
    if wish.plan is not None:
        return bool(wish.schedulers) or contender.family != "footprint" or contender.name == contenders.DEFAULT
    if wish.scenarios:
        return True
    if wish.quick and plan not in QUICK_PLANS:
        return False
    if wish.schedulers or not isinstance(contender.choice, world.CaricoOptions):
        return True
    if contender.family != "footprint":
        return plan in (("pi-500", "pi-1000") if wish.quick else PAPER_PLANS)
    if contender.name == contenders.DEFAULT:
        return True
    if wish.quick:
        return plan == "pi-1000" and contender.name in QUICK_CURVE
    return plan in CURVES or contender.name == OTHER_CEILING
