"""`carico compare`: one job under CARICO and under the real kube-scheduler in turn, with Pods that really run."""

import asyncio
import contextlib
import pathlib
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import click
import orjson

from carico_cli.clusters import starting
from carico_cli.jobs import compare_page
from carico_cli.live import connection
from carico_cli.output import formats
from carico_cli.output import report as report_folder
from carico_cli.shell import exits, options, settings
from carico_core.domain import errors
from carico_core.runtime.process import clock as clocks
from carico_local import job as jobs
from carico_local.cluster import client, machine, state
from carico_local.cluster import plan as plans
from carico_local.compare import comparison, servers, trial
from carico_local.compare import contender as contenders
from carico_local.compare import ground as grounds

NAME = "compare"
JOB_NAME = "compare"
DEFAULT_REPEATS = 5
DEFAULT_TARGET_S = 120.0


@click.command("compare")
@options.new_name(NAME)
@options.cluster
@click.option(
    "--repeats", type=click.IntRange(1, 100), default=DEFAULT_REPEATS, show_default=True, help="Runs of each contender."
)
@click.option("--pods", type=int, help=f"Pods of the job (default: about {DEFAULT_TARGET_S:.0f} s of work).")
@click.option("--seconds", type=float, help="Seconds of work of a Pod on one idle core (default: 5).")
@click.option(
    "--contender", "chosen", multiple=True, metavar="NAME",
    help="A contender: carico, kube-500m, kube-500m-bare (without agents), constant-8; may be repeated "
    f"(default: {', '.join(contenders.DEFAULT)}).",
)  # fmt: skip
@click.option("--servers", "with_servers", is_flag=True, help="Run a server on each node during each job.")
@click.option(
    "--servers-cpu", metavar="QUANTITY",
    help="CPU request of each server, such as 100m (default: none, so that only the job differs); implies --servers.",
)  # fmt: skip
@click.option("--out", type=click.Path(path_type=pathlib.Path), help="Folder of the report (default: var/NAME).")
@formats.flag(formats.Output.JSON)
@click.pass_obj
def command(context: settings.Context, /, name: str, **given: Any) -> int:
    """Run a pi job under each scheduler in turn on one real control plane, and compare job and Pod times.

    The default takes two hours, --repeats 1 --pods 60 some minutes. Exit code 1 if a Pod failed or was bound twice; a
    missed target is only reported.
    """
    given["control_plane"] = given["control_plane"] or plans.ControlPlane.REAL.value
    if given["control_plane"] != plans.ControlPlane.REAL.value:
        raise errors.SettingsError("--control-plane: got embedded, expected real: kube-scheduler needs it")
    request = options.request(name, given)
    wanted = [contenders.parse(each, cores=request.cores) for each in given["chosen"] or contenders.DEFAULT]
    job = jobs.Job(
        name=JOB_NAME,
        workload=jobs.Workload.PI,
        pods=1 if given["pods"] is None else given["pods"],
        seconds=given["seconds"],
    )
    asked = given["servers_cpu"]
    given["servers_millicores"] = None if asked is None else servers.millicores(asked, cores=request.cores)
    prints_json = given["output"] is formats.Output.JSON
    out: pathlib.Path = given["out"] or pathlib.Path("var") / name
    report_folder.check(out)
    with contextlib.redirect_stdout(sys.stderr) if prints_json else contextlib.nullcontext():
        found = asyncio.run(_compare(context, request, wanted, job, given))
    as_json = orjson.dumps(found, option=orjson.OPT_INDENT_2)
    try:
        click.echo(as_json.decode() if prints_json else compare_page.text(found))
    finally:
        # Even if standard output was closed (`--json | head`): it is the work of hours.
        report_folder.write(out, {"compare.json": as_json, "compare.html": compare_page.page(found).encode()})
    click.echo(f"report: {out / 'compare.json'} and {out / 'compare.html'}", err=prints_json)
    return int(any(row["failed"] or row["bound_twice"] for row in found["contenders"].values()))


