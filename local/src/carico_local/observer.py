"""Follows a cluster and its jobs while they run: Pods from the API, capacities and decisions from the bus."""

import asyncio
import collections
import dataclasses
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol

import orjson

from carico_core.domain import decision, errors, messages
from carico_core.runtime.bus import port as buses
from carico_core.runtime.kube import list_watch
from carico_core.runtime.process import clock as clocks
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_local import job as jobs
from carico_local.report import facts

PODS_PATH = "/api/v1/pods"
SCHEDULER_ASKED_EVERY_S = 1.0
CAPACITIES_KEPT = 100_000
LAST_DECISIONS = 5


class Api(Protocol):
    """What is needed of the Kubernetes API."""

    def mirror(
        self, path: str, *, params: Mapping[str, str] | None = None
    ) -> AsyncIterator[list_watch.MirrorEvent]: ...


class Bus(Protocol):
    """What is needed of the bus."""

    async def subscribe(self, subject: str, handler: buses.Handler) -> object: ...

    async def request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes: ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """The newest advertisement of a node, and when it came (monotonic)."""

    advertisement: messages.Advertisement
    at_s: float


class Observer:
    """What is seen of a cluster. `pods` holds those of jobs, by UID."""

    def __init__(self, *, clock: clocks.Clock) -> None:
        self.pods: dict[str, facts.PodFacts] = {}
        self.newest: dict[str, Heard] = {}
        self.capacities: collections.deque[facts.Capacity] = collections.deque(maxlen=CAPACITIES_KEPT)
        self.placed: list[facts.Placed] = []
        self.waits: collections.Counter[str] = collections.Counter()
        self.decisions: collections.deque[decision.Decision] = collections.deque(maxlen=LAST_DECISIONS)
        # Why the last Pod that fitted nowhere had to wait.
        self.waiting_why = ""
        # node -> what the scheduler says of it: freshness, free, reserved.
        self.scheduler: dict[str, Mapping[str, Any]] = {}
        self.api_away: str | None = None
        self._jobs: dict[str, str] = {}
        self._clock = clock
        self.changed = asyncio.Event()

    async def listen(self, bus: Bus) -> None:
        """Subscribes to capacities and decisions."""
        await bus.subscribe(subjects.CAPACITY_ALL, self.on_capacity)
        await bus.subscribe(subjects.DECISION_ALL, self.on_decision)

    async def follow_pods(self, api: Api, *, of_jobs: bool = True) -> None:
        """Never returns; keeps `pods`. Without `of_jobs` those of no job too: they are of the job named ""."""
        async for event in api.mirror(PODS_PATH, params={"labelSelector": jobs.JOB_LABEL} if of_jobs else None):
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

    async def ask_scheduler(self, bus: Bus) -> None:
        """Never returns; keeps `scheduler`."""
        subject = subjects.query("scheduler", "capacity.list")
        while True:
            try:
                answer = orjson.loads(await bus.request(subject, b"", timeout_s=SCHEDULER_ASKED_EVERY_S))
                self.scheduler = {row["node"]: row for row in answer["nodes"]}
            except errors.BusError:
                self.scheduler = {}
            await asyncio.sleep(SCHEDULER_ASKED_EVERY_S)

    def on_capacity(self, subject: str, payload: bytes) -> None:
        """Takes in one advertisement."""
        try:
            found = wire.decode_advertisement(payload, subject=subject)
        except errors.MessageError:
            return
        self.newest[found.node] = Heard(advertisement=found, at_s=self._clock.monotonic_s())
        self.capacities.append(
            facts.Capacity(
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
        """Takes in one decision record."""
        try:
            found = wire.decode_decision(payload, subject=subject)
        except errors.MessageError:
            return
        if found.outcome is not decision.Outcome.BOUND or found.node is None:
            self.waits.update(found.refused.keys())
            self.waiting_why = f"{found.pod} waited: {found.message}"
            return
        self.decisions.append(found)
        heard = self.newest.get(found.node)
        self.placed.append(
            facts.Placed(
                at_s=found.ts_ns / 1e9,
                uid=found.uid,
                node=found.node,
                free=found.free,
                threshold=found.threshold,
                mode="unknown" if heard is None else heard.advertisement.mode.value,
                waited_s=found.waited_s,
            )
        )

    def of_job(self, name: str) -> list[facts.PodFacts]:
        """The Pods of one job."""
        return [pod for uid, pod in self.pods.items() if self._jobs.get(uid) == name]

    def job_names(self) -> list[str]:
        """Jobs with Pods, oldest first."""
        return list(dict.fromkeys(self._jobs.values()))

    def _take(self, pod: Mapping[str, Any]) -> str:
        """The UID of a Pod whose state was taken in."""
        metadata, status = pod["metadata"], pod.get("status", {})
        uid = str(metadata["uid"])
        found = self.pods.get(uid)
        if found is None:
            labels = metadata.get("labels", {})
            self._jobs[uid] = labels.get(jobs.JOB_LABEL, "")
            found = self.pods[uid] = facts.PodFacts(
                uid=uid,
                name=metadata["name"],
                workload=labels.get(jobs.WORKLOAD_LABEL, "?"),
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
            said = json.loads(ended.get("message", ""))
            found.started_s, found.finished_s = said["started_ns"] / 1e9, said["finished_ns"] / 1e9
            found.told = said
        except (ValueError, KeyError, TypeError):
            return  # not one of our workloads, or it was killed before its last word
