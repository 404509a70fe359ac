"""Which runs an evaluation makes."""

import dataclasses
from collections.abc import Sequence

from carico_core.domain import errors
from carico_twin import catalogue, scenario, world
from carico_twin.evaluate import ablation, contenders, runs
from carico_twin.evaluate.comparisons import calibration, emulated, recorded
from carico_twin.public import alibaba, openb

MAIN = "main"
# Scenarios on which all ceilings run, for curves; on the others only the default and one more.
CURVES = ("pi-1000", "isolation")
OTHER_CEILING = contenders.footprint_name(0.8)
PAPER_PLANS = (
    "pi-100", "pi-250", "pi-500", "pi-750", "pi-1000", "train-100", "train-200", "mixed-500+20", "mixed-250+50",
    "mixed-100+100", "isolation",
)  # fmt: skip
# What other estimators and PRONTO's model run on: they cost as much as CARICO, and are of interest for comparison only.
COMPARED = ("delta", "joint", "pronto")
COMPARED_PLANS = ("pi-500", "pi-1000", "train-100", "mixed-100+100")
# Not in the means over scenarios, which were chosen before: balance between unequal nodes at loads that leave room,
# programs that wait, and public traces.
UNEQUAL_PLANS = ("unequal-half-load", "unequal-full-load")
WAITING_PLANS = tuple(plan.name for plan in catalogue.waiting())
PUBLIC_PLANS = ("alibaba", "openb")
EXTRA_PLANS = (*UNEQUAL_PLANS, *WAITING_PLANS, *PUBLIC_PLANS)
# Virtual time after which a run is stopped: three times the longest useful one.
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
class Selection:
    """What a user selected; empty fields select everything. seeds None: 10, or 2 if quick; from `first_seed` on.

    calibration: only what is compared with other clusters' numbers. emulated: a comparison on emulated nodes with which
    to compare the twin.
    """

    quick: bool = False
    seeds: int | None = None
    first_seed: int = 1
    scenarios: tuple[str, ...] = ()
    schedulers: tuple[str, ...] = ()
    ablation: bool = False
    plan: scenario.Scenario | None = None
    calibration: bool = False
    emulated: recorded.Comparison | None = None

    @property
    def seed_list(self) -> range:
        """The seeds, in order."""
        default = QUICK_SEEDS if self.quick else SEEDS
        return range(self.first_seed, self.first_seed + (default if self.seeds is None else self.seeds))


def all_plans() -> dict[str, scenario.Scenario]:
    """Return every scenario by name: the catalogue's, then the extra ones."""
    unequal = [_arriving(name, share) for name, share in zip(UNEQUAL_PLANS, (0.5, 1.0), strict=True)]
    public = [alibaba.alibaba(), openb.openb()]
    plans = [*catalogue.all_scenarios().values(), *unequal, *catalogue.waiting(), *public]
    return {plan.name: dataclasses.replace(plan, limit_s=min(plan.limit_s, LIMIT_S)) for plan in plans}


def _arriving(name: str, share: float) -> scenario.Scenario:
    """Return pi Pods that arrive for 40 s at this share of what the unequal nodes can process."""
    plan = catalogue.unequal()
    job = plan.jobs[0]
    per_s = share * sum(each.cores for each in plan.hardware) / job.work.alone_s
    arriving = dataclasses.replace(job, pods=round(per_s * 40.0), create_per_s=per_s)
    return dataclasses.replace(plan, name=name, jobs=(arriving,))


def named(wanted: Sequence[str]) -> list[scenario.Scenario]:
    """Return the scenarios with these names; all if none is named. Raises `errors.SettingsError` for an unknown one."""
    every = all_plans()
    for name in wanted:
        if name not in every:
            raise contenders.unknown("--scenario", name, list(every))
    return [plan for name, plan in every.items() if not wanted or name in wanted]


def tasks(selection: Selection) -> list[runs.Task]:
    """Return every run of an evaluation. Raises `errors.SettingsError` for unknown names."""
    if selection.plan is not None:
        if selection.plan.name in all_plans():
            # Targets go by the scenario's name.
            raise errors.SettingsError(
                f"--plan: got the name {selection.plan.name!r}, expected a name that no built-in scenario has"
            )
        return _cross([selection.plan], selection)
    chosen = [] if selection.calibration else _cross(named(selection.scenarios), selection)
    if selection.calibration or (not selection.scenarios and not selection.schedulers):
        only = QUICK_CALIBRATION if selection.quick else None
        seeds = selection.seed_list[:1] if selection.quick else selection.seed_list
        chosen += calibration.tasks(seeds, only=only)
    if selection.emulated is not None:
        chosen += emulated.tasks(selection.emulated, selection.seed_list)
    if selection.ablation:
        chosen += ablation.tasks(selection.seed_list, quick=selection.quick)
    return chosen


def _cross(plans: Sequence[scenario.Scenario], selection: Selection) -> list[runs.Task]:
    return [
        runs.Task(group=MAIN, plan=plan, contender=contender, seed=seed)
        for plan in plans for contender in contenders.named(selection.schedulers)
        if _is_worth_running(plan.name, contender, selection) for seed in selection.seed_list
    ]  # fmt: skip


def _is_worth_running(plan: str, contender: contenders.Contender, selection: Selection) -> bool:
    """Return whether this pair is worth its time; what the user named always is."""
    if selection.plan is not None:
        return bool(selection.schedulers) or contender.family != "footprint" or contender.name == contenders.DEFAULT
    if selection.scenarios:
        return True
    if selection.quick and plan not in QUICK_PLANS:
        return False
    if selection.schedulers or not isinstance(contender.choice, world.CaricoOptions):
        return True
    if contender.family in COMPARED:
        return plan in COMPARED_PLANS and not selection.quick
    if contender.family != "footprint":
        return plan in (("pi-500", "pi-1000") if selection.quick else PAPER_PLANS)
    if contender.name == contenders.DEFAULT:
        return True
    if selection.quick:
        return plan == "pi-1000" and contender.name in QUICK_CURVE
    return plan in CURVES or contender.name == OTHER_CEILING
