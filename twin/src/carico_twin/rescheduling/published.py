"""The numbers of the rescheduling paper (Bracke et al.), each with its table.

Costs are shares of the present placement's, in per cent; times are seconds on its server (2 quad-core E5520).
"""

from dataclasses import dataclass

SOURCE = (
    "Bracke et al., A multiobjective metaheuristic-based container consolidation model for cloud application "
    "performance improvement"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Costs of several runs, with standard deviations (None: not given), and the time of one."""

    cntc: float
    cntc_std: float | None
    coc: float
    coc_std: float | None
    seconds: float


def _row(cntc: float, cntc_std: float | None, coc: float, coc_std: float | None, seconds: float) -> Row:
    return Row(cntc=cntc, cntc_std=cntc_std, coc=coc, coc_std=coc_std, seconds=seconds)


# CPU seconds of the three services of the vehicle routing application, on 1 and on 3 real servers.
TABLE_2 = {"Frontend": (885, 530), "Optimizer": (2536, 2373), "Plotter": (1137, 731), "Total": (4558, 3634)}

# By overloaded servers: the exact weighted sum by CPLEX, and WS_SA, 25 runs on size S.
TABLE_4 = {
    "none": {"cplex": _row(67.75, None, 0.0, None, 41.42), "ws-sa": _row(69.31, 1.56, 0.0, 0.0, 0.15)},
    "half": {"cplex": _row(64.18, None, 7.11, None, 4905.0), "ws-sa": _row(63.92, 3.07, 15.22, 7.17, 0.13)},
    "all": {"cplex": _row(87.01, None, 59.12, None, 30.72), "ws-sa": _row(87.59, 3.47, 61.36, 2.83, 0.13)},
}

# Seconds of WS_SA's parts, by size.
TABLE_6 = {
    "S": {"cntc_min": 0.026, "cntc_max": 0.025, "coc_min": 0.020, "coc_max": 0.021, "ws": 0.033},
    "M": {"cntc_min": 0.242, "cntc_max": 0.259, "coc_min": 0.162, "coc_max": 0.159, "ws": 0.277},
    "L": {"cntc_min": 88.46, "cntc_max": 89.94, "coc_min": 45.16, "coc_max": 39.40, "ws": 109.3},
    "XL": {"cntc_min": 6056.0, "cntc_max": 5040.0, "coc_min": 3724.0, "coc_max": 3104.0, "ws": 8688.0},
}

# By size and variant; half of the servers overloaded, 25 runs.
TABLE_7 = {
    "S": {
        "ws-sa": _row(79.5, 4.9, 44.7, 10.5, 0.12), "ws-sa-bn": _row(95.0, 6.1, 28.1, 6.6, 0.04),
        "ws-sa-pn": _row(79.9, 5.4, 45.5, 10.9, 0.04), "ws-sa-pn-tb": _row(75.4, 3.2, 39.7, 5.5, 1.0),
    },
    "M": {
        "ws-sa": _row(65.0, 3.2, 13.7, 4.9, 1.1), "ws-sa-bn": _row(80.5, 6.5, 10.5, 3.7, 0.31),
        "ws-sa-pn": _row(64.0, 2.6, 13.4, 3.9, 0.32), "ws-sa-pn-tb": _row(59.3, 1.8, 10.9, 2.8, 10.0),
    },
    "L": {
        "ws-sa": _row(52.5, 1.2, 21.4, 0.4, 372.0), "ws-sa-bn": _row(59.7, 2.1, 20.1, 0.1, 114.0),
        "ws-sa-pn": _row(55.9, 1.7, 20.3, 0.2, 117.0), "ws-sa-pn-tb": _row(55.9, 1.7, 20.3, 0.2, 60.0),
    },
    "XL": {
        "ws-sa": _row(60.2, 0.9, 19.2, 0.2, 26612.0), "ws-sa-bn": _row(74.4, 1.3, 18.0, 0.1, 9237.0),
        "ws-sa-pn": _row(63.9, 1.0, 18.5, 0.2, 8952.0), "ws-sa-pn-tb": _row(70.6, 1.0, 19.0, 0.1, 644.0),
    },
}  # fmt: skip

RUNS = 25
FRONT_POINTS = 100
