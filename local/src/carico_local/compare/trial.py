"""One trial: a job under one contender, from the creation of its first Pod until its last Pod is deleted."""

import asyncio
import contextlib
import dataclasses
from collections.abc import Mapping, Sequence

from carico_core.domain import errors
from carico_local.compare import contender as contenders
from carico_local.compare import load as loads
from carico_local.compare import servers
from carico_local.compare import testbed as testbeds
from carico_local.jobs import facts, figures
from carico_local.jobs import job as jobs

# A job that takes this many times its bound is not going to end.
GIVE_UP_AT = 10.0
GIVE_UP_MORE_S = 60.0
# After this time a job has no more effect on the next one (smoothed telemetry, processes that end).
SETTLE_S = 3.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The result of a trial. `pod_s`: as from `figures.distribution`; `server_ms`: None without servers."""

    contender: str
    repeat: int
    job_s: float
    pod_s: Mapping[str, float | None]
    max_running_per_node: int
    failed: int
    bound_twice: int
    server_ms: servers.Latency | None = None


async def run(
    testbed: testbeds.Testbed, contender: contenders.Contender, load: loads.Load, repeat: int, *, with_servers: bool
) -> Trial:
    """Run a trial and delete the job's Pods. Raises `EnvironmentUnfit` for a job that does not end."""
    named = load.under(contender, f"{load.name}-{repeat}-{contender.name}")
    with contextlib.nullcontext() if contender.agents else testbed.without_agents():
        running_servers = await servers.start(testbed, f"{named.name}-servers") if with_servers else None
        submitted_s = testbed.clock.wall_ns() / 1e9
        await jobs.create_all(testbed.api, f"/api/v1/namespaces/{named.namespace}/pods", named.manifests())
        await _until_over(testbed, named)
        found = measure(testbed.observer.of_job(named.name), contender, repeat, submitted_s)
        if running_servers is not None:
            found = dataclasses.replace(found, server_ms=await servers.end(testbed, running_servers))
        await testbed.clear(named)
    await asyncio.sleep(SETTLE_S)
    return found


def measure(
    pods: Sequence[facts.PodFacts], contender: contenders.Contender, repeat: int, submitted_s: float
) -> Trial:  # fmt: skip
    """Return the figures of a finished job."""
    times_s = [pod.time_s for pod in pods if pod.time_s is not None]
    spans = figures.running_spans(pods)
    return Trial(
        contender=contender.name,
        repeat=repeat,
        job_s=round(max(pod.terminal_s or submitted_s for pod in pods) - submitted_s, 3),
        pod_s=figures.distribution(times_s),
        max_running_per_node=max((figures.most_at_once(each) for each in spans.values()), default=0),
        failed=sum(pod.phase != "Succeeded" for pod in pods),
        bound_twice=sum(len(set(pod.nodes)) > 1 for pod in pods),
    )


async def _until_over(testbed: testbeds.Testbed, job: loads.Load) -> None:
    most_s = testbed.bound_s * GIVE_UP_AT + GIVE_UP_MORE_S

    def left() -> int:
        return job.pods - sum(pod.is_terminal for pod in testbed.observer.of_job(job.name))

    try:
        await testbed.until(lambda: left() == 0, most_s)
    except TimeoutError:
        raise errors.EnvironmentUnfit(
            f"job {job.name}: {left()} of {job.pods} Pods have not ended after {most_s:.0f} s; "
            "check that its scheduler runs: `carico logs scheduler`, `carico logs kube-scheduler`"
        ) from None
