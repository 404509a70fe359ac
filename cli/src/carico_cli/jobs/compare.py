"""`carico compare`: one job under CARICO and under the real kube-scheduler in turn, with Pods that really run."""

import asyncio
import contextlib
import dataclasses
import pathlib
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import click

from carico_cli.clusters import starting
from carico_cli.jobs import compare_page
from carico_cli.live import addresses, connection
from carico_cli.output import formats
from carico_cli.output import report as report_folder
from carico_cli.shell import manifest_files, options, settings, user_files
from carico_core.domain import amounts, errors
from carico_core.runtime.process import clock as clocks
from carico_local.cluster import folders, machine, state
from carico_local.cluster import plan as plans
from carico_local.compare import comparison, servers, trial
from carico_local.compare import contender as contenders
from carico_local.compare import load as loads
from carico_local.compare import testbed as testbeds
from carico_local.jobs import job as jobs

NAME = "compare"
JOB_NAME = "compare"
DEFAULT_REPEATS = 5
DEFAULT_TARGET_S = 120.0
_PROGRAMS = tuple(each.value for each in jobs.Workload if each is not jobs.Workload.SERVER)


@click.command("compare")
@options.new_name(NAME)
@options.cluster
@click.option(
    "--repeats",
    type=click.IntRange(1, 100),
    help=f"Runs of each contender, in turn (default: {DEFAULT_REPEATS}; of --applications 1).",
)
@click.option(
    "--workload",
    default=jobs.Workload.PI.value,
    show_default=True,
    metavar="NAME|FILE",
    help=f"What the Pods run: {', '.join(_PROGRAMS)}, or the Pods and Jobs of a file of manifests, which must end.",
)
@click.option("--pods", type=int, help=f"Pods of the job (default: about {DEFAULT_TARGET_S:.0f} s of work).")
@click.option(
    "--seconds",
    type=float,
    help="Seconds of a Pod alone on a node (default: pi 5, train, mlp 25, others 11-14; of FILE 60, only to give up).",
)
@click.option(
    "--contender", "chosen", multiple=True, metavar="NAME",
    help="A contender: carico, carico-1091m (with requests), kube-500m, kube-500m-bare (without agents), constant-8; "
    f"may be repeated (default: {', '.join(contenders.DEFAULT)}).",
)  # fmt: skip
@click.option("--servers", "with_servers", is_flag=True, help="Run a server on each node during each job.")
@click.option(
    "--servers-cpu", metavar="QUANTITY",
    help="CPU request of each server, such as 100m (default: none, so that only the job differs); implies --servers.",
)  # fmt: skip
@click.option(
    "--applications", is_flag=True,
    help="Instead of a job: three applications and their users, before and after Pods are moved (contenders: none, "
    "kube-scheduler, descheduler, the paper's algorithms ws-sa..., carico).",
)  # fmt: skip
@click.option("--quick", is_flag=True, help="--applications: low load, short spans, three contenders.")
@click.option(
    "--load", type=click.Choice(["low", "high", "both"]),
    help="--applications: how many users there are (default: both, with --quick low).",
)  # fmt: skip
@click.option("--delay-ms", type=float, help="--applications: delay between nodes, one way (default: 0.5).")
@click.option("--out", type=user_files.PATH, help="Folder of the report (default: var/NAME).")
@formats.flag(formats.Output.JSON)
@click.pass_obj
def command(context: settings.Context, /, name: str, **given: Any) -> int:
    """Run a job under each scheduler in turn on one real control plane, and compare job and Pod times.

    The default takes two hours, --repeats 1 --pods 60 some minutes. Exit code 1 if a Pod failed or was bound twice, or
    a run of --applications has no result; a missed target is only reported.
    """
    given["control_plane"] = given["control_plane"] or plans.ControlPlane.REAL.value
    if given["control_plane"] != plans.ControlPlane.REAL.value:
        raise errors.SettingsError("--control-plane: got embedded, expected real: kube-scheduler needs it")
    request = options.request(name, given)
    if given["applications"]:
        return _applications(context, request, given)
    for flag, value in (
        ("--quick", given["quick"] or None),
        ("--load", given["load"]),
        ("--delay-ms", given["delay_ms"]),
    ):
        if value is not None:
            raise errors.SettingsError(f"{flag}: is for --applications, which is not given")
    given["repeats"] = given["repeats"] or DEFAULT_REPEATS
    cores = plans.offered_cores(request)
    wanted = [contenders.parse(each, cores=cores) for each in given["chosen"] or contenders.defaults(cores=cores)]
    millicores = max((each.request_millicores or 0 for each in wanted), default=0)
    chosen = _chosen(given, request, millicores=millicores)
    asked = given["servers_cpu"]
    given["servers_millicores"] = None if asked is None else servers.millicores(asked, cores=cores)
    prints_json = given["output"] is formats.Output.JSON
    out: pathlib.Path = given["out"] or pathlib.Path("var") / name
    report_folder.check(out)
    with contextlib.redirect_stdout(sys.stderr) if prints_json else contextlib.nullcontext():
        found = asyncio.run(_compare(context, request, wanted, chosen, given))
    report_folder.deliver(
        out, "compare", found, page=compare_page.page, text=compare_page.text, as_json=prints_json, err=prints_json
    )  # fmt: skip
    return int(any(row["failed"] or row["bound_twice"] for row in found["contenders"].values()))


