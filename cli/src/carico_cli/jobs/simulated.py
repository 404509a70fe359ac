"""What kube-scheduler would have done with a demo's job: its cluster and job in the twin, by requests.

Nothing is fitted (`carico_twin.evaluate.comparisons.emulated`): the twin knows the nodes' cores and memory and the
Pods' work. The machine below, which all nodes share, is not simulated.
"""

import importlib.util
import math
import statistics
from collections.abc import Iterator, Mapping
from typing import Any

from carico_local.cluster import plan as plans
from carico_local.jobs import job as jobs

# What people write where they do not know: half a core, and the least that is common.
REQUESTS_MILLICORES = (500, 100)
SEEDS = (1, 2, 3)
# A larger job takes minutes.
PODS_MOST = 5000


def kube_scheduler(plan: plans.Plan, job: jobs.Job) -> list[dict[str, Any]]:
    """Return job time and mean Pod time for each request; empty without the twin's package, or for a very large job."""
    if importlib.util.find_spec("carico_twin") is None or job.pods > PODS_MOST:
        return []
    return list(_runs(plan, job))


def _runs(plan: plans.Plan, job: jobs.Job) -> Iterator[dict[str, Any]]:
    # Imported here: a container image may leave the twin out.
    from carico_twin import scenario, world
    from carico_twin.evaluate.comparisons import emulated
    from carico_twin.nodes import machine, work
    from carico_twin.schedulers import slots

    kinds = [job.kind(index) for index in range(job.pods)]
    works = {
        kind: work.Work(
            name=kind.value, cpu_s=job.work_s(kind),
            memory_bytes=float(jobs.TRAIN_BYTES) if kind is jobs.Workload.TRAIN else 0.0,
        )
        for kind in dict.fromkeys(kinds)
    }  # fmt: skip
    hardware = machine.Hardware(cores=float(plan.cores), memory_bytes=plan.memory_bytes / plan.scale)
    made = scenario.Scenario(
        name="demo", hardware=(hardware,) * plan.nodes, runtime=emulated.RUNTIME,
        jobs=tuple(scenario.Job(name=kind.value, work=each, pods=kinds.count(kind)) for kind, each in works.items()),
        limit_s=emulated.GIVE_UP_AT * (job.total_work_s / (plan.nodes * plan.cores) + max(map(job.work_s, works))),
    )  # fmt: skip
    for millicores in REQUESTS_MILLICORES:
        choice = slots.KubeOptions(
            request_cores=millicores / 1000.0, request_bytes=0.0, reserved_cores=0.0, reserved_bytes=0.0
        )
        figures = [_figures(world.run(made, choice, seed=seed)) for seed in SEEDS]
        yield {
            "request_millicores": millicores,
            "simulated": True,
            **{name: _mean(each[name] for each in figures) for name in ("job_s", "pod_mean_s")},
        }


def _figures(done: Any) -> Mapping[str, float]:
    """Return NaN for a job that did not end in time."""
    ended = [pod for pod in done.pods if not math.isnan(pod.ended_s)]
    if len(ended) < len(done.pods):
        return {"job_s": math.nan, "pod_mean_s": math.nan}
    return {
        "job_s": max(pod.terminal_s for pod in ended), "pod_mean_s": statistics.fmean(pod.pod_s for pod in ended),
    }  # fmt: skip


def _mean(values: Iterator[float]) -> float | None:
    found = statistics.fmean(values)
    return None if math.isnan(found) else round(found, 2)
