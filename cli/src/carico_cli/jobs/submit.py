"""`carico submit`: a job of Pods."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from carico_cli.clusters import which
from carico_cli.jobs import refusals
from carico_cli.live import connection
from carico_cli.shell import settings
from carico_core.domain import amounts, errors
from carico_core.runtime.process import clock as clocks
from carico_local import job as jobs
from carico_local.report import facts

_PROGRESS_EVERY_S = 2.0
# A cluster elsewhere, as in containers, cannot say that it was ended; an API server that restarts is back sooner.
_AWAY_MOST_S = 60.0
# Pods of these workloads start and end more often, where all is well.
_STILL_S = 60.0
# Pods that are named one by one where they did not succeed.
_NAMED_MOST = 10

# Given for how long the API has been away.
WhyGone = Callable[[float], str | None]


@click.command("submit")
@click.argument("workload", type=click.Choice([workload.value for workload in jobs.Workload]))
@which.flags
@click.option("--pods", type=int, default=12, show_default=True, help="How many Pods.")
@click.option(
    "--seconds", type=float, help="Seconds of work of a Pod on one idle core (default: pi 5, train 25, server 60)."
)
@click.option("--job", "job_name", help="Name of the job (default: made up).")
@click.option("--restart", is_flag=True, help="Run a container again that failed or was lost with its node.")
@click.option("--wait", is_flag=True, help="Return when every Pod has ended; exit code 1 where one failed.")
@click.pass_obj
def command(
    context: settings.Context, /, workload: str, pods: int, seconds: float | None, job_name: str | None,
    restart: bool, wait: bool, **place: Any,
) -> int:  # fmt: skip
    """Submit a job of Pods to a cluster."""
    # By hundredths of a second: two jobs are soon submitted within one.
    made_up = f"{workload}-{clocks.SystemClock().wall_ns() // 10**7 % 10**7}"
    job = jobs.Job(
        name=job_name or made_up, workload=jobs.Workload(workload), pods=pods, seconds=seconds, restarts=restart
    )  # fmt: skip
    address = _address(context, which.Flags(**place))

    def why_gone(away_s: float) -> str | None:
        return _why_gone(context, address, job, away_s=away_s)

    return asyncio.run(_submit(address, job, wait=wait, why_gone=why_gone, environ=context.environ))


def _address(context: settings.Context, given: which.Flags) -> which.Address:
    address = which.meant(context, given).where()()
    if not (address.is_local or given.kubeconfig or context.environ.get(which.KUBECONFIG)):
        # An address of NATS alone must not lead to a job at whatever API the user's default kubeconfig names.
        raise errors.SettingsError(
            f"{address.name}: got an address of NATS alone; give --kubeconfig or set KUBECONFIG for its API as well"
        )
    return address


def _why_gone(context: settings.Context, address: which.Address, job: jobs.Job, *, away_s: float) -> str | None:
    """Return why to stop waiting for a cluster whose API is away; None to go on waiting."""
    if address.is_local:
        try:
            which.local(context.home, address.name)()
        except errors.SettingsError:
            return "its cluster was ended"
        return None
    if away_s < _AWAY_MOST_S:
        return None
    return (
        f"its cluster's API has not answered for {away_s:.0f} s: was the cluster ended? If not, the job goes on by "
        f"itself, and `kubectl get pods -l {jobs.JOB_LABEL}={job.name}` shows it"
    )


async def _submit(
    address: which.Address, job: jobs.Job, *, wait: bool, why_gone: WhyGone, environ: Mapping[str, str] | None = None
) -> int:  # fmt: skip
    async with connection.connect_to(address, environ) as live:
        try:
            batch = await jobs.has_controller(live.api)
            created = await jobs.submit(live.api, job, batch=batch)
        except errors.Conflict:
            raise errors.SettingsError(f"--job: a job named {job.name!r} is there already") from None
        click.echo(f"job {job.name} on cluster {address.name}: {_created(job, created, batch=batch)}")
        return await _wait(live, job, why_gone=why_gone, batch=batch) if wait else 0


def _created(job: jobs.Job, count: int, *, batch: bool) -> str:
    """Return what is there now: the Pods, or so many Jobs, whose Pods come one after another."""
    pods = amounts.plural(job.pods, "Pod")
    if not batch:
        return f"{pods} created"
    return f"{amounts.plural(count, 'Job')} created, of which the Job controller makes {pods}"


async def _wait(live: connection.Session, job: jobs.Job, *, why_gone: WhyGone, batch: bool = False) -> int:
    """Wait for the job; return the exit code. batch: a controller makes the Pods, which may be missing at first."""
    tasks = [asyncio.ensure_future(live.observer.follow_pods(live.api))]
    if batch:
        tasks.append(asyncio.ensure_future(_tell_refusals(live, job)))
    outage, stillness = _Outage(live, job), _Stillness(live, job)
    said = -1
    try:
        while True:
            pods = live.observer.of_job(job.name)
            done = sum(pod.is_terminal for pod in pods)
            if done != said:
                said = done
                click.echo(f"job {job.name}: {done} of {job.pods} done")
            if done >= job.pods:
                return _result(job, pods)
            away_s = outage.lasted_s()
            if away_s is None:
                stillness.look(pods)
            why = None if away_s is None else why_gone(away_s)
            if why is not None:
                raise errors.ApiUnavailable(f"job {job.name}: {done} of {job.pods} done, and {why}")
            ended, _ = await asyncio.wait(tasks, timeout=_PROGRESS_EVERY_S, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _tell_refusals(live: connection.Session, job: jobs.Job) -> None:
    """Print what refuses Pods of the job, once a reason, until cancelled."""
    said: set[str] = set()
    names = [made["metadata"]["name"] for made in jobs.batch_manifests(job)]
    while True:
        await asyncio.sleep(_PROGRESS_EVERY_S)
        missing = job.pods - len(live.observer.of_job(job.name))
        for name in names if missing > 0 else ():
            why = await _refusal(live, job, name)
            # Up to what differs with each try: how much is used by now, or the name of the Pod.
            kind = "" if why is None else why.partition(",")[0].partition(f"{job.name}-")[0]
            if kind and kind not in said:
                said.add(kind)
                there = f"{missing} of {job.pods} Pods are not there, since the API refuses them"
                click.echo(f"job {job.name}: {there}: {why}; waiting goes on", err=True)


async def _refusal(live: connection.Session, job: jobs.Job, name: str) -> str | None:
    # What is wrong with the API is said by who follows the Pods, and who may not read Events hears of none.
    with contextlib.suppress(errors.CaricoError):
        return await refusals.of_job(live.api, job.namespace, name)
    return None


def _result(job: jobs.Job, pods: Sequence[facts.PodFacts]) -> int:
    """Print which Pods did not succeed; return the exit code."""
    bad = [pod for pod in pods if pod.phase != "Succeeded"]
    for line in unsuccessful(job.name, bad):
        click.echo(line, err=True)
    return int(bool(bad))


class _Outage:
    """Measures how long a job's API has been away; prints when it goes and when it is back."""

    def __init__(self, live: connection.Session, job: jobs.Job) -> None:
        self._live = live
        self._job = job
        self._since_s: float | None = None

    def lasted_s(self) -> float | None:
        """Seconds until now; None while the API is there."""
        away, now_s = self._live.observer.api_away, self._live.clock.monotonic_s()
        if (away is None) is not (self._since_s is None):
            self._since_s = None if away is None else now_s
            said = "it is back" if away is None else f"{away}; waiting goes on"
            click.echo(f"job {self._job.name}: {said}", err=True)
        return None if self._since_s is None else now_s - self._since_s