async def _compare(
    context: settings.Context, request: plans.Options, wanted: Sequence[contenders.Contender], job: jobs.Job,
    given: Mapping[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """Start a cluster, compare on it, and end it."""
    binaries = starting.obtain(request, context)
    exits.cancel_on_signals()
    # Checked before the cluster itself keeps the machine busy.
    busy = starting.busy_machine()
    if busy is not None:
        starting.note(busy, context)
    launched = await client.launch(
        request, home=context.home, environ=context.environ, restart=False, lifeline=True, fresh=True, binaries=binaries
    )  # fmt: skip
    try:
        notes = [*([] if busy is None else [busy]), *await starting.show(launched, context)]
        found = state.read(launched.paths)
        assert found is not None, "a cluster that is up has written its state"
        plan = found.plan
        if given["pods"] is None:
            cores = plan.nodes * plan.cores
            pods = jobs.sized(job.workload, seconds=job.seconds, cores=cores, target_s=DEFAULT_TARGET_S)
            job = jobs.Job(name=job.name, workload=job.workload, pods=pods, seconds=job.seconds)
        bound_s = job.total_work_s / (plan.nodes * plan.cores) + job.mean_work_s
        repeats = int(given["repeats"])
        trials_s = bound_s * len(wanted) * repeats
        click.echo(f"{len(wanted)} contenders x {repeats} runs of {job.pods} Pods: about {trials_s / 60 + 1:.0f} min")
        servers_millicores: int | None = given["servers_millicores"]
        with_servers = given["with_servers"] or servers_millicores is not None
        async with _ground(launched.paths, found, bound_s, servers_millicores) as ground:
            trials, idle_p99s_ms = await _trials(ground, wanted, job, repeats=repeats, with_servers=with_servers)
        setting = _setting(plan, job, bound_s, notes) | {"servers_millicores": servers_millicores}
        report = comparison.report(trials, wanted, setting=setting, idle_p99s_ms=idle_p99s_ms)
        return {**report, "ended_at_ns": clocks.SystemClock().wall_ns()}
    finally:
        await exits.finished(_end(launched), hurry=launched.kill)


@contextlib.asynccontextmanager
async def _ground(
    paths: state.Paths, found: state.ClusterState, bound_s: float, servers_millicores: int | None
) -> AsyncIterator[grounds.Ground]:
    """Follow the cluster's Pods while trials run on it."""
    agents = [each.process.pid for each in found.services if each.name.startswith("agent/") and each.process]
    async with connection.connect_to(connection.local_address(paths, found)) as live:
        following = asyncio.ensure_future(live.observer.follow_pods(live.api))
        try:
            yield grounds.Ground(
                api=live.api, observer=live.observer, clock=live.clock, nodes=found.plan.node_names, agents=agents,
                bound_s=bound_s, servers_millicores=servers_millicores,
            )  # fmt: skip
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


async def _trials(
    ground: grounds.Ground, wanted: Sequence[contenders.Contender], job: jobs.Job, *, repeats: int, with_servers: bool
) -> tuple[list[trial.Trial], list[float]]:
    """Run each contender once a round; each round begins with another one, so that drift affects all alike.

    with_servers: once a round, also measure the servers' p99 in ms on otherwise empty nodes.
    """
    done: list[trial.Trial] = []
    idle_p99s_ms: list[float] = []
    for repeat in range(1, repeats + 1):
        if with_servers and (idle_ms := await servers.idle_p99_ms(ground)) is not None:
            idle_p99s_ms.append(idle_ms)
            click.echo(f"run {repeat} of {repeats}, servers alone: p99 {idle_ms:.1f} ms")
        begin = (repeat - 1) % len(wanted)
        for contender in (*wanted[begin:], *wanted[:begin]):
            one = await trial.run(ground, contender, job, repeat, with_servers=with_servers)
            done.append(one)
            mean = formats.number(one.pod_s["mean"])
            latency = "" if one.server_p99_ms is None else f", servers' p99 {one.server_p99_ms:.1f} ms"
            click.echo(f"run {repeat} of {repeats}, {one.contender}: job {one.job_s:.1f} s, Pods {mean} s{latency}")
    return done, idle_p99s_ms


def _setting(plan: plans.Plan, job: jobs.Job, bound_s: float, notes: Sequence[str]) -> dict[str, Any]:
    on = machine.read_machine()
    return {
        "nodes": plan.nodes, "cores": plan.cores, "scale": plan.scale, "pods": job.pods,
        "pod_alone_s": job.mean_work_s, "bound_s": round(bound_s, 3), "estimator": plan.estimator or "default",
        "ceiling_cpu": plan.ceiling_cpu, "notes": list(notes),
        "machine": {"cpus": on.cpus, "processor": on.processor, "kernel": on.kernel},
    }  # fmt: skip


async def _end(launched: client.Launched) -> None:
    await launched.stop()
    await client.down(launched.paths, keep_logs=False)
