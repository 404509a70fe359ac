"""The figures of a job from its facts. Pure.

Job time: from the job's creation until its last Pod is terminal. Pod time: from the start of the process to its exit on
the node. Least: the larger of total work / the cores that the nodes can use, and the longest Pod's time alone: no
scheduler can take less for the whole job.
Reference (`bound_s`): total work / total capacity + one Pod's time alone (for a mixed job, the mean): the time of a
scheduler that keeps every core busy until the last Pods begin. It is no lower bound: Pods that share the cores to the
end can take less, as a job of few long Pods does (.94 of it with 29 Pods of 25 s on 12 cores).
Overload: node-seconds in which a node ran more Pods than floor((ceiling S - baseline) / true cost) allows. The true
cost is known from the workload: one runnable task for `pi` and `train` (S = 2 x cores tasks), and for `train` also
0.75 GB x scale of the node's memory. The baseline is the lowest usage that the node advertised.
"""

import collections
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from carico_local.jobs import facts
from carico_local.jobs import job as jobs

VERSION = 1
POD_RATIO_TARGET = 1.35
JOB_RATIO_TARGET = 1.12
# The targets are for the default demo, whose job takes at least a minute (`job.sized`).
SHORT_JOB_S = 45.0
# Advertisements kept per node in the report; a job of some minutes fits.
SERIES_MOST = 2000


def report(found: facts.Facts) -> dict[str, Any]:
    """Return the report as JSON types."""
    setting = found.setting
    finished = [(pod, pod.time_s) for pod in found.pods if pod.time_s is not None]
    times_s = [time_s for _, time_s in finished]
    spans = running_spans(found.pods)
    terminal = [pod.terminal_s for pod in found.pods if pod.terminal_s is not None]
    job_s = (max(terminal) if terminal else found.ended_s) - found.submitted_s
    bound_s = setting.total_work_s / (len(setting.nodes) * setting.cores) + setting.mean_work_s
    return {
        "version": VERSION,
        "pods": len(found.pods),
        "succeeded": sum(pod.phase == "Succeeded" for pod in found.pods),
        "failed": sum(pod.phase == "Failed" for pod in found.pods),
        "bound_twice": bound_twice(found),
        "never_bound": sum(not pod.nodes for pod in found.pods),
        "max_running_per_node": max((most_at_once(each) for each in spans.values()), default=0),
        "job_s": round(job_s, 3),
        "pod_s": distribution(times_s),
        "pod_times_s": [round(value, 3) for value in times_s],
        "capacity_overrun": sum(p.free is not None and p.free < p.threshold for p in found.placed),
        "overload_node_s": round(overload_node_s(found, spans), 3),
        "nodes": len(setting.nodes),
        "scale": setting.scale,
        "targets": _targets(setting, found.pods, finished, job_s, bound_s),
        "placements": {
            "by_mode": dict(sorted(collections.Counter(p.mode for p in found.placed).items())),
            "waits_by_reason": dict(sorted(found.waits.items())),
            "waited_s": distribution([p.waited_s for p in found.placed]),
        },
        "per_node": {node: _per_node(found, node, spans.get(node, [])) for node in setting.nodes},
        "setting": _setting(setting),
        "crashes": list(found.crashes),
    }


def distribution(values: Sequence[float]) -> dict[str, float | None]:
    """Return mean, std, min, p50, p95 and max, rounded to ms; None where there are no values."""
    if not values:
        return dict.fromkeys(("mean", "std", "min", "p50", "p95", "max"))
    array = np.asarray(values)
    named = {
        "mean": array.mean(), "std": array.std(), "min": array.min(), "p50": np.percentile(array, 50),
        "p95": np.percentile(array, 95), "max": array.max(),
    }  # fmt: skip
    return {name: round(float(value), 3) for name, value in named.items()}


def running_spans(pods: Sequence[facts.PodFacts]) -> dict[str, list[tuple[float, float, str]]]:
    """Return node -> (start, exit, workload) of each Pod's process, ordered by start."""
    spans: dict[str, list[tuple[float, float, str]]] = {}
    for pod in pods:
        if pod.node is not None and pod.started_s is not None and pod.finished_s is not None:
            spans.setdefault(pod.node, []).append((pod.started_s, pod.finished_s, pod.workload))
    return {node: sorted(each) for node, each in sorted(spans.items())}


def steps(spans: Sequence[tuple[float, float, str]]) -> list[tuple[float, int]]:
    """Return (time, number of Pods running from then on)."""
    changes = sorted([(start, 1) for start, _, _ in spans] + [(end, -1) for _, end, _ in spans])
    counts = itertools.accumulate(change for _, change in changes)
    return [(at, count) for (at, _), count in zip(changes, counts, strict=True)]


def most_at_once(spans: Sequence[tuple[float, float, str]]) -> int:
    """Return the largest number of Pods that ran at the same time."""
    return max((count for _, count in steps(spans)), default=0)


