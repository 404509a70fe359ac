"""Moves a Pod of a Deployment without a replica less: the new one first, then the old one goes.

1. The new Pod is created by the ReplicaSet's template, for the target alone, with every label but `pod-template-hash`:
   Services send it requests as soon as it is ready, and the ReplicaSet, which selects by that label, does not count it.
   The scheduler places it like any Pod, so its place is taken, with all rules checked, while the old one runs.
2. Once it is ready, the old Pod gets the lowest deletion cost.
3. The new Pod gets its label. The ReplicaSet adopts it, has one Pod too many, and deletes the one with the lowest cost.

The number of replicas is the ReplicaSet's business at every moment, so an autoscaler or a user may change it meanwhile.
`surge_steps.next_action` decides by what the API shows now, and each action is one write: the next to look, this
process or a later one, continues where the last one stopped. Before step 3, undoing is to delete the new Pod.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from carico_core.domain import errors
from carico_core.runtime.kube import api_actions
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_rescheduler.context import cluster as clusters
from carico_rescheduler.context import objects
from carico_rescheduler.moves import record as records
from carico_rescheduler.moves import surge_pod, surge_steps

# How often the API is asked how far a move is.
LOOK_EVERY_S = 1.0
# A move is left as it is after so many refusals in a row.
REFUSALS_MOST = 10


class Surge:
    """Carries out moves at the API. `permit` raises `NotLeading` unless this replica leads.

    The two Pods of a move are read from the API, so that what this process has just written is seen. Their ReplicaSet
    and its other Pods are `known`, by the informers: a move that relies on them some moments too long ends by another
    replica's leaving.
    """

    def __init__(
        self, api: api_actions.BindApi, *, known: clusters.Cluster, limits: surge_steps.StepTimes, clock: clocks.Clock,
        permit: Callable[[], None],
    ) -> None:  # fmt: skip
        self._api = api
        self._known = known
        self._limits = limits
        self._clock = clock
        self._permit = permit
        self._line = logs.get("moves")
        self._is_stopping = False

    def stop(self) -> None:
        """Undo what can be undone, and begin nothing."""
        self._is_stopping = True

    async def begin(self, move: records.Record, *, namespace: str, replica_set: str) -> None:
        """Create the new Pod; the move has ended if that is refused. Raises `ApiUnavailable`: it may exist."""
        found = await self._get(f"/apis/apps/v1/namespaces/{namespace}/replicasets/{replica_set}")
        if found is None or surge_pod.template_hash(found) is None:
            detail = "its ReplicaSet is gone" if found is None else "its ReplicaSet does not select by template"
            self._advance(move, records.State.KEPT, detail)
            return
        body = surge_pod.body(found, old_uid=move.uid, source=move.source, target=move.target, why=move.why)
        move.successor = body["metadata"]["name"]
        path = f"/api/v1/namespaces/{namespace}/pods"
        try:
            await self._api.request("POST", path, body=body, permit=self._permit)
        except errors.Conflict:
            # An earlier try, whose answer was lost.
            self._line.info("the new Pod exists already", pod=move.pod, successor=move.successor)
        except errors.ApiError as error:
            self._advance(move, records.State.KEPT, f"the API refuses the new Pod: {error.message}")

    async def follow(self, move: records.Record, *, namespace: str, replica_set: str) -> None:
        """Continue a move by what the API shows until it has ended. Raises `NotLeading`."""
        refusals, watch = 0, surge_steps.Watch()
        while move.state not in records.ENDED:
            try:
                await self._step(move, watch, namespace=namespace, replica_set=replica_set)
                refusals = 0
            except errors.Conflict as error:
                _note(move, f"changed meanwhile: {error}")
            except errors.ApiUnavailable as error:
                _note(move, f"waits for the API: {error}")
            except errors.ApiError as error:
                # A right that was taken away, or a webhook, must not stop all other moves; `recover` finds the marks.
                refusals += 1
                _note(move, f"the API refuses: {error}")
                if refusals == REFUSALS_MOST:
                    move.is_marked = True
                    self._advance(move, records.State.KEPT, f"the API refuses: {error}")
            if move.state not in records.ENDED:
                await asyncio.sleep(LOOK_EVERY_S)

    async def _step(self, move: records.Record, watch: surge_steps.Watch, *, namespace: str, replica_set: str) -> None:
        """Look once and do what is next."""
        view = await self._look(move, namespace, replica_set)
        waited = watch.look(view.surge, self._clock.monotonic_s())
        # What is being undone is not begun again, whatever the API shows next.
        is_undone = self._is_stopping or move.state is records.State.UNDOING
        action, why = surge_steps.next_action(view, self._limits, waited, is_stopping=is_undone)
        match action:
            case surge_steps.Action.WAIT:
                move.detail = why
            case surge_steps.Action.MARK if view.old is not None:
                await self._patch(view.old, surge_pod.mark(view.old, move.successor))
                self._advance(move, records.State.RELEASING, why)
            case surge_steps.Action.ADOPT if view.surge is not None:
                await self._patch(view.surge, surge_pod.adopt(view.surge, self._clock.wall_ns()))
                self._advance(move, records.State.REPLACING, why)
            case surge_steps.Action.UNMARK if view.old is not None:
                self._undo(move, why)
                await self._patch(view.old, surge_pod.unmark(view.old))
            case surge_steps.Action.DELETE if view.surge is not None:
                self._undo(move, why)
                await self._delete(view.surge)
            case surge_steps.Action.MOVED:
                self._advance(move, records.State.MOVED, why)
            case _:
                # What was given up before keeps its reason.
                self._advance(move, records.State.KEPT, move.detail if move.state is records.State.UNDOING else why)

    async def unmark(self, pod: objects.KnownPod) -> None:
        """Take the mark of a move that no longer exists off a Pod."""
        await self._patch(pod, surge_pod.unmark(pod))

    async def _look(self, move: records.Record, namespace: str, replica_set: str) -> surge_steps.View:
        surge, old = [
            await self._find_pod(namespace, name) for name in (move.successor, move.pod.removeprefix(f"{namespace}/"))
        ]
        owner = self._known.replica_sets.found.get((namespace, replica_set))
        # Of another ReplicaSet, or none, the old Pod is not this move's any more.
        is_owned = old is not None and owner is not None and old.controller == f"{namespace}/{owner.uid}"
        return surge_steps.View(
            surge=surge if surge is not None and surge.replaces == move.uid else None,
            old=old if old is not None and is_owned and old.uid == move.uid else None,
            pods=[] if owner is None else self._others(f"{namespace}/{owner.uid}", move.successor),
            wanted=0 if owner is None else owner.replicas,
            has_replica_set=owner is not None,
            least_ready_s=0.0 if owner is None else owner.least_ready_s,
            target=move.target,
        )

    def _others(self, controller: str, successor: str) -> list[objects.KnownPod]:
        every = self._known.pods.found.values()
        return [
            each for each in every if each.controller == controller and each.is_active and each.pod.name != successor
        ]

    async def _find_pod(self, namespace: str, name: str) -> objects.KnownPod | None:
        found = await self._get(api_actions.pod_path(namespace, name))
        return None if found is None else objects.parse_pod(found)

    async def _get(self, path: str) -> Any:
        try:
            return await self._api.request("GET", path)
        except errors.NotFound:
            return None

    async def _patch(self, pod: objects.KnownPod, metadata: Mapping[str, Any]) -> None:
        """Merge into the metadata of this very Pod."""
        path = api_actions.pod_path(pod.pod.namespace, pod.pod.name)
        body = {"metadata": {"uid": pod.uid, "resourceVersion": pod.pod.resource_version, **metadata}}
        await self._api.request(
            "PATCH", path, body=body, content_type=api_actions.MERGE_PATCH, permit=self._permit
        )  # fmt: skip

    async def _delete(self, pod: objects.KnownPod) -> None:
        # It may have been adopted since it was read: the version is a precondition, too.
        preconditions = {"uid": pod.uid, "resourceVersion": pod.pod.resource_version}
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}
        path = api_actions.pod_path(pod.pod.namespace, pod.pod.name)
        try:
            await self._api.request("DELETE", path, body=body, permit=self._permit)
        except errors.NotFound:
            return

    def _undo(self, move: records.Record, why: str) -> None:
        # The first reason is the one that counts.
        self._advance(move, records.State.UNDOING, move.detail if move.state is records.State.UNDOING else why)

    def _advance(self, move: records.Record, state: records.State, detail: str) -> None:
        move.advance(state, detail, now_s=self._clock.monotonic_s())


def _note(move: records.Record, detail: str) -> None:
    """Note what a move waits for; one that is undone keeps its reason."""
    if move.state is not records.State.UNDOING:
        move.detail = detail
