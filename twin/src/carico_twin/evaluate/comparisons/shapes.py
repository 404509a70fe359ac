"""Statements that the published tables support, and whether the calibrated twin reproduces them."""

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping

import numpy as np

from carico_twin.evaluate import contenders, runs, tables
from carico_twin.evaluate.comparisons import calibration, published

# The series of pictured runs, by plan and contender.
Used = Mapping[tuple[str, str], runs.Series]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A published statement. reproduced: None if a run that it needs is missing.

    better: the statement is of a weakness of the author's CARICO, which this mode does not have.
    """

    says: str
    mode: str
    reproduced: bool | None
    detail: str
    better: bool


class _Look:
    """Figures of the calibrated twin, with one of our modes as CARICO."""

    def __init__(self, found: tables.Table, mode: str, used: Used) -> None:
        self._found = found
        self._mode = mode
        self._used = used
        self.read: list[str] = []
        # False if a figure that was read is missing.
        self.whole = True

    def job_s(self, plan: str, contender: str) -> float:
        return self._note(plan, contender, "job time", lambda cell: cell.mean("job_s"))

    def pod_s(self, plan: str, contender: str, job: str, figure: str = "mean") -> float:
        return self._note(plan, contender, f"Pod time {figure}", lambda cell: cell.pod_s[job][figure].mean)

    def best_pi_job_s(self) -> float:
        return min(self.job_s("pi-1000", name) for name in ("kube-200m", "kube-500m"))

    def worst_over_best(self, plan: str) -> float:
        """Return how much longer kube-scheduler's job takes with its worst requests than with its best, as a ratio."""
        times = [self.job_s(plan, f"kube-{millicores}m") for millicores in (100, 200, 500, 1000)]
        return max(times) / min(times)

    def contended(self, contender: str) -> float:
        return self._note(ISOLATION, contender, "contended share", lambda cell: cell.mean("contended_share"), unit="")

    def used(self, plan: str, contender: str, resource: int, what: str) -> float:
        """Return a figure of the use of CPU (0) or memory (1) over time: `full_s`, `mean` or `sd`.

        full_s: until 95 % are in use. mean and sd: from then on, or from the start, while at least one Pod waits: until
        nine tenths of the run, since the last Pods leave nodes idle.
        """
        name = self._mode if contender == published.CARICO else contender
        series = self._used.get((plan, name))
        value = math.nan if series is None else _use(series, resource, what)
        of = ("CPU", "memory")[resource]
        label = f"time until {_FULL:.0%} of the {of} is in use" if what == "full_s" else f"{of} in use, {what}"
        return self._shown(plan, name, label, value, " s" if what == "full_s" else "")

    def _note(
        self, plan: str, contender: str, what: str, read: Callable[[tables.Cell], float], unit: str = " s"
    ) -> float:
        name = self._mode if contender == published.CARICO else contender
        cell = self._found.get(plan, {}).get(name)
        try:
            value = math.nan if cell is None else read(cell)
        except KeyError:
            value = math.nan
        return self._shown(plan, name, what, value, unit)

    def _shown(self, plan: str, name: str, what: str, value: float, unit: str) -> float:
        self.whole &= math.isfinite(value)
        shown = f"{value:.{1 if unit else 2}f}{unit}" if math.isfinite(value) else "unknown"
        self.read.append(f"{plan} {name} {what} {shown}")
        return value


# Shares of the time of a run and of a resource (see `_Look.used`).
_MAIN_PART = 0.9
_FULL = 0.95


def _use(series: runs.Series, resource: int, what: str) -> float:
    times, used = np.array(series.at_s), np.array(series.used)[:, resource]
    full = np.flatnonzero(used >= _FULL)
    if what == "full_s":
        return float(times[full[0]]) if len(full) else math.inf
    first = int(full[0]) if len(full) else 0
    chosen = used[first : round(_MAIN_PART * len(used))]
    return float(chosen.mean() if what == "mean" else chosen.std()) if len(chosen) else math.nan


