"""The result of all trials: medians for each contender, and whether CARICO meets the targets."""

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from carico_local.compare import contender as contenders
from carico_local.compare import servers
from carico_local.compare import trial as trials

VERSION = 1
# Targets on Pods that really run: mean Pod time at most a quarter of kube-scheduler's with requests of 100m ...
OF_KUBE_100M = 0.25
# ... and below its own with 500m, while the job takes at most this factor of its best setting's time.
OF_BEST_JOB = 1.05
# Servers' p99 next to a job, at the ceiling for isolation, relative to that on an idle node.
OF_IDLE_P99 = 1.5


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A target and the measured value. `bound`: the value must be at most this. None: not measured."""

    what: str
    value: float | None
    bound: float | None

    @property
    def verdict(self) -> str:
        """met, missed or unknown."""
        if self.value is None or self.bound is None:
            return "unknown"
        return "met" if self.value <= self.bound else "missed"


def report(
    found: Sequence[trials.Trial], wanted: Sequence[contenders.Contender], *, setting: Mapping[str, Any],
    idle_ms: Sequence[servers.Latency] = (),
) -> dict[str, Any]:  # fmt: skip
    """Return the comparison as JSON types; `setting`: the cluster and machine, `idle_ms`: servers on idle nodes."""
    rows = {each.name: _row([one for one in found if one.contender == each.name]) for each in wanted}
    kube = {each.name: rows[each.name] for each in wanted if each.is_kube}
    ours = rows.get(contenders.CARICO)
    idle = _spread([each["p99"] for each in idle_ms])
    stated = [] if ours is None else [*_targets(ours, kube), *_isolation(ours, idle["median"])]
    targets = [{**dataclasses.asdict(one), "verdict": one.verdict} for one in stated]
    return {
        "version": VERSION,
        "setting": dict(setting),
        "idle_server_p99_ms": idle,
        "idle_server_ms": _latency(idle_ms),
        "contenders": rows,
        "agent_overhead": _overhead(_whole(found)),
        "targets": targets,
        "trials": [dataclasses.asdict(one) for one in found],
    }


def _row(found: Sequence[trials.Trial]) -> dict[str, Any]:
    """Return medians over the repeats, with minimum and maximum."""
    whole = _whole(found)
    servers_ms = [one.server_ms for one in whole if one.server_ms is not None]
    return {
        "runs": len(found),
        "job_s": _spread([one.job_s for one in whole]),
        "pod_mean_s": _spread([mean for one in whole if (mean := one.pod_s["mean"]) is not None]),
        "pod_p95_s": _spread([p95 for one in whole if (p95 := one.pod_s["p95"]) is not None]),
        "max_running_per_node": max(one.max_running_per_node for one in found),
        "server_p99_ms": _spread([each["p99"] for each in servers_ms]),
        "server_ms": _latency(servers_ms),
        "failed": sum(one.failed for one in found),
        "bound_twice": sum(one.bound_twice for one in found),
    }


def _whole(found: Sequence[trials.Trial]) -> list[trials.Trial]:
    """Return the trials that have times: with work left undone, a job would end sooner."""
    return [one for one in found if not one.failed]


def _spread(values: Sequence[float]) -> dict[str, float | None]:
    if not values:
        return {"median": None, "least": None, "most": None}
    return {"median": round(statistics.median(values), 3), "least": min(values), "most": max(values)}


def _latency(found: Sequence[servers.Latency]) -> dict[str, float] | None:
    """Return the medians over the repeats of a server's latency (table 5.1); None without servers."""
    if not found:
        return None
    return {name: round(statistics.median(each[name] for each in found), 3) for name in servers.QUANTILES}


def _overhead(found: Sequence[trials.Trial]) -> dict[str, dict[str, float | int | None]]:
    """Return by how much running agents lengthen kube-scheduler's jobs, as a share (table 5.2): mean, sd, runs.

    Each round's job with agents is compared with the same round's without.
    """
    with_agents = {(one.contender, one.repeat): one.job_s for one in found}
    added: dict[str, list[float]] = {}
    for (name, repeat), job_s in with_agents.items():
        bare_s = with_agents.get((f"{name}-bare", repeat))
        if bare_s:
            # (with - without) / without
            added.setdefault(name, []).append((job_s - bare_s) / bare_s)
    return {
        name: {
            "mean": round(statistics.mean(values), 4),
            "sd": round(statistics.stdev(values), 4) if len(values) > 1 else None,
            "runs": len(values),
        }
        for name, values in added.items()
    }


def _isolation(ours: Mapping[str, Any], idle_p99_ms: float | None) -> list[Target]:
    if idle_p99_ms is None:
        return []
    what = f"servers' p99 in ms against {OF_IDLE_P99:g} x that of idle nodes"
    return [Target(what=what, value=ours["server_p99_ms"]["median"], bound=_times(idle_p99_ms, OF_IDLE_P99))]


def _targets(ours: Mapping[str, Any], kube: Mapping[str, Mapping[str, Any]]) -> list[Target]:
    def pod_s(name: str) -> float | None:
        return kube[name]["pod_mean_s"]["median"] if name in kube else None

    fine, half = pod_s("kube-100m"), pod_s("kube-500m")
    best_s = min((job_s for row in kube.values() if (job_s := row["job_s"]["median"]) is not None), default=None)
    own_s = ours["pod_mean_s"]["median"]
    return [
        Target(what="mean Pod time against a quarter of kube-100m's", value=own_s, bound=_times(fine, OF_KUBE_100M)),
        Target(what="mean Pod time against kube-500m's", value=own_s, bound=half),
        Target(
            what=f"job time against {OF_BEST_JOB:g} x the best kube setting's",
            value=ours["job_s"]["median"],
            bound=_times(best_s, OF_BEST_JOB),
        ),
    ]


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else round(value * factor, 3)
