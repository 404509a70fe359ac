"""The life cycle of one container: started, watched, restarted by the Pod's policy, ended on request."""

import asyncio
import contextlib
import dataclasses
import signal
from collections.abc import Callable

from carico_core.numerics import backoff
from carico_core.runtime.observe import logs
from carico_local import qos
from carico_local.cgroups import group as groups
from carico_local.node import settings
from carico_local.node.containers import command as container_command
from carico_local.node.containers import config_objects, lifecycle, probes
from carico_local.node.reporting import status
from carico_local.node.runtime import client as runtime
from carico_local.node.runtime import records
from carico_local.node.spec import container as container_spec

# Between attempts to read a ConfigMap or Secret: short at first, then a kubelet's (its backOffPeriod).
CONFIG_RETRY_FIRST_S, CONFIG_RETRY_MOST_S = 0.5, 10.0
_log = logs.get("node.container")


class ContainerWorker:
    """One container; `state` is its part of the status, and `on_change` is called after each change of it.

    `report` records an Event: reason, note, and whether it is a warning.
    """

    def __init__(
        self,
        spec: container_spec.ContainerSpec,
        *,
        place: container_command.Place,
        node: container_command.NodeParts,
        on_change: Callable[[], None],
        report: Callable[[str, str, bool], None],
    ) -> None:
        self.spec = spec
        self.state = status.ContainerState()
        self._place = place
        self._node = node
        self._commands = container_command.Commands(spec, place, node)
        self._on_change = on_change
        self._report = report
        self._stop = asyncio.Event()
        self._live_id = ""
        self._failures = 0

    async def run(self) -> bool:
        """Run the container until it ends for good; return True where it succeeded."""
        ended = await self._resume()
        while not self._stop.is_set():
            if ended is None:
                if not await self._until_configured():
                    return False
                ended = await self._start()
            if not self._is_to_restart(ended):
                break
            if await self._back_off(ended):
                break
            self._set(last=ended, restarts=self.state.restarts + 1)
            ended = None
        return isinstance(self.state.state, status.Terminated) and self.state.state.exit_code == 0

    def refuse(self, why: str) -> None:
        """Show in the status why the container cannot be started as specified."""
        self._set(state=status.Waiting(reason=status.CONFIG_ERROR, message=why))

    def stop(self) -> None:
        """Send SIGTERM; the container is not started again."""
        self._stop.set()
        if self._live_id:
            self._report("Killing", f"Stopping container {self.spec.name}", False)
            self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to all of the container's processes."""
        if self._live_id:
            self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        self._node.runtime.signal(self._live_id, number, group=self._commands.group)

    async def _resume(self) -> status.Terminated | None:
        """Wait for a container that an earlier node process started; return its end, None where there was none."""
        attempt = self._node.records.last_attempt(self._place.pod.uid, self.spec.name)
        if attempt is None and self._place.was_running is None:
            return None
        if attempt is None:
            self._set(restarts=self._place.was_running)
            return self._terminate(self.state.restarts, 0, None, failure="")
        # The back-off continues across node processes.
        self._failures = attempt.number
        self._set(restarts=attempt.number, container_id=self._commands.id(attempt.number))
        began_ns = self._node.runtime.found_ns(self._commands.id(attempt.number))
        started_ns = began_ns if attempt.started is None else attempt.started["wall_ns"]
        if attempt.exited is not None:
            ended = await self._node.runtime.finish(runtime.exit_of(attempt.exited), self._commands.group)
        elif started_ns is not None:
            return await self._watch(attempt.number, started_ns)
        elif attempt.failed is None and self._node.runtime.is_inherited:
            # The node ended before its request arrived.
            return None
        else:
            # Requested, but it is unknown whether it began: end what may be left of it.
            ended = await self._node.runtime.finish(None, self._commands.group)
        failure = (attempt.failed or {}).get("message", "")
        return self._terminate(attempt.number, started_ns or 0, ended, failure=failure)

    async def _until_configured(self) -> bool:
        """Return True once its variables and files are there for the next start; False where it was stopped before."""
        waits = 0
        while True:
            try:
                await self._commands.read()
                self._commands.make_files(self.state.restarts)
                return True
            except config_objects.Unread as error:
                self.refuse(str(error))
                self._report("Failed", f"Error: {error}", True)
            except OSError as error:
                # A full disk above all.
                self._set(state=status.Waiting(reason=status.CREATE_ERROR, message=str(error)))
                self._report("Failed", f"Error: {error}", True)
            with contextlib.suppress(TimeoutError):
                wait_s = backoff.doubled_s(waits, first_s=CONFIG_RETRY_FIRST_S, most_s=CONFIG_RETRY_MOST_S)
                async with asyncio.timeout(wait_s):
                    await self._stop.wait()
                    return False
            waits += 1

    async def _start(self) -> status.Terminated:
        number = self.state.restarts
        command = self._commands.make(number, self._node.records.attempt(self._place.pod.uid, self.spec.name, number))
        self._live_id = command.id
        self._set(container_id=command.id)
        try:
            if command.group is not None:
                command.group.create()
                command.group.end_as_one()
                command.group.set_cpu_weight(shares=qos.cpu_shares(self.spec.request_cores))
                self._limit(command.group)
            started_ns = await self._node.runtime.start(command)
        except (runtime.StartFailed, OSError) as error:
            self._live_id = ""
            self._report("Failed", f"Error: {error}", True)
            ended = await self._node.runtime.finish(None, command.group)
            return self._terminate(number, 0, ended, failure=str(error))
        return await self._watch(number, started_ns, is_new=True)

    async def _watch(self, number: int, started_ns: int, *, is_new: bool = False) -> status.Terminated:
        """Wait for the end of a running process, while its probes run."""
        self._live_id = self._commands.id(number)
        self._now_runs(started_ns, is_new=is_new)
        if self._stop.is_set():
            self._signal(signal.SIGTERM)
        probing = asyncio.create_task(probes.run(self.spec, self._check, self), name=f"probes {self._live_id}")
        try:
            directory = self._node.records.attempt(self._place.pod.uid, self.spec.name, number)
            ended = await self._node.runtime.wait(self._live_id, directory=directory, group=self._commands.group)
        finally:
            probing.cancel()
            (error,) = await asyncio.gather(probing, return_exceptions=True)
            if isinstance(error, Exception):
                _log.error("probes_failed", container=self._live_id, why=repr(error))
            self._live_id = ""
        return self._terminate(number, started_ns, ended, failure="")

    def _terminate(
        self, number: int, started_ns: int, ended: runtime.Exit | None, *, failure: str
    ) -> status.Terminated:
        container_id, now_ns = self._commands.id(number), self._node.clock.wall_ns()
        if failure:
            found = lifecycle.not_started(failure, container_id=container_id, now_ns=now_ns)
        elif ended is None:
            found = status.lost(now_ns=now_ns, started_ns=started_ns)
        else:
            kept, start = self._node.records, (self._place.pod.uid, self.spec.name, number)
            text = lifecycle.message(
                kept.message(*start), kept.attempt(*start) / records.LOG,
                log_instead=self.spec.log_as_message and ended.code != 0,
            )  # fmt: skip
            found = lifecycle.of(ended, container_id=container_id, started_ns=started_ns, message=text)
        self._set(state=found, ready=False)
        return found

    def _is_to_restart(self, ended: status.Terminated) -> bool:
        policy = self._place.restart_policy
        return not self._stop.is_set() and (policy == "Always" or (policy == "OnFailure" and ended.exit_code != 0))

    async def _back_off(self, ended: status.Terminated) -> bool:
        """Wait before the next start; return True where the container was stopped meanwhile."""
        if ended.finished_ns - ended.started_ns > lifecycle.BACKOFF_RESET_S * 1e9 and ended.started_ns:
            self._failures = 0
        wait_s = lifecycle.backoff_s(self._failures)
        self._failures += 1
        if wait_s:
            pod = self._place.pod
            full = f"{pod.name}_{pod.namespace}({pod.uid})"
            note = f"back-off {wait_s:.0f}s restarting failed container={self.spec.name} pod={full}"
            self._set(state=status.Waiting(reason="CrashLoopBackOff", message=note), last=ended)
            self._report("BackOff", f"Back-off restarting failed container {self.spec.name} in pod {full}", True)
        else:
            wait_s = lifecycle.start_s(f"{self._commands.id(self.state.restarts)}", factor=self._node.chosen.latency)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._stop.wait()
                self._set(state=ended, last=self.state.last)
        return self._stop.is_set()

    def _now_runs(self, started_ns: int, *, is_new: bool) -> None:
        started = self.spec.startup is None
        self._set(
            state=status.Running(started_ns=started_ns), ready=started and self.spec.readiness is None, started=started
        )
        if is_new:
            self._report("Started", f"Started container {self.spec.name}", False)

    async def _check(self, probe: container_spec.Probe) -> str | None:
        return await self._commands.perform(self.state.restarts, probe.handler, timeout_s=probe.timeout_s)

    def started(self) -> None:
        """Record that the startup probe has passed."""
        self._set(started=True)

    def ready(self, ready: bool) -> None:
        """Record what the readiness probe found."""
        self._set(ready=ready)

    def unhealthy(self, kind: str, reason: str) -> None:
        """Report a failed probe as an Event."""
        self._report("Unhealthy", f"{kind} probe failed: {reason}", True)

    async def dead(self, kind: str, reason: str) -> None:
        """End the container; its restart policy decides whether it starts again."""
        _log.info("probe_killed_container", container=self._live_id, probe=kind, why=reason)
        note = f"Container {self.spec.name} failed {kind.lower()} probe, will be restarted"
        self._report("Killing", note, False)
        await self._end_now()

    async def _end_now(self) -> None:
        self._signal(signal.SIGTERM)
        await asyncio.sleep(self._place.pod.grace_s)
        self.kill()

    def _limit(self, group: groups.Group) -> None:
        """Set the container's own limits where its Pod has several; for a single one the Pod's limits are the same."""
        if len(self._place.pod.containers) > 1:
            limit_group(
                group, cores=self.spec.limit_cores, memory_bytes=self.spec.limit_bytes, chosen=self._node.chosen
            )

    def _set(self, **changes: object) -> None:
        self.state = dataclasses.replace(self.state, **changes)  # type: ignore[arg-type]  # names are the fields'
        self._on_change()


def limit_group(
    group: groups.Group, *, cores: float | None, memory_bytes: int | None, chosen: settings.NodeSettings
) -> None:
    """Set limits, given in emulated units, on a cgroup; never above the node's, which v1 would refuse."""
    if cores is not None:
        real = min(cores, chosen.cores) * chosen.scale
        group.set_cpu(cores=real, period_us=settings.QUOTA_PERIOD_US)
    if memory_bytes is not None:
        group.set_memory(round(memory_bytes * chosen.scale))
