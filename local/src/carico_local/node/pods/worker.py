"""The life cycle of one Pod on its node: admitted or rejected, its containers run in order, ended, cleaned up."""

import asyncio
import contextlib
import dataclasses
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from carico_local import qos
from carico_local.cgroups import group as groups
from carico_local.node.containers import command as container_command
from carico_local.node.containers import config_objects, lifecycle
from carico_local.node.containers import worker as container_worker
from carico_local.node.pods import admission
from carico_local.node.reporting import status
from carico_local.node.spec import container as container_spec
from carico_local.node.spec import pod as podspec

_TERMINAL = ("Succeeded", "Failed")
_KUBELETS = "run it on real kubelets: carico up --nodes kubelet=2"
_OURS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a Pod is to end. `report`: write its last status; `delete`: then delete its object."""

    grace_s: float
    report: bool
    delete: bool
    failed: tuple[str, str] | None = None


class PodWorker:
    """One Pod that is bound to this node.

    `rejected`: why the node rejects it, if so; `check_again` decides again by labels that were just read.
    """

    def __init__(
        self,
        pod: dict[str, Any],
        spec: podspec.PodSpec,
        *,
        node: container_command.NodeParts,
        pod_ip: str,
        rejected: admission.Rejection | None,
        check_again: Callable[[], Awaitable[admission.Rejection | None]] | None,
    ) -> None:
        self.spec = spec
        self.pod_ip = pod_ip
        self._object = pod
        self._node = node
        self._rejected = rejected
        self._check_again = check_again
        self._group: groups.Group | None = None if node.group is None else node.group.child(f"pod{spec.uid}")
        self._ending: Ending | None = None
        self._stop = asyncio.Event()
        self._start_ns = status.start_ns(pod) or node.clock.wall_ns()
        self._config = config_objects.Objects(node.api, spec.namespace)
        self._sandboxed = False
        self._ended = False
        # False until the sandbox is gone: a Pod's end is reported when a container runtime would report it.
        self._settled = False
        # True where the Pod was ended before it had finished.
        self._cut = False
        self._conditions: list[dict[str, Any]] = []
        self._mains = [self._container(item, spec.restart_policy) for item in spec.containers]
        # An init container has to succeed once, whatever the Pod's restart policy is.
        policy = "Never" if spec.restart_policy == "Never" else "OnFailure"
        self._inits = [self._container(item, policy) for item in spec.init_containers]

    def _container(self, item: container_spec.ContainerSpec, policy: str) -> container_worker.ContainerWorker:
        place = container_command.Place(
            pod=self.spec,
            group=self._group,
            pod_ip=self.pod_ip,
            restart_policy=policy,
            volumes=self._node.records.volumes(self.spec.uid),
            objects=self._config,
            was_running=status.was_running(self._object, item.name),
        )
        return container_worker.ContainerWorker(
            item, place=place, node=self._node, on_change=self._publish, report=self._report
        )

    def update(self, pod: dict[str, Any]) -> None:
        """Apply a change of the API object. A deletion ends the Pod with the deletion's grace period."""
        before, self._object = self._object, pod
        if pod["metadata"].get("deletionTimestamp"):
            grace_s = podspec.parse(pod).grace_s
            self.end(Ending(grace_s=grace_s, report=True, delete=True))
        elif self.is_active and _parts(pod) != _parts(before):
            why = "an emulated node does not apply changes to a Pod that it has. Create the Pod again"
            self._report("Failed", f"Error: {why}, or {_KUBELETS}", True)

    def end(self, request: Ending) -> None:
        """End the Pod. A second call may only shorten the grace period; the reason of the first one is kept."""
        if self._ending is not None and request.grace_s >= self._ending.grace_s and not request.delete:
            return
        before = self._ending
        self._ending = (
            request if before is None else dataclasses.replace(request, failed=before.failed or request.failed)
        )
        self._stop.set()

    @property
    def is_active(self) -> bool:
        """True while its containers run or are to run."""
        return self._rejected is None and not self._ended and self._phase() not in _TERMINAL

    async def run(self) -> None:
        """Run the Pod to its end and, where requested, delete its object."""
        if self._rejected is not None and self._rejected.by_labels and self._check_again is not None:
            self._rejected = await self._check_again()
        if self._rejected is None:
            await self._live_and_end()
        else:
            self._publish()
        await self._stop.wait()
        assert self._ending is not None
        if self._ending.report and self._cut:
            self._ended = True
            self._publish()
        if self._ending.delete:
            self._node.reporter.delete(self.spec.uid, namespace=self.spec.namespace, name=self.spec.name)

    async def _live_and_end(self) -> None:
        living = asyncio.create_task(self._live(), name=f"pod {self.spec.key}")
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({living, stopping}, return_when=asyncio.FIRST_COMPLETED)
            # A Pod that still waits to start sees the request first and has ended by now.
            if self._stop.is_set() and self._phase() not in _TERMINAL:
                self._cut = True
                await self._end_containers(living)
            await living
            await self._clean_up()
        finally:
            stopping.cancel()
            living.cancel()

    async def _live(self) -> None:
        """Run the Pod's containers until none is to run any more."""
        self._publish()
        if unsupported := (*self.spec.unsupported, *self._node.users.refusals(self.spec.every_container)):
            self._refuse(unsupported)
            await self._stop.wait()
            return
        is_new = not self._node.records.pod(self.spec.uid).exists()
        if self._group is not None:
            self._group.create()
            self._group.set_cpu_weight(shares=qos.cpu_shares(self.spec.request_cores))
            container_worker.limit_group(
                self._group, cores=self.spec.limit_cores, memory_bytes=self.spec.limit_bytes, chosen=self._node.chosen
            )
        if is_new:
            seed = f"{self._node.chosen.name}/{self.spec.uid}"
            if await self._pause(lifecycle.start_s(seed, factor=self._node.chosen.latency)):
                return
        self._sandboxed = True
        if await self._run_inits():
            await asyncio.gather(*(worker.run() for worker in self._mains))

    def _refuse(self, unsupported: Iterable[str]) -> None:
        """Show in the status and in an Event why this node cannot run the Pod, which stays until it is deleted."""
        why = f"an emulated node cannot run this Pod: {'; '.join(unsupported)}. Change the Pod, or {_KUBELETS}"
        for worker in self._workers():
            worker.refuse(why)
        self._report("Failed", f"Error: {why}", True)

    async def _run_inits(self) -> bool:
        """Return True once every init container has succeeded, in order."""
        for worker in self._inits:
            if not await worker.run():
                return False
        return not self._stop.is_set()

    async def _pause(self, seconds: float) -> bool:
        """Sleep; return True where a request to end the Pod interrupted it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stop.wait()
        return self._stop.is_set()

    async def _end_containers(self, living: "asyncio.Task[None]") -> None:
        """Send SIGTERM, and SIGKILL after the grace period."""
        assert self._ending is not None
        for worker in self._workers():
            worker.stop()
        started_s = self._node.clock.monotonic_s()
        # A second deletion may have shortened the grace period: read it each time.
        while not living.done():
            left_s = self._ending.grace_s - (self._node.clock.monotonic_s() - started_s)
            if left_s <= 0:
                for worker in self._workers():
                    worker.kill()
            await asyncio.wait({living}, timeout=min(1.0, max(left_s, 0.1)))

    async def _clean_up(self) -> None:
        """Remove the sandbox, after the time that a container runtime takes for it."""
        await self._pause(lifecycle.EXIT_S * self._node.chosen.latency)
        if self._group is not None and not self._group.try_remove():
            await asyncio.to_thread(self._group.destroy)
        self._settled = True
        if not self._cut:
            self._publish()

    def _workers(self) -> Iterable[container_worker.ContainerWorker]:
        return (*self._inits, *self._mains)

    def _phase(self) -> str:
        return status.phase(self.spec, self._state())

    def _state(self) -> status.PodState:
        return status.PodState(
            start_ns=self._start_ns,
            pod_ip=self.pod_ip,
            host_ip=self._node.chosen.address,
            containers={worker.spec.name: self._shown(worker) for worker in self._mains},
            init_containers={worker.spec.name: worker.state for worker in self._inits},
            sandboxed=self._sandboxed,
            ended=self._ended,
            rejected=None if self._rejected is None else (self._rejected.reason, self._rejected.message),
            failed=None if self._ending is None else self._ending.failed,
        )

    def _shown(self, worker: container_worker.ContainerWorker) -> status.ContainerState:
        """Return a container's state for the status: in a Pod that has ended, one that never started is lost."""
        now = worker.state
        if self._ended and not isinstance(now.state, status.Terminated):
            return dataclasses.replace(now, state=status.lost(now_ns=self._node.clock.wall_ns()), ready=False)
        if isinstance(now.state, status.Waiting) and self._inits and now.state == status.CREATING:
            return dataclasses.replace(now, state=status.INITIALIZING)
        return now

    def _publish(self) -> None:
        if self._ending is not None and not self._ending.report:
            return
        if self._rejected is None and not self._settled and self._phase() in _TERMINAL:
            return
        found = status.pod_status(
            self.spec, self._state(), previous={"conditions": self._previous()}, now_ns=self._node.clock.wall_ns()
        )
        self._conditions = [entry for entry in found["conditions"] if entry["type"] in _OURS]
        self._node.reporter.put(self.spec.uid, namespace=self.spec.namespace, name=self.spec.name, status=found)

    def _previous(self) -> list[dict[str, Any]]:
        """Return the present conditions: our own as last written, those of others as last seen."""
        seen = status.conditions(self._object)
        if not self._conditions:
            return seen
        return self._conditions + [entry for entry in seen if entry.get("type") not in _OURS]

    def _report(self, reason: str, note: str, warning: bool) -> None:
        if self._ending is not None and not self._ending.report:
            return
        self._node.events.add(self._object, reason=reason, action=reason, note=note, warning=warning)


def _parts(pod: dict[str, Any]) -> list[object]:
    """Return the fields of a Pod that may be changed while it runs, and that a kubelet acts on."""
    changeable = ("containers", "initContainers", "ephemeralContainers", "activeDeadlineSeconds")
    return [pod["spec"].get(field) for field in changeable]
