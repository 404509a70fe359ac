"""Records a cluster and its jobs for the report: Pods from the API, capacities and decisions from the bus."""

import asyncio
import collections
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol

from carico_core.domain import decision, errors
from carico_core.runtime.kube import list_watch
from carico_core.runtime.process import clock as clocks
from carico_core.wire import messages as wire
from carico_core.wire.kubernetes import instants
from carico_local.jobs import facts, job_labels

PODS_PATH = "/api/v1/pods"
CAPACITIES_KEPT = 100_000


class Api(Protocol):
    """What is needed from the Kubernetes API."""

    def mirror(
        self, path: str, *, params: Mapping[str, str] | None = None
    ) -> AsyncIterator[list_watch.MirrorEvent]: ...


class Observer:
    """What was seen of a cluster. `pods`: by UID."""

    def __init__(self, *, clock: clocks.Clock) -> None:
        self.pods: dict[str, facts.PodFacts] = {}
        self.capacities: collections.deque[facts.AdvertisedCapacity] = collections.deque(maxlen=CAPACITIES_KEPT)
        self.placed: list[facts.Placed] = []
        self.waits: collections.Counter[str] = collections.Counter()
        self.api_away: str | None = None
        self._jobs: dict[str, str] = {}
        # The mode in each node's newest advertisement.
        self._modes: dict[str, str] = {}
        self._clock = clock
        self.changed = asyncio.Event()

    async def follow_pods(self, api: Api) -> None:
        """Keep `pods` up to date from the API until cancelled."""
        async for event in api.mirror(PODS_PATH, params={"labelSelector": job_labels.JOB_LABEL}):
            self.on_pods(event)

    def on_pods(self, event: list_watch.MirrorEvent) -> None:
        """Record one watch event of Pods; Pods without a job belong to the job ""."""
        if isinstance(event, list_watch.Away):
            self.api_away = str(event.error)
        elif isinstance(event, list_watch.Listed):
            self.api_away = None
            listed = {self._take(pod) for pod in event.objects}
            for uid in self.pods.keys() - listed:
                self.pods[uid].gone = True
        elif event.type == "DELETED":
            self.pods[self._take(event.object)].gone = True
        else:
            self._take(event.object)
        self.changed.set()

    def on_capacity(self, subject: str, payload: bytes) -> None:
        """Record one advertisement."""
        try:
            found = wire.decode_advertisement(payload, subject=subject)
        except errors.MessageError:
            return
        self._modes[found.node] = found.mode.value
        self.capacities.append(
            facts.AdvertisedCapacity(
                at_s=self._clock.wall_ns() / 1e9,
                node=found.node,
                capacity=found.capacity,
                capacity_sd=found.capacity_sd,
                pods=found.pods,
                mode=found.mode.value,
                usage=dict(found.usage),
                parts=dict(found.parts),
                cost={dim: (estimate.mean, estimate.sd) for dim, estimate in found.cost.items()},
            )
        )

    def on_decision(self, subject: str, payload: bytes) -> None:
        """Record one decision."""
        try:
            found = wire.decode_decision(payload, subject=subject)
        except errors.MessageError:
            return
        if found.outcome is not decision.Outcome.BOUND or found.node is None:
            self.waits.update(found.refused.keys())
            return
        self.placed.append(
            facts.Placed(
                uid=found.uid,
                free=found.free,
                threshold=found.threshold,
                mode=self._modes.get(found.node, "unknown"),
                waited_s=found.waited_s,
            )
        )

    def of_job(self, name: str) -> list[facts.PodFacts]:
        """Return the Pods of one job."""
        return [pod for uid, pod in self.pods.items() if self._jobs.get(uid) == name]

    def _take(self, pod: Mapping[str, Any]) -> str:
        """Record the state of a Pod; return its UID."""
        metadata, status = pod["metadata"], pod.get("status", {})
        uid = str(metadata["uid"])
        found = self.pods.get(uid)
        if found is None:
            labels = metadata.get("labels", {})
            self._jobs[uid] = labels.get(job_labels.JOB_LABEL, "")
            found = self.pods[uid] = facts.PodFacts(
                uid=uid,
                name=metadata["name"],
                workload=labels.get(job_labels.WORKLOAD_LABEL, "?"),
                created_s=self._clock.wall_ns() / 1e9,
            )
        node = pod.get("spec", {}).get("nodeName")
        if node and (not found.nodes or found.nodes[-1] != node):
            found.nodes.append(node)
        if metadata.get("deletionTimestamp") and not found.is_terminal and not found.deleted_while:
            found.deleted_while = found.phase
        found.phase = status.get("phase", "Pending")
        for container in status.get("containerStatuses", []):
            state = container.get("state", {})
            found.running = "running" in state
            if "terminated" in state:
                self._take_end(found, state["terminated"])
        if found.is_terminal and found.terminal_s is None:
            found.terminal_s = self._clock.wall_ns() / 1e9
        return uid

    def _take_end(self, found: facts.PodFacts, ended: Mapping[str, Any]) -> None:
        found.reason = ended.get("reason", "")
        try:
            message = json.loads(ended.get("message", ""))
            found.started_s, found.finished_s = message["started_ns"] / 1e9, message["finished_ns"] / 1e9
            found.outcome = message
        except (ValueError, KeyError, TypeError):
            # Not one of our workloads, or killed before it wrote its message: the node's times, in whole seconds.
            started_s, finished_s = map(instants.find_instant, (ended.get("startedAt"), ended.get("finishedAt")))
            if started_s is not None and finished_s is not None and found.phase == "Succeeded":
                found.started_s, found.finished_s = started_s, finished_s
