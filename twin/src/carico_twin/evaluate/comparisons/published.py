"""The numbers that the dissertation published (chapter 5), each with its place in the text.

Cluster: 19 workers of 4 vCPUs and 8 GB. `pi` is the dissertation's `bpi(2000)`, `sklearn` its memory-heavy job. Names
of contenders are those of `contenders`; "carico" is CARICO in any mode. The dissertation shows most numbers in figures;
its draft ("Spazio") has the same ones in tables, with deviations and with rows that the dissertation leaves out.
"""

import dataclasses
import math
from collections.abc import Iterator

CARICO = "carico"
PI_PODS = (100, 250, 500, 750, 1000)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One published number of a job. figure: "job_s", or "pod_s." and a figure of `runs.distribution`.

    sd: the published +- of a job time over its runs; NaN where there is none.
    """

    plan: str
    contender: str
    job: str
    figure: str
    value: float
    sd: float = math.nan
    where: str


# Seconds and their deviation. Figure 5.1; the draft's table 5.2.
PI_JOB_S: dict[str, tuple[tuple[float, float], ...]] = {
    "kube-100m": ((15.7, 0.6), (31.7, 2.1), (56.0, 1.7), (84.7, 0.6), (112.0, 0.0)),
    "kube-200m": ((15.7, 0.7), (30.7, 0.6), (55.0, 1.0), (79.0, 0.0), (103.0, 1.0)),
    "kube-500m": ((15.7, 1.2), (32.0, 2.6), (57.7, 0.6), (81.0, 2.0), (104.0, 2.1)),
    "kube-1000m": ((21.0, 2.0), (54.7, 0.6), (96.0, 2.6), (133.0, 0.6), (175.0, 1.0)),
    CARICO: ((20.3, 0.6), (35.3, 0.6), (60.3, 2.5), (89.0, 2.0), (109.0, 1.0)),
}
# Figure 5.2; the draft's table 5.4. kube-scheduler with 200m and 750Mi.
SKLEARN_PODS = (100, 200)
SKLEARN_JOB_S: dict[str, tuple[tuple[float, float], ...]] = {
    "kube-200m": ((144.3, 0.6), (362.0, 20.4)),
    CARICO: ((189.0, 4.36), (353.3, 12.7)),
}
# Figure 5.9; the draft's table 5.6: the time of both jobs together.
MIXED = ((500, 20), (250, 50), (100, 100))
MIXED_JOB_S: dict[str, tuple[tuple[float, float], ...]] = {
    "kube-100m": ((105.7, 10.6), (118.0, 4.58), (149.0, 0.0)),
    CARICO: ((88.7, 2.5), (115.7, 0.58), (192.0, 4.0)),
}

_FULL = ("mean", "std", "min", "p25", "p50", "p75", "max")
# (plan, contender, job) -> Pod times, in the order of _FULL.
POD_S: dict[tuple[str, str, str], tuple[float, ...]] = {
    ("pi-1000", "kube-100m", "pi"): (47.43, 14.59, 7.0, 39.0, 52.0, 57.0, 73.0),
    ("pi-1000", "kube-500m", "pi"): (9.55, 1.49, 5.0, 9.0, 10.0, 10.0, 14.0),
    ("pi-1000", CARICO, "pi"): (7.69, 0.99, 5.0, 7.0, 8.0, 8.0, 11.0),
    ("train-100", "kube-200m", "sklearn"): (127.38, 5.29, 118.0, 123.0, 126.0, 132.0, 138.0),
    ("train-100", CARICO, "sklearn"): (59.02, 14.62, 27.0, 55.0, 61.0, 66.0, 94.0),
    ("train-200", "kube-200m", "sklearn"): (225.19, 36.19, 45.0, 231.0, 236.0, 239.0, 244.0),
    ("train-200", CARICO, "sklearn"): (64.46, 14.33, 23.0, 57.75, 67.0, 73.25, 89.0),
    ("mixed-500+20", "kube-100m", "pi"): (28.78, 7.52, 7.0, 27.0, 30.0, 33.0, 45.0),
    ("mixed-500+20", CARICO, "pi"): (7.40, 1.14, 5.0, 7.0, 7.0, 8.0, 11.0),
    ("mixed-500+20", "kube-100m", "sklearn"): (65.25, 10.53, 49.0, 58.25, 64.0, 75.25, 82.0),
    ("mixed-500+20", CARICO, "sklearn"): (34.50, 7.39, 22.0, 27.5, 36.0, 40.25, 44.0),
}  # fmt: skip
# In the draft: tables 5.3, 5.5 (also of 100 Pods) and 5.7.
POD_WHERE = {
    "pi-1000": "figure 5.3", "train-100": "figure 5.5", "train-200": "draft, table 5.5", "mixed-500+20": "figure 5.10",
}  # fmt: skip

# Table 5.1: latency of a server while 1000 pi Pods are placed, in ms: min, p50, p90, p95, p99, max. Measured on real
# nodes only.
SERVER_LATENCY_MS = {
    "idle": (0.99, 3.04, 3.78, 4.00, 4.47, 8.32),
    "kube-100m": (1.07, 10.06, 18.61, 22.28, 28.82, 54.49),
    CARICO: (1.00, 2.48, 6.09, 7.82, 10.53, 17.39),
}
# Table 5.2 (the draft's 5.1): job time added by running the agents, in %, mean and deviation. The twin's agents use no
# CPU.
AGENT_OVERHEAD = dict(
    zip(PI_PODS, ((-2.33, 3.29), (-1.19, 2.44), (4.84, 1.25), (1.69, 0.42), (2.27, 0.66)), strict=True)
)


def values() -> Iterator[Value]:
    """Return every published number that the twin can be compared with."""
    for contender, row in PI_JOB_S.items():
        for pods, timed in zip(PI_PODS, row, strict=True):
            yield _job(f"pi-{pods}", contender, "pi", timed, "figure 5.1")
    for contender, row in SKLEARN_JOB_S.items():
        for pods, timed in zip(SKLEARN_PODS, row, strict=True):
            yield _job(f"train-{pods}", contender, "sklearn", timed, "figure 5.2")
    for contender, row in MIXED_JOB_S.items():
        for (pis, trains), timed in zip(MIXED, row, strict=True):
            yield _job(f"mixed-{pis}+{trains}", contender, "all", timed, "figure 5.9")
    for (plan, contender, job), found in POD_S.items():
        for name, value in zip(_FULL, found, strict=True):
            yield Value(
                plan=plan, contender=contender, job=job, figure=f"pod_s.{name}", value=value, where=POD_WHERE[plan]
            )


def _job(plan: str, contender: str, job: str, timed: tuple[float, float], where: str) -> Value:
    value, sd = timed
    return Value(plan=plan, contender=contender, job=job, figure="job_s", value=value, sd=sd, where=where)