class _Stillness:
    """Prints what a job's Pods wait for, once each time the job stands still."""

    def __init__(self, live: connection.Session, job: jobs.Job) -> None:
        self._live = live
        self._job = job
        self._seen: object = None
        self._since_s = 0.0
        self._said = False

    def look(self, pods: Sequence[facts.PodFacts]) -> None:
        """Print a line on stderr where nothing has happened to these Pods for long."""
        seen, now_s = [(pod.name, pod.phase, pod.node) for pod in pods], self._live.clock.monotonic_s()
        if seen != self._seen:
            self._seen, self._since_s, self._said = seen, now_s, False
        pending = [pod for pod in pods if pod.phase == "Pending" and not pod.is_terminal]
        if self._said or not pending or now_s - self._since_s < _STILL_S:
            return
        self._said = True
        bound = [pod for pod in pending if pod.node]
        what = [f"{len(pending) - len(bound)} without a node"] if len(bound) < len(pending) else []
        what += [f"{len(bound)} bound and not started"] if bound else []
        click.echo(
            f"job {self._job.name}: nothing new for {_STILL_S:.0f} s: {', '.join(what)}; "
            f"`carico explain {pending[0].name}` says why, `carico doctor` what is wrong; waiting goes on",
            err=True,
        )


def unsuccessful(job_name: str, bad: Sequence[facts.PodFacts]) -> list[str]:
    """Describe Pods that did not succeed: a line each for the first ones, one for the rest."""
    lines = [f"job {job_name}: Pod {pod.name} {_became(pod)}" for pod in bad[:_NAMED_MOST]]
    if len(bad) > _NAMED_MOST:
        lines.append(f"job {job_name}: and {len(bad) - _NAMED_MOST} more that did not succeed")
    return lines


def _became(pod: facts.PodFacts) -> str:
    on = f" on {pod.node}" if pod.node else ", not bound to a node"
    if pod.phase == "Failed" and not pod.deleted_while:
        return f"failed{on}" + (f": {pod.reason}" if pod.reason else "")
    # It was removed from the API before it ended.
    return f"was deleted while {pod.deleted_while or pod.phase}{on}: by someone, or with its node"
