"""Gets a Pod's unbound claims bound for the chosen node before the Pod is bound.

As in kube-scheduler: an existing volume is kept for the claim, a new one is requested with the annotation
selected-node, and the controllers do the rest. Meanwhile the Pod keeps its reservation.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Iterator

from carico_core.domain import cluster, constraints, errors
from carico_core.domain import storage as objects
from carico_core.runtime.kube import api_actions
from carico_core.wire.kubernetes import storage as kubernetes_storage
from carico_scheduler.nodes import fleet as fleets
from carico_scheduler.nodes import snapshot, storage, volume_placement

# kube-scheduler's bindTimeoutSeconds: https://kubernetes.io/docs/reference/config-api/kube-scheduler-config.v1/
TIMEOUT_S = 600.0
# A change of a claim or volume is noticed at once, the end of the Pod or of the term within this time.
CHECK_EVERY_S = 5.0


class NotBound(errors.CaricoError):
    """A Pod's claims could not be bound for the chosen node: the Pod is decided on again."""


class VolumeBinding:
    """Binds claims through the API; `fleet` mirrors them, and `notify` is called when the mirror has changed.

    A thousand Pods may wait for their claims at the same time: a change of one claim does not wake the others.
    """

    def __init__(self, api: api_actions.Api, fleet: fleets.Fleet) -> None:
        self._api = api
        self._fleet = fleet
        self._known = fleet.storage
        # What wakes the Pods that wait for a claim.
        self._waiting: dict[storage.Key, set[asyncio.Event]] = {}

    def notify(self, claim: storage.Key | None = None) -> None:
        """Note that a claim or its volume has changed; None: any of them may have."""
        for key in list(self._waiting) if claim is None else (claim,):
            for each in self._waiting.get(key, ()):
                each.set()

    def preparation(
        self, pod: cluster.Pod, row: snapshot.NodeRow, *, may_write: Callable[[], bool]
    ) -> Callable[[], Awaitable[None]] | None:
        """Return what must complete before the Pod is bound to the node of `row`; None if nothing must.

        From now on the volumes of the plan are kept for the Pod. `may_write` is asked before each write.
        """
        if pod.constraints is None or self._known.are_bound(pod.constraints.volume_claims):
            return None
        plan = volume_placement.plan(self._fleet.snapshot(0.0), pod.constraints.volume_claims, row.slot)
        if plan is not None:
            self._known.promise(plan, row.node.name)
        return lambda: self.bind(pod, row.node.name, plan, may_write=may_write)

    async def bind(
        self, pod: cluster.Pod, node: str, plan: storage.Plan | None, *, may_write: Callable[[], bool]
    ) -> None:
        """Bind every claim of the Pod by this plan. Raises `NotBound`."""
        if plan is None:
            raise NotBound(f"the claims can no longer be bound on {node}")
        uses = (pod.constraints or constraints.NONE).volume_claims
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await self._ask(plan, node, may_write)
                with self._woken_by(uses) as changed:
                    await self._until_bound(uses, plan, node, may_write, changed)
            self._check_reachable(uses, node)
        except TimeoutError as error:
            raise NotBound(f"claims not bound within {TIMEOUT_S:g} s") from error
        except (errors.ApiError, errors.ApiUnavailable) as error:
            raise NotBound(str(error)) from error
        finally:
            self._known.release(plan)

    async def _ask(self, plan: storage.Plan, node: str, may_write: Callable[[], bool]) -> None:
        for volume, claim in plan.keep:
            if volume.claim is None or volume.claim.uid != claim.uid:
                path, body = f"/api/v1/persistentvolumes/{volume.name}", kubernetes_storage.prebind_body(volume, claim)
                await self._patch(path, body, may_write)
        for claim in plan.make:
            if claim.selected_node != node:
                path = f"/api/v1/namespaces/{claim.namespace}/persistentvolumeclaims/{claim.name}"
                body = kubernetes_storage.selected_node_body(node=node, resource_version=claim.resource_version)
                await self._patch(path, body, may_write)

    async def _patch(self, path: str, body: dict[str, object], may_write: Callable[[], bool]) -> None:
        if not may_write():
            raise NotBound("not requested: the Pod is gone or bound, or another scheduler may lead by now")
        await self._api.request("PATCH", path, body=body, content_type=api_actions.MERGE_PATCH)

    async def _until_bound(
        self, uses: tuple[constraints.VolumeClaimUse, ...], plan: storage.Plan, node: str,
        may_write: Callable[[], bool], changed: asyncio.Event,
    ) -> None:  # fmt: skip
        asked = {claim.uid for claim in plan.make if claim.selected_node == node}
        # The watch of volumes may lag behind that of claims.
        while not self._known.are_bound(uses) or len(self._known.bound_volumes(uses)) < len(uses):
            for claim in plan.make:
                if self._is_asked(claim, node):
                    asked.add(claim.uid)
                elif claim.uid in asked:
                    # By removing the annotation a provisioner reports that it cannot create the volume there.
                    raise NotBound(f"the volume of PersistentVolumeClaim {claim.name} cannot be created on {node}")
            lost = self._known.never_bound(uses)
            if lost is not None:
                raise NotBound(lost)
            if not may_write():
                raise NotBound("no longer needed: the Pod is gone or bound, or another scheduler may lead by now")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CHECK_EVERY_S):
                    await changed.wait()
            changed.clear()

    @contextlib.contextmanager
    def _woken_by(self, uses: Iterable[constraints.VolumeClaimUse]) -> Iterator[asyncio.Event]:
        """Yield an event that is set whenever one of these claims or its volume has changed."""
        changed, keys = asyncio.Event(), {(use.namespace, use.name) for use in uses}
        for key in keys:
            self._waiting.setdefault(key, set()).add(changed)
        try:
            yield changed
        finally:
            for key in keys:
                self._waiting[key].discard(changed)
                if not self._waiting[key]:
                    del self._waiting[key]

    def _check_reachable(self, uses: tuple[constraints.VolumeClaimUse, ...], node: str) -> None:
        """Raise `NotBound` if a volume cannot be used from the node: a claim may have got another one than planned.

        Its controller chose first, its provisioner does not follow the node, or a user created the claim again.
        """
        slot = self._fleet.slot_of(node)
        if slot is None:
            raise NotBound(f"{node} is gone")
        if not volume_placement.reachable(self._fleet.snapshot(0.0), uses)[slot]:
            raise NotBound(f"the claims are bound to volumes that cannot be used on {node}")

    def _is_asked(self, claim: objects.VolumeClaim, node: str) -> bool:
        now = self._known.volume_claims.find(claim.name, claim.namespace)
        return now is not None and now.uid == claim.uid and now.selected_node == node
