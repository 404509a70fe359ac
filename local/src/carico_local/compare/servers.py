"""A server on every node while a job runs: the latency of its requests measures isolation."""

import asyncio
import statistics
from collections.abc import Mapping, Sequence

from carico_core.domain import amounts, errors
from carico_local.compare import contender as contenders
from carico_local.compare import testbed as testbeds
from carico_local.jobs import job as jobs

# They run until they are deleted.
_SECONDS = 86_400.0
# How long the latency on idle nodes is measured: as long as a job takes, within these bounds.
IDLE_LEAST_S, IDLE_MOST_S = 5.0, 20.0
READY_MOST_S = 60.0
GRACE_S = 20


def millicores(text: str, *, cores: float) -> int:
    """Return a server's request, on nodes that offer `cores` cores. Raises `SettingsError`.

    >>> millicores("100m", cores=4), millicores("1.5", cores=4)
    (100, 1500)
    """
    try:
        found = round(amounts.parse_quantity(text) * 1000.0)
    except (ValueError, OverflowError):
        found = 0
    if not 1 <= found <= cores * 1000:
        raise errors.SettingsError(
            f"--servers-cpu: got {text!r}, expected CPU such as 100m or 0.5, from 1m to the {cores:g} cores of a node"
        )
    return found


# As table 5.1 of the dissertation.
QUANTILES = ("min", "p50", "p90", "p95", "p99", "max")
Latency = Mapping[str, float]


async def idle_ms(testbed: testbeds.Testbed) -> Latency | None:
    """Return the latency of servers on otherwise idle nodes."""
    job = await start(testbed, "servers-idle")
    await asyncio.sleep(min(max(testbed.bound_s, IDLE_LEAST_S), IDLE_MOST_S))
    return await end(testbed, job)


async def start(testbed: testbeds.Testbed, name: str) -> jobs.Job:
    """Start one server per node, each with the testbed's request, placed by kube-scheduler."""
    job = jobs.Job(
        name=name, workload=jobs.Workload.SERVER, pods=len(testbed.nodes), seconds=_SECONDS,
        scheduler_name=contenders.KUBE_SCHEDULER, request_millicores=testbed.servers_millicores,
    )  # fmt: skip
    for node, manifest in zip(testbed.nodes, jobs.manifests(job), strict=True):
        # Time enough to write its message even on a busy machine: a killed server reports nothing.
        manifest["spec"] |= {"nodeSelector": {"kubernetes.io/hostname": node}, "terminationGracePeriodSeconds": GRACE_S}
        await testbed.api.request("POST", f"/api/v1/namespaces/{job.namespace}/pods", body=manifest)
    await testbed.until(lambda: sum(pod.running for pod in testbed.observer.of_job(name)) == job.pods, READY_MOST_S)
    return job


async def end(testbed: testbeds.Testbed, job: jobs.Job) -> Latency | None:
    """End the servers and return their latency in ms, the median over nodes; None where none reported."""
    await testbed.clear(job)
    return _latency_ms([pod.outcome for pod in testbed.observer.of_job(job.name)])


def _latency_ms(outcomes: Sequence[dict[str, object]]) -> Latency | None:
    """Return the median over nodes of each quantile; of min and max the least and the most of all nodes."""
    found = {
        name: [value for each in outcomes if isinstance(value := each.get(f"{name}_ms"), int | float)]
        for name in QUANTILES
    }
    whole = {"min": min, "max": max}
    return (
        {name: round(float(whole.get(name, statistics.median)(values)), 3) for name, values in found.items()}
        if all(found.values())
        else None
    )
