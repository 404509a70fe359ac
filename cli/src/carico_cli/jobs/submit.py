"""`carico submit`: a job of Pods."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import click

from carico_cli.clusters import which
from carico_cli.jobs import job_summary, refusals
from carico_cli.live import connection
from carico_cli.output import formats
from carico_cli.shell import settings
from carico_core.domain import amounts, errors
from carico_core.runtime.process import clock as clocks
from carico_local.cluster import machine, state
from carico_local.jobs import facts
from carico_local.jobs import job as jobs

_PROGRESS_EVERY_S = 2.0
# Submitting hundreds of Pods takes less; after this long, what it waits for is printed.
_SILENT_S = 1.0
# It is not known whether a cluster elsewhere was ended; an API server that restarts is back sooner than this.
_AWAY_MOST_S = 60.0
# In a healthy cluster Pods of these workloads start and end more often.
_STILL_S = 60.0
# At most this many Pods that did not succeed are named.
_NAMED_MOST = 10

# Takes for how long the API has been away.
WhyGone = Callable[[float], str | None]


@click.command("submit")
@click.argument("workload", type=click.Choice([workload.value for workload in jobs.Workload]), metavar="WORKLOAD")
@which.flags
@click.option("--pods", type=int, default=12, show_default=True, help="How many Pods.")
@click.option(
    "--seconds",
    type=float,
    help="Work of a Pod, in seconds on one idle core (default: pi 5, train and mlp 25, server 60).",
)
@click.option("--job", "job_name", help="Name of the job (default: generated).")
@click.option("--restart", is_flag=True, help="Restart a container that failed or was lost with its node.")
@click.option("--wait", is_flag=True, help="Return when every Pod has ended; exit code 1 if one failed.")
@click.pass_obj
def command(
    context: settings.Context, /, workload: str, pods: int, seconds: float | None, job_name: str | None,
    restart: bool, wait: bool, **place: Any,
) -> int:  # fmt: skip
    """Submit a job of Pods to a cluster.

    WORKLOAD: pi, train, mixed (both), mlp, server, waiting, io, stages, boot or cache.
    """
    generated = generated_name(workload, clocks.SystemClock().wall_ns())
    job = jobs.Job(
        name=job_name or generated, workload=jobs.Workload(workload), pods=pods, seconds=seconds, restarts=restart
    )  # fmt: skip
    address = _address(context, which.Flags(**place))

    def why_gone(away_s: float) -> str | None:
        return _why_gone(context, address, job, away_s=away_s)

    def shortage() -> str | None:
        return machine.disk_shortage(state.find(context.home, address.name).root) if address.is_local else None

    of = which.naming(context, address.name) if address.is_local else ""
    try:
        code = asyncio.run(
            _submit(address, job, wait=wait, why_gone=why_gone, shortage=shortage, environ=context.environ)
        )
    except KeyboardInterrupt:
        formats.say(f"\nwhat was created of job {job.name} goes on: `carico explain job {job.name}{of}`", err=True)
        raise
    # Flags that name a cluster elsewhere would have to be given again.
    if address.is_local or context.environ.get(which.NATS_URL):
        live = [] if wait else [f"carico top{of}"]
        formats.say(formats.next_steps([*live, f"carico explain job {job.name}{of}"]))
    return code


def _address(context: settings.Context, given: which.Flags) -> which.Address:
    address = which.meant(context, given).where()()
    if not (address.is_local or given.kubeconfig or context.environ.get(which.KUBECONFIG)):
        # A NATS address alone must not submit a job to whatever API the user's default kubeconfig names.
        raise errors.SettingsError(
            f"{address.name}: got only a NATS address; also give --kubeconfig or set KUBECONFIG, for the cluster's API"
        )
    return address


def _why_gone(context: settings.Context, address: which.Address, job: jobs.Job, *, away_s: float) -> str | None:
    """Return why to stop waiting for a cluster whose API is away; None to keep waiting."""
    if address.is_local:
        try:
            which.local(context.home, address.name)()
        except errors.SettingsError:
            return "its cluster was ended"
        return None
    if away_s < _AWAY_MOST_S:
        return None
    return (
        f"its cluster's API has not answered for {away_s:.0f} s: was the cluster ended? If not, the job continues, and "
        f"`kubectl get pods -l {jobs.JOB_LABEL}={job.name}` shows it"
    )


async def _submit(
    address: which.Address, job: jobs.Job, *, wait: bool, why_gone: WhyGone, shortage: Callable[[], str | None],
    environ: Mapping[str, str] | None = None,
) -> int:  # fmt: skip
    """Submit the job, and wait for it if `wait`. shortage: what the machine lacks, such as room on the disk."""
    slow = f"job {job.name}: still submitting: "
    async with connection.connect_to(address, environ) as live:
        try:
            async with _announced(lambda: slow + (shortage() or "the Kubernetes API has not accepted all Pods yet")):
                batch = await jobs.has_controller(live.api)
                await _check_name(live, job)
                created = await jobs.submit(live.api, job, batch=batch)
        except errors.Conflict:
            raise _taken(job) from None
        except errors.ApiUnavailable as error:
            raise errors.ApiUnavailable(f"job {job.name}: {error}; {shortage() or address.look}") from None
        formats.say(f"job {job.name} on cluster {address.name}: {_created(job, created, batch=batch)}")
        return await _wait(live, job, why_gone=why_gone, batch=batch) if wait else 0


async def _check_name(live: connection.ApiSession, job: jobs.Job) -> None:
    """Raise `SettingsError` where a job of this name has Pods, whose own names need not collide."""
    path, label = f"/api/v1/namespaces/{job.namespace}/pods", f"{jobs.JOB_LABEL}={job.name}"
    found = await live.api.request("GET", path, params={"labelSelector": label, "limit": "1"})
    if found.get("items"):
        raise _taken(job)


def _taken(job: jobs.Job) -> errors.SettingsError:
    return errors.SettingsError(
        f"--job: a job named {job.name!r} exists already: choose another name, or remove its Pods with "
        f"`kubectl delete pods -l {jobs.JOB_LABEL}={job.name}`"
    )


@contextlib.asynccontextmanager
async def _announced(line: Callable[[], str]) -> AsyncIterator[None]:
    """Print the line on stderr if the block takes longer than `_SILENT_S`."""

    async def announce() -> None:
        await asyncio.sleep(_SILENT_S)
        formats.say(line(), err=True)

    task = asyncio.ensure_future(announce())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _created(job: jobs.Job, count: int, *, batch: bool) -> str:
    """Return what was created: the Pods, or Jobs whose Pods follow one after another."""
    pods = amounts.plural(job.pods, "Pod")
    if not batch:
        return f"{pods} created"
    return f"{amounts.plural(count, 'Job')} created; the Job controller creates {pods}"


async def _wait(live: connection.ApiSession, job: jobs.Job, *, why_gone: WhyGone, batch: bool = False) -> int:
    """Wait for the job; return the exit code. batch: a controller creates the Pods, some of which may be missing."""
    tasks = [asyncio.ensure_future(live.observer.follow_pods(live.api))]
    if batch:
        tasks.append(asyncio.ensure_future(_report_refusals(live, job)))
    outage, stillness = _Outage(live, job), _Stillness(live, job)
    said = -1
    try:
        while True:
            pods = live.observer.of_job(job.name)
            done = sum(pod.is_terminal for pod in pods)
            if done != said:
                said = done
                formats.say(f"job {job.name}: {done} of {job.pods} done")
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


async def _report_refusals(live: connection.ApiSession, job: jobs.Job) -> None:
    """Print why the API refuses Pods of the job, each reason once, until cancelled."""
    said: set[str] = set()
    names = [made["metadata"]["name"] for made in jobs.batch_manifests(job)]
    while True:
        await asyncio.sleep(_PROGRESS_EVERY_S)
        missing = job.pods - len(live.observer.of_job(job.name))
        for name in names if missing > 0 else ():
            why = await _refusal(live, job, name)
            # Without what differs with each try: the amount in use, or the Pod's name.
            kind = "" if why is None else why.partition(",")[0].partition(f"{job.name}-")[0]
            if kind and kind not in said:
                said.add(kind)
                refused = f"{missing} of {job.pods} Pods do not exist, because the API refuses them"
                formats.say(f"job {job.name}: {refused}: {why}; still waiting", err=True)


def generated_name(workload: str, now_ns: int) -> str:
    """Return a name with eight digits, as a CronJob gives its Jobs: what is learnt of one job counts for the next.

    >>> generated_name("pi", 1_700_000_000_120_000_000)
    'pi-00000012'
    """
    # In hundredths of a second: a script may submit two jobs within a second.
    return f"{workload}-{now_ns // 10**7 % 10**8:08d}"


async def _refusal(live: connection.ApiSession, job: jobs.Job, name: str) -> str | None:
    # `_Outage` reports what is wrong with the API; a user who may not read Events gets no reasons.
    with contextlib.suppress(errors.CaricoError):
        return await refusals.of_job(live.api, job.namespace, name)
    return None


def _result(job: jobs.Job, pods: Sequence[facts.PodFacts]) -> int:
    """Print what became of the job, and which Pods did not succeed; return the exit code."""
    formats.say("\n".join(job_summary.lines(job.name, pods)))
    bad = [pod for pod in pods if pod.phase != "Succeeded"]
    for line in unsuccessful(job.name, bad):
        formats.say(line, err=True)
    return int(bool(bad))


class _Outage:
    """Measures how long the API has been away; prints when it goes away and when it is back."""

    def __init__(self, live: connection.ApiSession, job: jobs.Job) -> None:
        self._live = live
        self._job = job
        self._since_s: float | None = None

    def lasted_s(self) -> float | None:
        """Return for how long the API has been away; None while it answers."""
        away, now_s = self._live.observer.api_away, self._live.clock.monotonic_s()
        if (away is None) is not (self._since_s is None):
            self._since_s = None if away is None else now_s
            said = "the API is back" if away is None else f"{away}; still waiting"
            formats.say(f"job {self._job.name}: {said}", err=True)
        return None if self._since_s is None else now_s - self._since_s


class _Stillness:
    """Prints what a job's Pods wait for, once each time the job makes no progress."""

    def __init__(self, live: connection.ApiSession, job: jobs.Job) -> None:
        self._live = live
        self._job = job
        self._seen: object = None
        self._since_s = 0.0
        self._said = False

    def look(self, pods: Sequence[facts.PodFacts]) -> None:
        """Print a line on stderr if nothing has happened to these Pods for `_STILL_S`."""
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
        formats.say(
            f"job {self._job.name}: no progress for {_STILL_S:.0f} s: {', '.join(what)}; "
            f"`carico explain {pending[0].name}` says why, `carico doctor` checks the cluster; still waiting",
            err=True,
        )


def unsuccessful(job_name: str, bad: Sequence[facts.PodFacts]) -> list[str]:
    """Return a line for each of the first Pods that did not succeed, and one for the rest."""
    lines = [f"job {job_name}: Pod {pod.name} {_became(pod)}" for pod in bad[:_NAMED_MOST]]
    if len(bad) > _NAMED_MOST:
        lines.append(f"job {job_name}: and {len(bad) - _NAMED_MOST} more that did not succeed")
    return lines


def _became(pod: facts.PodFacts) -> str:
    on = f" on {pod.node}" if pod.node else ", not bound to a node"
    if pod.phase == "Failed" and not pod.deleted_while:
        return f"failed{on}" + (f": {pod.reason}" if pod.reason else "")
    # The Pod was removed from the API before it ended.
    return f"was deleted while {pod.deleted_while or pod.phase}{on}: by someone, or with its node"
