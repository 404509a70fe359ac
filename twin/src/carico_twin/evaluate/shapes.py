"""Statements that the published tables support, and whether the calibrated twin reproduces them."""

import dataclasses
import math
from collections.abc import Callable

from carico_twin.evaluate import calibration, published, tables


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A published statement. reproduced: None if a run that it needs is missing."""

    says: str
    mode: str
    reproduced: bool | None
    detail: str


class _Look:
    """Figures of the calibrated twin, with one of our modes as CARICO."""

    def __init__(self, found: tables.Table, mode: str) -> None:
        self._found = found
        self._mode = mode
        self.read: list[str] = []
        # False if a figure that was read is missing.
        self.whole = True

    def job_s(self, plan: str, contender: str) -> float:
        return self._note(plan, contender, "job time", lambda cell: cell.mean("job_s"))

    def pod_s(self, plan: str, contender: str, job: str, figure: str = "mean") -> float:
        return self._note(plan, contender, f"Pod time {figure}", lambda cell: cell.pod_s[job][figure].mean)

    def best_pi_job_s(self) -> float:
        return min(self.job_s("pi-1000", name) for name in ("kube-200m", "kube-500m"))

    def _note(self, plan: str, contender: str, what: str, read: Callable[[tables.Cell], float]) -> float:
        name = self._mode if contender == published.CARICO else contender
        cell = self._found.get(plan, {}).get(name)
        try:
            value = math.nan if cell is None else read(cell)
        except KeyError:
            value = math.nan
        self.whole &= math.isfinite(value)
        shown = f"{value:.1f} s" if math.isfinite(value) else "unknown"
        self.read.append(f"{plan} {name} {what} {shown}")
        return value


_C = published.CARICO
# (statement, test); without one of its figures a statement is neither reproduced nor not.
_Test = Callable[[_Look], bool]
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
        "pi-100: CARICO's ramp-up costs a small job time (20.3 s against 15.7 s)",
        lambda look: look.job_s("pi-100", _C) > 1.1 * look.job_s("pi-100", "kube-500m"),
    ),
    (
        "sklearn-100: CARICO's job takes longer than kube-scheduler's (189 s, 144 s)",
        lambda look: look.job_s("train-100", _C) > look.job_s("train-100", "kube-200m"),
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
        "mixed 100+100: CARICO is slower (192 s, 149 s)",
        lambda look: look.job_s("mixed-100+100", _C) > look.job_s("mixed-100+100", "kube-100m"),
    ),
    (
        "mixed 500+20: CARICO's pi Pods take about a quarter of kube-scheduler's at 100m (7.4 s, 28.8 s)",
        lambda look: look.pod_s("mixed-500+20", _C, "pi") < 0.5 * look.pod_s("mixed-500+20", "kube-100m", "pi"),
    ),
)  # fmt: skip


def judge(found: tables.Table) -> list[Shape]:
    """Return every statement with each of our modes as CARICO; statements without CARICO once."""
    judged = []
    for says, test in _STATEMENTS:
        for mode in calibration.OURS if "CARICO" in says else (published.CARICO,):
            look = _Look(found, mode)
            holds = test(look)
            judged.append(
                Shape(
                    says=says,
                    mode=mode,
                    reproduced=holds if look.whole else None,
                    detail=", ".join(dict.fromkeys(look.read)),
                )
            )
    return judged


# What the twin cannot show; stated in every report.
NOT_IN_THE_TWIN = (
    "A server's latency (5.2): the twin has only the time in which its node has more runnable tasks than cores; "
    "latencies are measured on real nodes.",
    "The agents' own cost (5.3): the twin's agents use no CPU.",
    "Figures 2.4, 2.5, 4.3 to 4.5, 4.8 and 4.9 show single nodes and recorded events: `carico replay` draws them from "
    "recordings; figures 4.6 and 4.7 are asserted in the tests of the estimators.",
)
