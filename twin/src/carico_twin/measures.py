"""The figures by which a run is judged."""

import dataclasses
import math

import numpy as np

from carico_twin import records, world


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """Figures of one run, over the Pods that end (without servers). NaN if there is no value.

    job_s: from the first Pod's creation to the last one's end as the API shows it. pod_s: start to exit. slowdown:
    geometric mean of Pod time / time alone. overrun_node_s: node-seconds with more memory demanded than there is.
    contended_share: share of the time with a server on a node in which the node had more runnable tasks than cores.
    most_per_core: largest number of Pods on a node per core. oom_killed: Pods killed for memory, if the scenario kills;
    their Job creates them again, and times are those of Pods that completed.
    """

    finished: bool
    pods: int
    job_s: float
    pod_mean_s: float
    pod_sd_s: float
    pod_p50_s: float
    pod_p95_s: float
    pod_max_s: float
    slowdown: float
    overrun_node_s: float
    oom_killed: int
    peak_memory_share: float
    contended_share: float
    most_per_core: float
    doubled_node_s: float
    bound_when_full: int
    capacity_overrun: int
    bound_twice: int
    load_per_core_spread: float


def measure(run: world.Run) -> Measures:
    """Return the figures of a run."""
    judged = [pod for pod in run.pods if _is_judged(pod, run)]
    ended = [pod for pod in judged if not math.isnan(pod.ended_s)]
    times = np.array([pod.pod_s for pod in ended]) if ended else np.array([math.nan])
    lag_s = run.scenario.runtime.work_lag_s
    alone = np.array([pod.work.alone_s + lag_s for pod in ended]) if ended else np.array([math.nan])
    server_s = sum(node.server_s for node in run.nodes)
    start_s = min((pod.created_s for pod in judged), default=math.nan)
    loads = np.array([node.pod_s / node.cores for node in run.nodes])
    return Measures(
        finished=run.finished,
        pods=len(judged),
        job_s=max((pod.terminal_s for pod in ended), default=math.nan) - start_s,
        pod_mean_s=float(times.mean()),
        pod_sd_s=float(times.std()),
        pod_p50_s=float(np.percentile(times, 50)),
        pod_p95_s=float(np.percentile(times, 95)),
        pod_max_s=float(times.max()),
        slowdown=float(np.exp(np.log(times / alone).mean())),
        overrun_node_s=sum(node.memory_over_s for node in run.nodes),
        oom_killed=sum(node.oom_kills for node in run.nodes),
        peak_memory_share=max(node.peak_memory_share for node in run.nodes),
        contended_share=sum(node.server_contended_s for node in run.nodes) / server_s if server_s else math.nan,
        most_per_core=max(node.most_pods / node.cores for node in run.nodes),
        doubled_node_s=sum(node.doubled_s for node in run.nodes),
        bound_when_full=sum(node.bound_when_full for node in run.nodes),
        capacity_overrun=run.overruns,
        bound_twice=sum(pod.binds > 1 for pod in run.pods),
        load_per_core_spread=float((loads.max() - loads.min()) / loads.mean()) if loads.mean() > 0 else math.nan,
    )


def _is_judged(pod: records.PodRecord, run: world.Run) -> bool:
    """Return True for Pods of the measured jobs, or of all jobs that end if none is named; not for killed Pods."""
    if pod.failed:
        return False
    if run.scenario.measured:
        return pod.job in run.scenario.measured
    return pod.work.lifetime_s is None or pod.work.lifetime_s < run.scenario.limit_s
