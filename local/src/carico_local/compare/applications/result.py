"""What a run found, and the report of all runs next to the published figures."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from carico_local.applications import catalog, users
from carico_local.compare.applications import contender as contenders

VERSION = 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A span of a run: service times by application, traffic between nodes, and the node of each service."""

    times: Mapping[str, users.Summary]
    bytes_per_s: float
    nodes: Mapping[str, str]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One contender under one load. `failed` of all `requests` of the run, with the reasons of some.

    `rests`: why our rescheduler moved no more; empty for others.
    """

    contender: str
    load: str
    before: Span
    after: Span
    moves: int
    rests: str
    requests: int
    failed: int
    failures: Sequence[str]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A run that has no result, and why."""

    contender: str
    load: str
    why: str


# Table 10 (ms before and after), and figure 13's traffic between nodes, in percent less.
PUBLISHED = {
    "low": {"boutique": (447.0, 378.0), "vrp": (1847.0, 1740.0), "hub": (7.56, 5.97)},
    "high": {"boutique": (910.0, 755.0), "vrp": (3257.0, 2372.0), "hub": (5.35, 4.2)},
}
PUBLISHED_TRAFFIC = {"low": 0.875, "high": 0.5651}
# Table 12: the worst and the best of the descheduler under high load, as shares.
PUBLISHED_DESCHEDULER = {"boutique": (-0.93, 0.012), "vrp": (-0.265, 0.244), "hub": (-0.044, 0.071)}
# What our rescheduler is to reach: by load, the least improvement of the service time, and of the traffic.
TARGETS = {
    "low": {"boutique": 0.15, "vrp": 0.05, "hub": 0.20, "traffic": 0.75},
    "high": {"boutique": 0.17, "vrp": 0.25, "hub": 0.20},
}


def improvement(before: float | None, after: float | None) -> float | None:
    """Return by which share a value fell; None where one is not known.

    >>> improvement(200.0, 150.0)
    0.25
    """
    if before is None or after is None or before <= 0.0:
        return None
    return 1.0 - after / before


def report(found: Sequence[Run], missing: Sequence[Missing], setting: Mapping[str, Any]) -> dict[str, Any]:
    """Return all runs, those without a result, and whether ours met the targets, as JSON types."""
    return {
        "version": VERSION,
        "setting": dict(setting),
        "runs": [_row(each) for each in found],
        "missing": [dataclasses.asdict(each) for each in missing],
        "targets": [target for each in found if each.contender == contenders.CARICO for target in _targets(each)],
        "published": {
            "service_times_ms": PUBLISHED, "traffic": PUBLISHED_TRAFFIC, "descheduler": PUBLISHED_DESCHEDULER
        },
    }  # fmt: skip


def _row(run: Run) -> dict[str, Any]:
    return {
        "contender": run.contender,
        "load": run.load,
        "moves": run.moves,
        "rests": run.rests,
        "requests": run.requests,
        "failed": run.failed,
        "failures": list(run.failures),
        "applications": {
            name: {
                "before": dataclasses.asdict(run.before.times[name]),
                "after": dataclasses.asdict(run.after.times[name]),
                "improvement": improvement(run.before.times[name].mean_ms, run.after.times[name].mean_ms),
            }
            for name in catalog.APPLICATIONS
        },
        "traffic_bytes": {
            "before": run.before.bytes_per_s, "after": run.after.bytes_per_s,
            "improvement": improvement(run.before.bytes_per_s, run.after.bytes_per_s),
        },
        "nodes": {"before": dict(run.before.nodes), "after": dict(run.after.nodes)},
    }  # fmt: skip


def _targets(run: Run) -> list[dict[str, Any]]:
    row = _row(run)
    found = []
    for name, bound in TARGETS.get(run.load, {}).items():
        value = row["traffic_bytes"]["improvement"] if name == "traffic" else row["applications"][name]["improvement"]
        verdict = "unknown" if value is None else "met" if value >= bound else "missed"
        found.append({"load": run.load, "what": name, "value": value, "bound": bound, "verdict": verdict})
    verdict = "met" if run.failed == 0 else "missed"
    return [*found, {"load": run.load, "what": "failed requests", "value": run.failed, "bound": 0, "verdict": verdict}]