_C = published.CARICO
ISOLATION = calibration.ISOLATION
# (statement, test); without one of its figures a statement is neither reproduced nor not.
_Test = Callable[[_Look], bool]
# What the author's CARICO did worse than kube-scheduler.
_WEAKNESSES: tuple[tuple[str, _Test], ...] = (
    (
        "pi-100: CARICO's ramp-up costs a small job time (20.3 s against 15.7 s)",
        lambda look: look.job_s("pi-100", _C) > 1.1 * look.job_s("pi-100", "kube-500m"),
    ),
    (
        "sklearn-100: CARICO's job takes longer than kube-scheduler's (189 s, 144 s)",
        lambda look: look.job_s("train-100", _C) > look.job_s("train-100", "kube-200m"),
    ),
    (
        "mixed 100+100: CARICO is slower (192 s, 149 s)",
        lambda look: look.job_s("mixed-100+100", _C) > look.job_s("mixed-100+100", "kube-100m"),
    ),
    (
        "pi-1000: CARICO takes more than twice as long as kube-scheduler until 95 % of the CPUs are used (figure 5.7)",
        lambda look: look.used("pi-1000", _C, 0, "full_s") > 2.0 * look.used("pi-1000", "kube-100m", 0, "full_s"),
    ),
    (
        "sklearn-200: CARICO uses less memory than kube-scheduler at 750Mi (figure 5.8)",
        lambda look: look.used("train-200", _C, 1, "mean") < look.used("train-200", "kube-200m", 1, "mean"),
    ),
)
_STATEMENTS: tuple[tuple[str, _Test], ...] = (
    (
        "pi-1000: CARICO needs at most 10 % more job time than kube-scheduler's best requests (109 s, 103 s)",
        lambda look: look.job_s("pi-1000", _C) <= 1.1 * look.best_pi_job_s(),
    ),
    (
        "pi-1000: requests of 100m make Pods some five times as long as 500m (47.4 s, 9.6 s)",
        lambda look: look.pod_s("pi-1000", "kube-100m", "pi") > 3.0 * look.pod_s("pi-1000", "kube-500m", "pi"),
    ),
    (
        "pi-1000: CARICO's Pods are faster than kube-scheduler's at 500m (7.7 s, 9.6 s)",
        lambda look: look.pod_s("pi-1000", _C, "pi") < look.pod_s("pi-1000", "kube-500m", "pi"),
    ),
    (
        "pi-1000: CARICO's Pod times scatter less than kube-scheduler's at 500m (0.99 s, 1.49 s)",
        lambda look: look.pod_s("pi-1000", _C, "pi", "std") < look.pod_s("pi-1000", "kube-500m", "pi", "std"),
    ),
    (
        "pi-1000: requests of 1000m waste the cluster (175 s against 104 s at 500m)",
        lambda look: look.job_s("pi-1000", "kube-1000m") > 1.4 * look.job_s("pi-1000", "kube-500m"),
    ),
    (
        "sklearn-100: CARICO's Pods take about half as long (59 s, 127 s)",
        lambda look: look.pod_s("train-100", _C, "sklearn") < 0.7 * look.pod_s("train-100", "kube-200m", "sklearn"),
    ),
    (
        "sklearn-200: CARICO's job takes no longer than kube-scheduler's (353 s, 362 s)",
        lambda look: look.job_s("train-200", _C) <= 1.02 * look.job_s("train-200", "kube-200m"),
    ),
    (
        "mixed 500+20: CARICO is faster (88.7 s, 105.7 s)",
        lambda look: look.job_s("mixed-500+20", _C) < look.job_s("mixed-500+20", "kube-100m"),
    ),
    (
        "mixed 500+20: CARICO's pi Pods take about a quarter of kube-scheduler's at 100m (7.4 s, 28.8 s)",
        lambda look: look.pod_s("mixed-500+20", _C, "pi") < 0.5 * look.pod_s("mixed-500+20", "kube-100m", "pi"),
    ),
    (
        "wrong requests make kube-scheduler's job up to some 80 % longer (figure 5.1)",
        lambda look: max(look.worst_over_best(f"pi-{pods}") for pods in published.PI_PODS) >= 1.6,
    ),
    (
        "pi-1000: kube-scheduler keeps nearly all CPUs in use, at 100m and at 500m (figure 5.7)",
        lambda look: all(look.used("pi-1000", name, 0, "mean") >= 0.97 for name in ("kube-100m", "kube-500m")),
    ),
    (
        "pi-1000: CARICO's use of the CPUs is consistently high, once it is (figure 5.7)",
        lambda look: look.used("pi-1000", _C, 0, "mean") >= 0.9,
    ),
    (
        "mixed 500+20: CARICO's use of the CPUs varies less than kube-scheduler's (figure 5.12)",
        lambda look: look.used("mixed-500+20", _C, 0, "sd") <= look.used("mixed-500+20", "kube-100m", 0, "sd"),
    ),
    (
        "isolation: a server's node has waiting tasks for less of the time under CARICO than at 100m (table 5.1)",
        lambda look: look.contended(_C) < look.contended("kube-100m"),
    ),
)  # fmt: skip


def judge(found: tables.Table, used: Used) -> list[Shape]:
    """Return every statement with each of our modes as CARICO; statements without CARICO once."""
    judged = []
    for says, test in itertools.chain(_STATEMENTS, _WEAKNESSES):
        for mode in calibration.OURS if "CARICO" in says else (published.CARICO,):
            look = _Look(found, mode, used)
            holds = test(look)
            judged.append(
                Shape(
                    says=says,
                    mode=mode,
                    reproduced=holds if look.whole else None,
                    detail=", ".join(dict.fromkeys(look.read)),
                    better=look.whole and not holds and mode != contenders.PAPER and (says, test) in _WEAKNESSES,
                )
            )
    return judged


# What the twin cannot show; stated in every report.
NOT_IN_THE_TWIN = (
    "A server's latency (table 5.1): the twin has only the time in which its node has more runnable tasks than cores; "
    "latencies are measured on real nodes.",
    "The agents' own cost (table 5.2: about 2 %): the twin's agents use no CPU. docs/measurements.md has what an agent "
    "uses: under 1 % of one core.",
    "Figures 2.4, 2.5, 4.3 to 4.6, 4.8 and 4.9 show single nodes and recorded events: `carico replay --figure` draws "
    "them from the author's logs; docs/evaluation.md has figures 4.6 and 4.7 as a closed loop.",
)