def bound_twice(found: facts.Facts) -> int:
    """Return how many Pods the API showed on two nodes or two decisions bound."""
    by_uid = collections.Counter(placed.uid for placed in found.placed)
    return sum(len(set(pod.nodes)) > 1 or by_uid[pod.uid] > 1 for pod in found.pods)


def overload_node_s(found: facts.Facts, spans: Mapping[str, Sequence[tuple[float, float, str]]]) -> float:
    """Return node-seconds above what ceiling and true cost allow; see the formula in this module's docstring."""
    total_s = 0.0
    for node, each in spans.items():
        baseline = _baseline(found, node)
        tasks_most = math.floor((found.setting.ceiling["cpu"] - baseline["cpu"]) * 2 * found.setting.cores + 1e-9)
        bytes_free = (found.setting.ceiling["memory"] - baseline["memory"]) * found.setting.memory_bytes
        trains_most = math.floor(bytes_free / (jobs.TRAIN_BYTES * found.setting.scale))
        all_over = _seconds_above(each, max(1, tasks_most))
        trains_over = _seconds_above([span for span in each if span[2] == "train"], max(1, trains_most))
        total_s += max(all_over, trains_over)
    return total_s


def _seconds_above(spans: Sequence[tuple[float, float, str]], most: int) -> float:
    return sum(following - at for (at, count), (following, _) in itertools.pairwise(steps(spans)) if count > most)


def _baseline(found: facts.Facts, node: str) -> dict[str, float]:
    seen = [capacity.usage for capacity in found.capacities if capacity.node == node]
    return {dim: min((usage[dim] for usage in seen if dim in usage), default=0.0) for dim in ("cpu", "memory")}


def _targets(
    setting: facts.Setting, pods: Sequence[facts.PodFacts], finished: Sequence[tuple[facts.PodFacts, float]],
    job_s: float, bound_s: float,
) -> dict[str, Any]:  # fmt: skip
    longest_s = max((setting_work(setting, pod) for pod in pods), default=setting.mean_work_s)
    ratios = [time_s / setting_work(setting, pod) for pod, time_s in finished]
    pod_ratio = float(np.mean(ratios)) if ratios else math.nan
    # A job that lost a Pod meets no target, however short it was.
    whole = bool(finished) and len(finished) == setting.pods
    job_ratio = job_s / bound_s if whole else math.nan
    pod_ratio = pod_ratio if whole else math.nan
    return {
        "pod_alone_s": setting.mean_work_s if setting.workload != "mixed" else None,
        "bound_s": round(bound_s, 3),
        "least_s": round(max(setting.total_work_s / setting.most_cores, longest_s), 3),
        "pod_ratio": _ratio(pod_ratio, POD_RATIO_TARGET),
        "job_ratio": _ratio(job_ratio, JOB_RATIO_TARGET),
    }


def short_job(report: Mapping[str, Any]) -> str | None:
    """Return why a short job misses a target; None where none is missed or the job is long enough."""
    targets = report["targets"]
    missed = any(targets[name]["verdict"] == "missed" for name in ("pod_ratio", "job_ratio"))
    if not missed or targets["bound_s"] >= SHORT_JOB_S:
        return None
    return f"the targets are for jobs of at least a minute; this one's reference is {targets['bound_s']:.0f} s"


def setting_work(setting: facts.Setting, pod: facts.PodFacts) -> float:
    """Return the Pod's time alone on an idle node, in seconds."""
    if setting.workload == "mixed":
        return jobs.DEFAULT_SECONDS[jobs.Workload(pod.workload)]
    return setting.mean_work_s


def _ratio(value: float, target: float) -> dict[str, Any]:
    known = math.isfinite(value)
    return {
        "value": round(value, 4) if known else None,
        "target": target,
        "verdict": ("met" if value <= target else "missed") if known else "unknown",
    }


def _per_node(found: facts.Facts, node: str, spans: Sequence[tuple[float, float, str]]) -> dict[str, Any]:
    zero = found.submitted_s
    capacities = [capacity for capacity in found.capacities if capacity.node == node][-SERIES_MOST:]
    return {
        "pods": len(spans),
        "running": [[round(at - zero, 3), count] for at, count in steps(spans)],
        "capacity": [
            [round(c.at_s - zero, 3), round(c.capacity, 3), round(c.capacity_sd, 3), c.pods, c.mode] for c in capacities
        ],
        "usage": [
            [round(c.at_s - zero, 3), {name: round(value, 4) for name, value in {**c.usage, **c.parts}.items()}]
            for c in capacities
        ],
        "cost": [
            [round(c.at_s - zero, 3), {dim: [mean, sd] for dim, (mean, sd) in c.cost.items()}] for c in capacities
        ],
    }


def _setting(setting: facts.Setting) -> dict[str, Any]:
    return {
        "workload": setting.workload, "estimator": setting.estimator, "ceiling": dict(setting.ceiling),
        "cores": setting.cores, "memory_bytes": setting.memory_bytes, "machine": dict(setting.machine),
        "versions": dict(setting.versions), "notes": list(setting.notes),
    }  # fmt: skip
