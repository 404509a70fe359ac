"""`carico submit`: a job of Pods."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import click

from carico_cli.clusters import which
from carico_cli.jobs import job_wait
from carico_cli.live import addresses, connection
from carico_cli.output import formats
from carico_cli.shell import settings
from carico_core.domain import amounts, errors
from carico_core.runtime.process import clock as clocks
from carico_local.cluster import folders, machine
from carico_local.jobs import job as jobs
from carico_local.jobs import job_labels

# Submitting hundreds of Pods takes less; after this long, what it waits for is printed.
_SILENT_S = 1.0
# It is not known whether a cluster elsewhere was ended; an API server that restarts is back sooner than this.
_AWAY_MOST_S = 60.0


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
    name = generated if job_name is None else job_name
    job = jobs.Job(name=name, workload=jobs.Workload(workload), pods=pods, seconds=seconds, restarts=restart)
    address = _address(context, which.Flags(**place))

    def why_gone(away_s: float) -> str | None:
        return _why_gone(context, address, job, away_s=away_s)

    def shortage() -> str | None:
        return machine.disk_shortage(folders.find(context.home, address.name).root) if address.is_local else None

    explain = address.carico(f"explain job {job.name}")
    try:
        code = asyncio.run(
            _submit(address, job, wait=wait, why_gone=why_gone, shortage=shortage, environ=context.environ)
        )
    except KeyboardInterrupt:
        formats.say(f"\nwhat was created of job {job.name} goes on: `{explain}`", err=True)
        raise
    live = [] if wait else [address.carico("top")]
    formats.say(formats.next_steps([*live, explain]))
    return code


def _address(context: settings.Context, given: which.Flags) -> addresses.Address:
    address = which.meant(context, given).where()()
    if not (address.is_local or given.kubeconfig or context.environ.get(which.KUBECONFIG)):
        # A NATS address alone must not submit a job to whatever API the user's default kubeconfig names.
        raise errors.SettingsError(
            f"{address.name}: got only a NATS address; also give --kubeconfig or set KUBECONFIG, for the cluster's API"
        )
    return address


def _why_gone(context: settings.Context, address: addresses.Address, job: jobs.Job, *, away_s: float) -> str | None:
    """Return why to stop waiting for a cluster whose API is away; None to keep waiting."""
    if address.is_local:
        try:
            addresses.local(context.home, address.name)()
        except errors.SettingsError:
            return "its cluster was ended"
        return None
    if away_s < _AWAY_MOST_S:
        return None
    return (
        f"its cluster's API has not answered for {away_s:.0f} s: was the cluster ended? If not, the job continues, and "
        f"`{address.kubectl} get pods -l {job_labels.JOB_LABEL}={job.name}` shows it"
    )


async def _submit(
    address: addresses.Address, job: jobs.Job, *, wait: bool, why_gone: job_wait.WhyGone,
    shortage: Callable[[], str | None], environ: Mapping[str, str] | None = None,
) -> int:  # fmt: skip
    """Submit the job, and wait for it if `wait`. shortage: what the machine lacks, such as room on the disk."""
    slow = f"job {job.name}: still submitting: "
    async with connection.connect_to(address, environ) as live:
        try:
            async with _announced(lambda: slow + (shortage() or "the Kubernetes API has not accepted all Pods yet")):
                batch = await jobs.has_controller(live.api)
                await _check_name(live, job, address)
                created = await jobs.submit(live.api, job, batch=batch)
        except errors.Conflict:
            raise _taken(job, address) from None
        except errors.ApiUnavailable as error:
            raise errors.ApiUnavailable(f"job {job.name}: {error}; {shortage() or address.look}") from None
        formats.say(f"job {job.name} on cluster {address.name}: {_created(job, created, batch=batch)}")
        return await job_wait.wait(live, job, why_gone=why_gone, batch=batch, at=address) if wait else 0


async def _check_name(live: connection.ApiSession, job: jobs.Job, address: addresses.Address) -> None:
    """Raise `SettingsError` where a job of this name has Pods, whose own names need not collide."""
    path, label = f"/api/v1/namespaces/{job.namespace}/pods", f"{job_labels.JOB_LABEL}={job.name}"
    found = await live.api.request("GET", path, params={"labelSelector": label, "limit": "1"})
    if found.get("items"):
        raise _taken(job, address)


def _taken(job: jobs.Job, address: addresses.Address) -> errors.SettingsError:
    return errors.SettingsError(
        f"--job: a job named {job.name!r} exists already: choose another name, or remove its Pods with "
        f"`{address.kubectl} delete pods -l {job_labels.JOB_LABEL}={job.name}`"
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


def generated_name(workload: str, now_ns: int) -> str:
    """Return a name with eight digits, as a CronJob gives its Jobs: what is learnt of one job counts for the next.

    >>> generated_name("pi", 1_700_000_000_120_000_000)
    'pi-00000012'
    """
    # In hundredths of a second: a script may submit two jobs within a second.
    return f"{workload}-{now_ns // 10**7 % 10**8:08d}"