# Flags of a job, by their names as parameters, and what they are without them.
_OF_JOB = {
    "workload": jobs.Workload.PI.value, "pods": None, "seconds": None, "with_servers": False, "servers_cpu": None,
}  # fmt: skip


def _applications(context: settings.Context, request: plans.Options, given: Mapping[str, Any]) -> int:
    """Compare the service times of applications. Raises `SettingsError`."""
    # Imported here: a comparison of jobs needs none of it.
    from carico_cli.jobs import compare_applications

    for name, default in _OF_JOB.items():
        if given[name] != default:
            flag = name.removeprefix("with_").replace("_", "-")
            raise errors.SettingsError(f"--{flag}: is for a job, not for --applications")
    return compare_applications.compare(context, request, compare_applications.asked(given), given)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Chosen:
    """What is compared. load None: sized for the cluster later. pod_s: work of a Pod; None: unknown."""

    workload: str
    load: loads.Load | None
    pod_s: float | None
    total_s: float


def _chosen(given: Mapping[str, Any], request: plans.Options, *, millicores: int) -> _Chosen:
    """Return what the flags name. Raises `SettingsError` for what cannot run, before anything starts.

    `millicores`: the largest CPU request of a contender.
    """
    named, seconds, pods = str(given["workload"]), given["seconds"], given["pods"]
    if named in _PROGRAMS:
        # Checked now; without --pods the cluster decides how many there are.
        job = jobs.Job(name=JOB_NAME, workload=jobs.Workload(named), pods=1 if pods is None else pods, seconds=seconds)
        load = None if pods is None else loads.Program(job=job)
        return _Chosen(workload=named, load=load, pod_s=job.mean_alone_s, total_s=job.total_work_s)
    if pods is not None:
        raise errors.SettingsError("--pods: a file of manifests has its own number of Pods; change it there")
    if seconds is not None:
        jobs.check_seconds(seconds)
    file = pathlib.Path(named)
    if not file.exists():
        raise errors.SettingsError(f"--workload: got {named!r}, expected {', '.join(_PROGRAMS)} or a file of manifests")
    plan = plans.make_plan(request, machine.read_machine())
    are_emulated = plan.node_kind is not plans.NodeKind.KUBELET
    cores, memory_bytes = plans.offered_cores(plan), plans.NODE_MEMORY_BYTES if are_emulated else plan.memory_bytes
    nodes = [
        loads.node(each, cores=cores, memory_bytes=memory_bytes, is_emulated=are_emulated) for each in plan.node_names
    ]
    documents = manifest_files.read(file, "--workload")
    found = loads.read(documents, file=named, nodes=nodes, millicores=millicores, are_emulated=are_emulated)
    each_s = loads.SECONDS if seconds is None else float(seconds)
    return _Chosen(workload=file.name, load=found, pod_s=None, total_s=each_s * found.pods)


def _sized(chosen: _Chosen, given: Mapping[str, Any], plan: plans.Plan) -> _Chosen:
    """Return the same with a load: as many Pods as keep the cluster busy for the default time."""
    if chosen.load is not None:
        return chosen
    workload, cores = jobs.Workload(chosen.workload), plan.nodes * plan.cores
    pods = jobs.sized(workload, seconds=given["seconds"], cores=cores, target_s=DEFAULT_TARGET_S)
    job = jobs.Job(name=JOB_NAME, workload=workload, pods=pods, seconds=given["seconds"])
    return dataclasses.replace(chosen, load=loads.Program(job=job), pod_s=job.mean_alone_s, total_s=job.total_work_s)


