"""The parent of all processes of a cluster: starts, watches, restarts and stops them."""

import asyncio
import contextlib
import shutil
from collections.abc import Mapping

from carico_core.domain import errors
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import tasks
from carico_local.cgroups import sweep
from carico_local.cluster import account, events, folders, free_ports, leftovers, machine, processes, state
from carico_local.cluster import plan as plans
from carico_local.cluster.services import kubelet_nodes, readiness, ready_nodes, topology
from carico_local.cluster.services import service as parts
from carico_local.node.runtime import records

# Longest time in which nothing more becomes ready; on a slow machine the whole start may take longer.
START_TIMEOUT_S = 60.0
# Thousands of nodes mean thousands of writes to the API, on a busy machine.
START_TIMEOUT_PER_NODE_S = 0.05
# A node ends its Pods first; their grace period in a local cluster is short.
STOP_GRACE_S = 10.0
LOGS_LOOKED_AT_EVERY_S = 5.0


class ClusterNotReady(errors.CaricoError):
    """The cluster did not become ready."""

    def __init__(self, why: str, crash: state.Crash | None = None) -> None:
        self.crash = crash
        super().__init__(why)


class Supervisor:
    """One run of a cluster. `restart`: restart crashed services, as Kubernetes would."""

    def __init__(
        self, plan: plans.Plan, paths: folders.Paths, environ: Mapping[str, str], *,
        clock: clocks.Clock, report: events.Report, restart: bool,
    ) -> None:  # fmt: skip
        self._plan = plan
        self._paths = paths
        self._clock = clock
        self._restart = restart
        self._log = logs.get("supervisor", cluster=plan.name)
        self._where = topology.addresses(plan, free_ports.choose(plan.name, topology.ports_needed(plan)))
        # `down` finds every process of this cluster and its children by this variable.
        self._environ = {**parts.stripped(environ), sweep.RUN_VARIABLE: str(paths.root), "PYTHONUNBUFFERED": "1"}
        self._account = account.Account(plan, paths, self._where, clock=clock, report=report)
        # Services that were ended in order to be started with a new command.
        self._outdated: set[str] = set()
        self._first_notes = (*plan.warnings, *parts.notes(environ))
        self._disk_recovered = asyncio.Event()
        # True where an earlier run was not stopped by `down`.
        self._has_leftovers = False
        self._start_within_s = START_TIMEOUT_S + START_TIMEOUT_PER_NODE_S * plan.nodes
        self._start: asyncio.Timeout | None = None

    async def run(self, stop: tasks.Stop) -> bool:
        """Run the cluster until `stop`; return True where it became ready and was stopped in order.

        Every process has ended when this returns.
        """
        self._has_leftovers = leftovers.are_possible(self._paths)
        for text in self._first_notes:
            self._account.note(text)
        for directory in (self._paths.data / "nodes", self._paths.run, self._paths.logs):
            directory.mkdir(parents=True, exist_ok=True)
        topology.write_configuration(self._plan, self._where, self._paths, self._environ)
        self._account.write()
        stopping = asyncio.ensure_future(stop.wait())
        running = asyncio.ensure_future(self._up_and_watch())
        try:
            await asyncio.wait([stopping, running], return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                self._report_end(running)
        finally:
            for task in (stopping, running):
                task.cancel()
            await asyncio.gather(stopping, running, return_exceptions=True)
            await self._end_all()
        return self._account.failure is None

    async def _up_and_watch(self) -> None:
        async with asyncio.TaskGroup() as group:
            wanted = topology.services(self._plan, self._where, self._paths, self._environ)
            up = {service.name: asyncio.Event() for service in wanted}
            for service in wanted:
                group.create_task(self._keep(service, up), name=service.name)
            group.create_task(self._bound_logs(), name="logs")
            group.create_task(self._renew_bus(), name="bus")
            try:
                async with asyncio.timeout(self._start_within_s) as self._start:
                    await up[topology.API].wait()
                    await self._take_over()
                    await asyncio.gather(*(event.wait() for event in up.values()))
                    await ready_nodes.until_advertised(
                        self._plan.node_names, nats_url=self._where.nats_url, kubeconfig=self._paths.kubeconfig,
                        clock=self._clock,
                    )  # fmt: skip
            except TimeoutError:
                why = f"nothing more became ready for {self._start_within_s:.0f} s: {await self._missing(wanted)}"
                raise ClusterNotReady(why) from None
            self._account.up()

    async def _keep(self, service: parts.Service, up: Mapping[str, asyncio.Event]) -> None:
        """Start the service, and restart it after each crash, until cancelled."""
        loop = processes.CrashLoop()
        if service.after is not None:
            await up[service.after].wait()
        while True:
            # Built each time: an agent's command depends on what its node reports.
            current = self._fresh(service.name)
            readiness.forget(current.probe)
            began_s = self._clock.monotonic_s()
            child = await processes.start(current.command)
            self._account.started(service.name, child)
            waiting = asyncio.ensure_future(readiness.wait(current.probe))
            ended = asyncio.ensure_future(child.process.wait())
            try:
                await asyncio.wait([waiting, ended], return_when=asyncio.FIRST_COMPLETED)
                if not ended.done():
                    self._note_ready(service.name, up[service.name])
                await ended
            finally:
                waiting.cancel()
                ended.cancel()
            if service.name in self._outdated:
                self._outdated.discard(service.name)
                self._account.ended(service.name)
                continue
            self._note_crash(service.name, child, first=not up[service.name].is_set())
            await self._pause(loop.pause_s(ran_s=self._clock.monotonic_s() - began_s))
            self._account.restarted(service.name)

    async def _pause(self, seconds: float) -> None:
        """Sleep, but not beyond the moment when a full disk has room again: it may have been the cause of the crash."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._disk_recovered.wait()

    def _fresh(self, name: str) -> parts.Service:
        found = topology.services(self._plan, self._where, self._paths, self._environ)
        return next(service for service in found if service.name == name)

    def _note_ready(self, name: str, up: asyncio.Event) -> None:
        if not up.is_set() and self._start is not None and not self._start.expired():
            self._start.reschedule(asyncio.get_running_loop().time() + self._start_within_s)
        up.set()
        if name.startswith("node/"):
            ready = topology.read_ready(self._paths, name.removeprefix("node/"))
            if ready.get("fallback"):
                self._account.note(f"nodes run without cgroups ({ready.get('reason')}): fallback {ready['fallback']}")
            self._renew(f"agent/{name.removeprefix('node/')}")
        self._account.ready(name)

    def _renew(self, name: str) -> None:
        """Restart a service whose command has changed.

        Without cgroups, an agent measures the node's process by its id, which changes after a crash.
        """
        child = self._account.children.get(name)
        if child is not None and child.command.argv != self._fresh(name).command.argv:
            self._end_outdated(name)

    def _end_outdated(self, name: str) -> None:
        child = self._account.children.get(name)
        if child is not None and child.process.returncode is None:
            self._outdated.add(name)
            child.process.terminate()

    def _note_crash(self, name: str, child: processes.Child, *, first: bool) -> None:
        """Record a service that ended unexpectedly. Raises `ClusterNotReady` where it is not to be restarted."""
        crash = self._account.crashed(name, child)
        if first or not self._restart:
            raise ClusterNotReady(f"{name} ended unexpectedly ({crash.how})", crash)

    async def _take_over(self) -> None:
        """Report what an earlier run left, and remove what this one does not continue with."""
        if not self._has_leftovers:
            return
        while True:
            with contextlib.suppress(errors.ApiUnavailable):
                found = await leftovers.take_over(
                    self._paths.kubeconfig, self._plan.node_names, clock=self._clock,
                    are_played=self._plan.node_kind is plans.NodeKind.KWOK,
                )  # fmt: skip
                break
            await asyncio.sleep(readiness.LAST_PAUSE_S)
        for node in found.removed_nodes:
            records.remove_pod_files(self._paths.data / "nodes" / node)
            await asyncio.to_thread(shutil.rmtree, self._paths.data / "nodes" / node, ignore_errors=True)
        if text := found.text(self._plan.name):
            self._account.note(text)

    async def _missing(self, wanted: list[parts.Service]) -> str:
        late = [service for service in wanted if not self._account.is_ready(service.name)]
        if not late:
            return "some nodes are not Ready or have not advertised a capacity"
        reasons = [(service.name, await service.probe.why_not()) for service in late]
        return "; ".join(f"{name}: {why or 'late'}" for name, why in reasons)

    async def _bound_logs(self) -> None:
        while True:
            await asyncio.sleep(LOGS_LOOKED_AT_EVERY_S)
            for log in self._paths.logs.glob("*.log"):
                processes.bound_log(log)

    async def _renew_bus(self) -> None:
        """Restart NATS after a full disk: a stream whose write failed stores no more messages until then."""
        while True:
            await machine.until_disk_recovers(self._paths.data)
            # Wakes those that wait now.
            self._disk_recovered.set()
            self._disk_recovered.clear()
            self._account.note("the disk was full: NATS was restarted, because it stores no more messages after that")
            self._end_outdated(topology.NATS)

    def _report_end(self, running: "asyncio.Future[None]") -> None:
        """Report why the cluster failed."""
        error = running.exception()
        leaves = () if error is None else tasks.leaves(error)
        failed = next((leaf for leaf in leaves if isinstance(leaf, ClusterNotReady)), None)
        why = str(failed or error or "ended")
        self._log.error("cluster_failed", why=why)
        self._account.failed(why, None if failed is None else failed.crash)
        if failed is None and error is not None:
            raise error

    async def _end_all(self) -> None:
        self._account.stopping()
        children = self._account.children
        for names in topology.stop_groups(list(children)):
            await processes.stop([children[name] for name in names], grace_s=STOP_GRACE_S)
        if self._plan.node_kind is plans.NodeKind.KUBELET:
            await asyncio.to_thread(kubelet_nodes.clear, self._paths, self._environ)
        roots = [self._paths.data / "nodes" / node for node in self._plan.node_names]
        await asyncio.to_thread(sweep.sweep, self._plan.name, state_dirs=roots)
