"""Moves the Pod of a Deployment with one replica by the nodeSelector of its template, as the paper does.

The Deployment rolls out its change, and its Pod stays pinned to the node afterwards: if the node is lost, the Pod
waits. An annotation on the Deployment names the node and the selector before, so that a rollout that does not succeed
can be undone, by a later process as well.
"""

import asyncio
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from carico_core.domain import errors
from carico_core.runtime.kube import api_actions
from carico_core.runtime.process import clock as clocks
from carico_rescheduler.context import movable, objects
from carico_rescheduler.moves import record as records

LOOK_EVERY_S = 1.0

Object = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """Changes Deployments. `within_s`: how long a rollout may take; `is_undone`: whether it is undone before."""

    api: api_actions.BindApi
    clock: clocks.Clock
    permit: Callable[[], None]
    within_s: float
    is_undone: Callable[[], bool]

    async def run(self, move: records.Record, *, namespace: str, deployment: str, host: str) -> None:
        """Pin a Deployment to the node with that label `kubernetes.io/hostname`, and wait. Raises `NotLeading`."""
        path = _path(namespace, deployment)
        try:
            found = await self.api.request("GET", path)
            before = _selector(found).get(movable.HOSTNAME)
            mark = orjson.dumps({"node": move.target, "before": before}).decode()
            await self._patch(path, found, selected=host, mark=mark)
        except (errors.ApiError, errors.ApiUnavailable) as error:
            # Without an answer it may be pinned nevertheless: the mark is found by `recover`.
            move.is_marked = isinstance(error, errors.ApiUnavailable)
            self._end(move, records.State.KEPT, f"not pinned: {error}")
            return
        move.advance(records.State.REPLACING, "the Deployment rolls out", now_s=self.clock.monotonic_s())
        await self.follow(move, namespace=namespace, deployment=deployment)

    async def follow(self, move: records.Record, *, namespace: str, deployment: str) -> None:
        """Wait until the rollout has succeeded, or undo it after its time. Raises `NotLeading`."""
        while move.state not in records.ENDED:
            try:
                await self._step(move, _path(namespace, deployment))
            except (errors.Conflict, errors.ApiUnavailable) as error:
                move.detail = f"waits for the API: {error}"
            except errors.ApiError as error:
                # The mark stays, for `recover` once the right or the webhook that refuses has changed.
                move.is_marked = True
                self._end(move, records.State.KEPT, f"the API refuses: {error}")
            if move.state not in records.ENDED:
                await asyncio.sleep(LOOK_EVERY_S)

    async def _step(self, move: records.Record, path: str) -> None:
        try:
            found = await self.api.request("GET", path)
        except errors.NotFound:
            self._end(move, records.State.KEPT, "the Deployment is gone")
            return
        deployment = objects.parse_deployment(found)
        mark, unsettled = parse_mark(deployment.pinned), deployment.unsettled
        if mark is None:
            self._end(move, records.State.MOVED, "the Deployment is pinned")
            return
        if not unsettled:
            await self._patch(path, found, selected=_selector(found).get(movable.HOSTNAME), mark=None)
            self._end(move, records.State.MOVED, "the Deployment is pinned")
        elif self.is_undone() or self.clock.monotonic_s() - move.began_s > self.within_s:
            await self._patch(path, found, selected=mark["before"], mark=None)
            after = "" if self.is_undone() else f" after {self.within_s:.0f} s"
            self._end(move, records.State.KEPT, f"undone: {unsettled}{after}")
        else:
            move.detail = unsettled

    async def _patch(self, path: str, found: Object, *, selected: str | None, mark: str | None) -> None:
        body = {
            "metadata": {
                "resourceVersion": found["metadata"]["resourceVersion"], "annotations": {objects.PINNED: mark},
            },
            "spec": {"template": {"spec": {"nodeSelector": {movable.HOSTNAME: selected}}}},
        }  # fmt: skip
        await self.api.request("PATCH", path, body=body, content_type=api_actions.MERGE_PATCH, permit=self.permit)

    def _end(self, move: records.Record, state: records.State, detail: str) -> None:
        move.advance(state, detail, now_s=self.clock.monotonic_s())


def parse_mark(text: str) -> dict[str, Any] | None:
    """Return what a Deployment's mark states; None without a mark that can be read."""
    try:
        found = orjson.loads(text)
        return {"node": str(found["node"]), "before": found.get("before")}
    except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError, ValueError):
        return None


def _selector(found: Object) -> Mapping[str, str]:
    selector: Mapping[str, str] = found["spec"]["template"]["spec"].get("nodeSelector") or {}
    return selector


def _path(namespace: str, deployment: str) -> str:
    return f"/apis/apps/v1/namespaces/{namespace}/deployments/{deployment}"