async def _compare(
    context: settings.Context, request: plans.Options, wanted: Sequence[contenders.Contender], chosen: _Chosen,
    given: Mapping[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """Start a cluster, compare on it, and end it."""
    binaries = starting.obtain(request, context)
    async with starting.measured(request, binaries, context, context.environ) as cluster:
        plan = cluster.state.plan
        chosen = _sized(chosen, given, plan)
        load = chosen.load
        assert load is not None
        bound_s = chosen.total_s / (plan.nodes * plan.cores) + (chosen.pod_s or chosen.total_s / load.pods)
        repeats = int(given["repeats"])
        runs = f"{len(wanted)} contenders x {repeats} runs of {load.pods} Pods"
        trials_s = bound_s * len(wanted) * repeats
        # How long the Pods of a file take is not known.
        formats.say(runs if chosen.pod_s is None else f"{runs}: about {trials_s / 60 + 1:.0f} min")
        servers_millicores: int | None = given["servers_millicores"]
        with_servers = given["with_servers"] or servers_millicores is not None
        async with open_testbed(cluster.paths, cluster.state, bound_s, servers_millicores) as testbed:
            trials, idle_ms = await _trials(testbed, wanted, load, repeats=repeats, with_servers=with_servers)
        setting = _setting(plan, chosen, bound_s, cluster.notes) | {"servers_millicores": servers_millicores}
        report = comparison.report(trials, wanted, setting=setting, idle_ms=idle_ms)
        return {**report, **report_folder.stamp(clocks.SystemClock().wall_ns())}


@contextlib.asynccontextmanager
async def open_testbed(
    paths: folders.Paths, found: state.ClusterState, bound_s: float, servers_millicores: int | None = None
) -> AsyncIterator[testbeds.Testbed]:
    """Follow the cluster's Pods while trials run on it."""
    agents = [each.process.pid for each in found.services if each.name.startswith("agent/") and each.process]
    async with connection.connect_to(addresses.of_state(paths, found)) as live:
        following = asyncio.ensure_future(live.observer.follow_pods(live.api))
        try:
            yield testbeds.Testbed(
                api=live.api, observer=live.observer, clock=live.clock, nodes=found.plan.node_names, agents=agents,
                bound_s=bound_s, servers_millicores=servers_millicores,
            )  # fmt: skip
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


async def _trials(
    testbed: testbeds.Testbed,
    wanted: Sequence[contenders.Contender],
    load: loads.Load,
    *,
    repeats: int,
    with_servers: bool,
) -> tuple[list[trial.Trial], list[servers.Latency]]:
    """Run each contender once a round; each round begins with another one, so that drift affects all alike.

    with_servers: once a round, also measure the servers' latency in ms on otherwise empty nodes.
    """
    done: list[trial.Trial] = []
    idle_ms: list[servers.Latency] = []
    for repeat in range(1, repeats + 1):
        if with_servers and (alone := await servers.idle_ms(testbed)) is not None:
            idle_ms.append(alone)
            formats.say(f"run {repeat} of {repeats}, servers alone: p99 {alone['p99']:.1f} ms")
        begin = (repeat - 1) % len(wanted)
        for contender in (*wanted[begin:], *wanted[:begin]):
            one = await trial.run(testbed, contender, load, repeat, with_servers=with_servers)
            done.append(one)
            mean = formats.number(one.pod_s["mean"])
            latency = "" if one.server_ms is None else f", servers' p99 {one.server_ms['p99']:.1f} ms"
            failed = f", {amounts.plural(one.failed, 'Pod')} failed" if one.failed else ""
            formats.say(
                f"run {repeat} of {repeats}, {one.contender}: job {one.job_s:.1f} s, Pods {mean} s{latency}{failed}"
            )
    return done, idle_ms


def _setting(plan: plans.Plan, chosen: _Chosen, bound_s: float, notes: Sequence[str]) -> dict[str, Any]:
    assert chosen.load is not None
    return {
        "workload": chosen.workload, "nodes": plan.nodes, "cores": plan.cores, "scale": plan.scale,
        "offered_cores": plans.offered_cores(plan),
        "pods": chosen.load.pods, "pod_alone_s": chosen.pod_s,
        "bound_s": None if chosen.pod_s is None else round(bound_s, 3), "estimator": plan.estimator or "default",
        "ceiling_cpu": plan.ceiling_cpu, "notes": list(notes),
        "machine": machine.read_machine().described(),
    }  # fmt: skip
