"""What a run found, and the report of all runs next to the published figures."""

import dataclasses
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from carico_local.applications import catalog, manifests, users
from carico_local.compare.applications import contender as contenders
from carico_local.compare.applications import published

VERSION = 2


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


# What our rescheduler is to reach: by load, the least improvement of the service time, and of the traffic.
TRAFFIC = "traffic"
TARGETS = {
    "low": {"boutique": 0.15, "vrp": 0.05, "hub": 0.20, TRAFFIC: 0.75},
    "high": {"boutique": 0.17, "vrp": 0.25, "hub": 0.20},
}
_NAMES = tuple(catalog.APPLICATIONS)


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
        "targets": [target for load in dict.fromkeys(each.load for each in found) for target in _targets(found, load)],
        "tables": {"9": _requests(setting), "11": node_requests(), "12": _descheduler(found)},
        "published": {
            "8": published.TABLE_8,
            "9": [
                {"application": application, "service": service, **dataclasses.asdict(each)}
                for (application, service), each in published.TABLE_9.items()
            ],
            "10": {
                "service_times_ms": published.SERVICE_TIMES_MS, "nodes": published.TABLE_10_NODES,
                "traffic": published.TRAFFIC,
            },
            "11": published.TABLE_11,
            "12": {"nodes": published.TABLE_12_NODES, "improvement": published.DESCHEDULER},
        },
    }  # fmt: skip


def _requests(setting: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return table 9 of our applications: what the Pods request where their scheduler goes by that."""
    rows = []
    for (application, service), row in published.TABLE_9.items():
        of = next(each for each in catalog.APPLICATIONS[application].services if published.resources(each.name) is row)
        asked = manifests.requests(of, setting["cores"], setting["node_memory_bytes"])
        rows.append({"application": application, "service": service, **asked})
    return rows


def node_requests() -> dict[str, list[float]]:
    """Return table 11 of our applications: per cent of each node that is requested where they begin."""
    found = {"CPU": [0.0] * catalog.NODES, "memory": [0.0] * catalog.NODES}
    for each in catalog.SERVICES.values():
        found["CPU"][each.node - 1] += 100.0 * each.cores / catalog.NODE_CORES
        found["memory"][each.node - 1] += 100.0 * each.memory_gb / catalog.NODE_GB
    return found


def _descheduler(found: Sequence[Run]) -> dict[str, Any]:
    """Return table 12 of our runs: the worst and the best of the descheduler under high load, by application."""
    runs = [each for each in found if each.contender == contenders.DESCHEDULER and each.load == "high"]
    by_name = {name: [each for run in runs if (each := _improvement(run, name)) is not None] for name in _NAMES}
    return {
        "runs": len(runs),
        "improvement": {name: [min(each), max(each)] for name, each in by_name.items() if each},
    }


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


def _improvement(run: Run, name: str) -> float | None:
    """Return by which share the mean service time of an application fell, or the traffic between nodes."""
    if name == TRAFFIC:
        return improvement(run.before.bytes_per_s, run.after.bytes_per_s)
    return improvement(run.before.times[name].mean_ms, run.after.times[name].mean_ms)


def _targets(found: Sequence[Run], load: str) -> list[dict[str, Any]]:
    """Return what our runs under a load reached: medians against the bounds, the worst against those without moves."""
    ours = [each for each in found if each.load == load and each.contender == contenders.CARICO]
    if not ours:
        return []
    rows = [
        _judged(load, name, _all_known(ours, name, statistics.median), bound)
        for name, bound in TARGETS.get(load, {}).items()
    ]
    failed = sum(each.failed for each in ours)
    verdict = "met" if failed == 0 else "missed"
    rows.append({"load": load, "what": "failed requests", "value": failed, "bound": 0, "verdict": verdict})
    still = [each for each in found if each.load == load and each.contender == contenders.NOTHING]
    for name in _NAMES if still else ():
        bound = _all_known(still, name, min)
        if bound is not None:
            rows.append(_judged(load, name, _all_known(ours, name, min), bound) | {"without": len(still)})
    return [{"runs": len(ours), "without": None, **each} for each in rows]


def _all_known(runs: Sequence[Run], name: str, of: Callable[[list[float]], float]) -> float | None:
    """Return a figure of the improvements of all runs; None unless each is known."""
    values = [each for run in runs if (each := _improvement(run, name)) is not None]
    return of(values) if len(values) == len(runs) else None


def _judged(load: str, what: str, value: float | None, bound: float) -> dict[str, Any]:
    verdict = "unknown" if value is None else "met" if value >= bound else "missed"
    return {"load": load, "what": what, "value": value, "bound": bound, "verdict": verdict}
