"""`carico submit`: a job of Pods."""

import asyncio
from collections.abc import Callable, Sequence

import click

from carico_cli import options, session, settings
from carico_cli.live import where
from carico_core.domain import errors
from carico_core.runtime import clock as clocks
from carico_core.runtime import kube
from carico_local import job as jobs
from carico_local.report import facts

_PROGRESS_EVERY_S = 2.0
# Pods that are named one by one where they did not succeed.
_NAMED_MOST = 10


@click.command("submit")
@click.argument("workload", type=click.Choice([workload.value for workload in jobs.Workload]))
@options.name()
@click.option("--pods", type=int, default=12, show_default=True, help="How many Pods.")
@click.option("--seconds", type=float, help="Work of a Pod on one idle core (default: pi 5, train 25, server 60).")
@click.option("--job", "job_name", help="Name of the job (default: made up).")
@click.option("--restart", is_flag=True, help="Run a container again that failed or was lost with its node.")
@click.option("--wait", is_flag=True, help="Return when every Pod has ended; exit code 1 where one failed.")
@click.pass_obj
def command(
    context: settings.Context, workload: str, name: str, pods: int, seconds: float | None, job_name: str | None,
    restart: bool, wait: bool,
) -> int:  # fmt: skip
    """Submits a job to a local cluster; where none of that name runs, to that of NATS_URL and KUBECONFIG."""
    made_up = f"{workload}-{clocks.SystemClock().wall_ns() // 10**9 % 10**6}"
    job = jobs.Job(
        name=job_name or made_up, workload=jobs.Workload(workload), pods=pods, seconds=seconds, restarts=restart
    )  # fmt: skip
    address = _address(context, name)
    return asyncio.run(_submit(address, job, wait=wait, is_there=lambda: _is_there(context, address)))


def _address(context: settings.Context, name: str) -> where.Address:
    try:
        return where.local(context.home, name)()
    except errors.SettingsError:
        nats_url, kubeconfig = context.environ.get("NATS_URL"), context.environ.get("KUBECONFIG")
        if not nats_url or not kubeconfig:
            raise
        return where.remote(nats_url, kube.KubeSettings(kubeconfig=kubeconfig), context.environ)()


def _is_there(context: settings.Context, address: where.Address) -> bool:
    """False for a local cluster that was ended."""
    try:
        return not address.is_local or where.local(context.home, address.name)() is not None
    except errors.SettingsError:
        return False


async def _submit(address: where.Address, job: jobs.Job, *, wait: bool, is_there: Callable[[], bool]) -> int:
    async with session.connect_to(address) as live:
        try:
            created = await jobs.submit(live.api, job, batch=await jobs.has_controller(live.api))
        except errors.Conflict:
            raise errors.SettingsError(f"--job: a job named {job.name!r} is there already") from None
        click.echo(f"job {job.name}: {created} Pods created")
        return await _wait(live, job, is_there=is_there) if wait else 0


async def _wait(live: session.Session, job: jobs.Job, *, is_there: Callable[[], bool]) -> int:
    following = asyncio.ensure_future(live.observer.follow_pods(live.api))
    said, away = -1, None
    try:
        while True:
            pods = live.observer.of_job(job.name)
            done = sum(pod.is_terminal for pod in pods)
            if done != said:
                said = done
                click.echo(f"job {job.name}: {done} of {job.pods} done")
            if done >= job.pods:
                bad = [pod for pod in pods if pod.phase != "Succeeded"]
                for line in unsuccessful(job.name, bad):
                    click.echo(line, err=True)
                return int(bool(bad))
            if (away is None) is not (live.observer.api_away is None):
                away = live.observer.api_away
                click.echo(f"job {job.name}: " + (f"{away}; waiting goes on" if away else "it is back"), err=True)
            if away is not None and not is_there():
                raise errors.ApiUnavailable(
                    f"job {job.name}: its cluster was ended when {done} of {job.pods} were done"
                )
            await asyncio.sleep(_PROGRESS_EVERY_S)
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


def unsuccessful(job_name: str, bad: Sequence[facts.PodFacts]) -> list[str]:
    """What became of Pods that did not succeed: a line each for the first ones, one for the rest."""
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
