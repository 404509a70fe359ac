"""The life of one container: started, watched, restarted by the Pod's policy, ended when asked."""

import asyncio
import contextlib
import dataclasses
import pathlib
import signal
from collections.abc import Callable

from carico_core.runtime import logs
from carico_local.cgroups import group as groups
from carico_local.node import container_logs, latency, podspec, probes, runtime, settings, site, status
from carico_local.node import records as files
from carico_local.workloads import main as workloads

# kubelet: the first restart is immediate, then 10 s doubling to 300 s, forgotten after 10 minutes of running.
BACKOFF_FIRST_S = 10.0
BACKOFF_MOST_S = 300.0
BACKOFF_RESET_S = 600.0
# https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/
MESSAGE_BYTES = 4096
MESSAGE_LOG_BYTES = 2048
_log = logs.get("node.container")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a container runs: its Pod, the Pod's cgroup and address, and whether its failures are retried."""

    pod: podspec.PodSpec
    group: groups.Group | None
    pod_ip: str
    restart_policy: str
    # Restarts of the container where the API has it as running: without a record of it, it is lost.
    was_running: int | None = None


class ContainerWorker:
    """One container; `state` is what the status says of it, `on_change` is called after each change of it."""

    def __init__(
        self,
        spec: podspec.ContainerSpec,
        *,
        place: Place,
        node: site.Site,
        on_change: Callable[[], None],
        tell: Callable[[str, str, bool], None],
    ) -> None:
        self.spec = spec
        self.state = status.ContainerState()
        self._place = place
        self._node = node
        self._on_change = on_change
        self._tell = tell
        self._stop = asyncio.Event()
        self._live_id = ""
        self._failures = 0

    async def run(self) -> bool:
        """True once it has ended with success for good, False where it ended otherwise or was stopped."""
        ended = await self._resume()
        while not self._stop.is_set():
            if ended is None:
                ended = await self._start()
            if not self._is_to_restart(ended):
                break
            if await self._back_off(ended):
                break
            self._set(last=ended, restarts=self.state.restarts + 1)
            ended = None
        return isinstance(self.state.state, status.Terminated) and self.state.state.exit_code == 0

    def stop(self) -> None:
        """Nothing; the container gets SIGTERM and is not started again."""
        self._stop.set()
        if self._live_id:
            self._node.runtime.signal(self._live_id, signal.SIGTERM, group=self._group())

    def kill(self) -> None:
        """Nothing; all of the container's processes get SIGKILL."""
        if self._live_id:
            self._node.runtime.signal(self._live_id, signal.SIGKILL, group=self._group())

    async def _resume(self) -> status.Terminated | None:
        """How the container ended that a node process before this one started; None where there was none."""
        attempt = self._node.records.last_attempt(self._place.pod.uid, self.spec.name)
        if attempt is None and self._place.was_running is None:
            return None
        if attempt is None:
            self._set(restarts=self._place.was_running)
            return self._terminate(self.state.restarts, 0, None, failure="")
        # A node process that starts anew does not forgive: each restart was a failure, or the Pod asks for it.
        self._failures = attempt.number
        self._set(restarts=attempt.number, container_id=self._id(attempt.number))
        if attempt.exited is not None:
            ended = await self._node.runtime.finish(runtime.exit_of(attempt.exited), self._group())
        elif attempt.started is not None:
            return await self._watch(attempt.number, attempt.started["wall_ns"])
        else:
            # Asked for, and nobody knows whether it began: what may be left of it goes.
            ended = await self._node.runtime.finish(None, self._group())
        started_ns = 0 if attempt.started is None else attempt.started["wall_ns"]
        return self._terminate(attempt.number, started_ns, ended, failure=(attempt.failed or {}).get("message", ""))

    async def _start(self) -> status.Terminated:
        number = self.state.restarts
        directory = self._node.records.begin(self._place.pod.uid, self.spec.name, number)
        command = self._command(number, directory)
        self._live_id = command.id
        self._set(container_id=command.id)
        try:
            if command.group is not None:
                command.group.create()
                self._limit(command.group)
            started_ns = await self._node.runtime.start(command)
        except (runtime.StartFailed, OSError) as error:
            self._live_id = ""
            self._tell("Failed", f"Error: {error}", True)
            ended = await self._node.runtime.finish(None, command.group)
            return self._terminate(number, 0, ended, failure=str(error))
        return await self._watch(number, started_ns)

    async def _watch(self, number: int, started_ns: int) -> status.Terminated:
        """The end of a process that runs; its probes run beside it."""
        self._live_id = self._id(number)
        self._set(state=status.Running(started_ns=started_ns), ready=self.spec.readiness is None)
        self._tell("Started", f"Started container {self.spec.name}", False)
        if self._stop.is_set():
            self._node.runtime.signal(self._live_id, signal.SIGTERM, group=self._group())
        probing = asyncio.create_task(self._probe(), name=f"probes {self._live_id}")
        try:
            directory = self._node.records.attempt(self._place.pod.uid, self.spec.name, number)
            ended = await self._node.runtime.wait(self._live_id, directory=directory, group=self._group())
        finally:
            probing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await probing
            self._live_id = ""
        return self._terminate(number, started_ns, ended, failure="")

    def _terminate(
        self, number: int, started_ns: int, ended: runtime.Exit | None, *, failure: str
    ) -> status.Terminated:
        container_id = self._id(number)
        if failure:
            found = status.Terminated(
                exit_code=128, reason="StartError", started_ns=0, finished_ns=self._node.clock.wall_ns(),
                message=f"unable to start container process: {failure}", container_id=container_id,
            )  # fmt: skip
        elif ended is None:
            found = status.lost(now_ns=self._node.clock.wall_ns(), started_ns=started_ns)
        else:
            found = status.Terminated(
                exit_code=ended.code, reason=reason_of(ended), started_ns=started_ns, finished_ns=ended.finished_ns,
                signal=ended.signal, message=self._message(number, ended), container_id=container_id,
            )  # fmt: skip
        self._set(state=found, ready=False)
        return found

    def _is_to_restart(self, ended: status.Terminated) -> bool:
        policy = self._place.restart_policy
        return not self._stop.is_set() and (policy == "Always" or (policy == "OnFailure" and ended.exit_code != 0))

    async def _back_off(self, ended: status.Terminated) -> bool:
        """True where the container was stopped while it waited for its next start."""
        if ended.finished_ns - ended.started_ns > BACKOFF_RESET_S * 1e9 and ended.started_ns:
            self._failures = 0
        wait_s = backoff_s(self._failures)
        self._failures += 1
        if wait_s:
            note = f"back-off {wait_s:.0f}s restarting failed container={self.spec.name} pod={self._place.pod.key}"
            self._set(state=status.Waiting(reason="CrashLoopBackOff", message=note), last=ended)
            self._tell("BackOff", f"Back-off restarting failed container {self.spec.name}", True)
        else:
            wait_s = latency.start_s(f"{self._id(self.state.restarts)}", factor=self._node.chosen.latency)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._stop.wait()
                self._set(state=ended, last=self.state.last)
        return self._stop.is_set()

    async def _probe(self) -> None:
        def on_ready(ready: bool) -> None:
            self._set(ready=ready)

        async def on_dead(reason: str) -> None:
            self._tell("Unhealthy", f"Liveness probe failed: {reason}", True)
            self._node.runtime.signal(self._live_id, signal.SIGTERM, group=self._group())
            await asyncio.sleep(self._place.pod.grace_s)
            self.kill()

        await probes.run(self.spec, host=self._place.pod_ip, on_ready=on_ready, on_dead=on_dead)

    def _command(self, number: int, directory: pathlib.Path) -> runtime.Command:
        base = {
            "PATH": runtime.container_path(),
            "HOME": "/",
            "HOSTNAME": self._place.pod.name,
            workloads.SCALE_VARIABLE: repr(self._node.chosen.scale),
            workloads.MESSAGE_VARIABLE: str(directory / files.MESSAGE),
            workloads.ADDRESS_VARIABLE: self._place.pod_ip,
        }
        env = podspec.environment(
            self._place.pod, self.spec, base=base, pod_ip=self._place.pod_ip, host_ip=site.HOST_IP
        )
        return runtime.Command(
            id=self._id(number),
            argv=[podspec.expand(word, env) for word in self.spec.command],
            env=env,
            cwd=self.spec.cwd,
            directory=directory,
            group=self._group(),
        )

    def _limit(self, group: groups.Group) -> None:
        """The container's own limits, where it shares its Pod: alone, the Pod's are the same."""
        if len(self._place.pod.containers) > 1:
            limit_group(
                group, cores=self.spec.limit_cores, memory_bytes=self.spec.limit_bytes, chosen=self._node.chosen
            )

    def _group(self) -> groups.Group | None:
        return None if self._place.group is None else self._place.group.child(self.spec.name)

    def _id(self, number: int) -> str:
        return f"{self._place.pod.uid}/{self.spec.name}/{number}"

    def _message(self, number: int, ended: runtime.Exit) -> str:
        """What the container left as its termination message, or the end of its log where it asks for that."""
        directory = self._node.records.attempt(self._place.pod.uid, self.spec.name, number)
        with contextlib.suppress(OSError):
            text = (directory / files.MESSAGE).read_bytes()[:MESSAGE_BYTES].decode(errors="replace")
            if text:
                return text
        if self.spec.log_as_message and ended.code != 0:
            return container_logs.tail(directory / files.LOG, limit_bytes=MESSAGE_LOG_BYTES)
        return ""

    def _set(self, **changes: object) -> None:
        self.state = dataclasses.replace(self.state, **changes)  # type: ignore[arg-type]  # names are the fields'
        self._on_change()


def limit_group(
    group: groups.Group, *, cores: float | None, memory_bytes: int | None, chosen: settings.NodeSettings
) -> None:
    """Nothing; limits of emulated figures are set on a cgroup, never above the node's: v1 refuses more."""
    if cores is not None:
        real = min(cores, chosen.cores) * chosen.scale
        group.set_cpu(cores=real, period_us=max(1000, round(chosen.quota_period_ms * 1000)))
    if memory_bytes is not None:
        group.set_memory(round(memory_bytes * chosen.scale))


def backoff_s(failures: int) -> float:
    """Seconds before the restart that follows `failures` earlier ones; 0: at once.

    >>> [backoff_s(n) for n in (0, 1, 2, 3, 50)]
    [0.0, 10.0, 20.0, 40.0, 300.0]
    """
    if failures == 0:
        return 0.0
    return float(min(BACKOFF_FIRST_S * 2.0 ** min(failures - 1, 10), BACKOFF_MOST_S))


def reason_of(ended: runtime.Exit) -> str:
    """Completed, Error or OOMKilled."""
    if ended.oom_killed:
        return "OOMKilled"
    return "Completed" if ended.code == 0 else "Error"
