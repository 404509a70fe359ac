"""The scheduler's queries on the bus: JSON in, JSON out, without effect on the state.

Only the leader answers: a standby knows no decisions, and its reservations may be behind.
"""

import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import numpy as np
import orjson

from carico_core.domain import errors
from carico_core.runtime.bus import port as buses
from carico_core.runtime.bus import serving
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import tasks
from carico_core.wire import freshness
from carico_core.wire import messages as wire
from carico_scheduler.answers import fit, known, node, pod, questions, waiting


class NotLeading(errors.CaricoError):
    """A query that arrived just as another scheduler took over."""

    def __init__(self, leader: str) -> None:
        super().__init__(f"this scheduler is a standby and does not answer; {leader} leads: ask again")


# Of questions that look at all nodes or Pods, as a multiple of the time that the last one took: who asks without end
# gets a tenth of the time, and decisions the rest.
REST = 9.0
# In a page: with the longest names of nodes, namespaces and Pods, they take 2.0 MB, and NATS takes 2 MiB.
RESERVATIONS_MOST = 3000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """The endpoints of the service, over the scheduler's state."""

    known: known.Known
    clock: clocks.Clock
    # Returns who leads, if it is another scheduler; None if this one does.
    led_by: Callable[[], str | None]
    # Returns why collections of the API are not known: answers then rest on their last known state.
    away: Callable[[], Mapping[str, str]]
    # Returns for how long the API has been silent; None while it answers.
    silent_s: Callable[[], Awaitable[float | None]]
    # One for each of them, so that one kind of question does not keep another waiting.
    _fits: tasks.OneAtATime = dataclasses.field(default_factory=lambda: tasks.OneAtATime(rest=REST))
    _pods: tasks.OneAtATime = dataclasses.field(default_factory=lambda: tasks.OneAtATime(rest=REST))
    _nodes: tasks.OneAtATime = dataclasses.field(default_factory=lambda: tasks.OneAtATime(rest=REST))
    # Of all nodes, of all Pods that wait, and of all reservations.
    _lists: tasks.OneAtATime = dataclasses.field(default_factory=lambda: tasks.OneAtATime(rest=REST))

    def endpoints(self) -> dict[str, buses.Endpoint]:
        """Return the handlers by verb."""
        verbs = {
            "decision.get": self.decision_get,
            "reservations.list": self.reservations_list,
            "capacity.list": self.capacity_list,
            "pod.explain": self.pod_explain,
            "node.explain": self.node_explain,
            "capacity.fit": self.capacity_fit,
            "waiting.list": self.waiting_list,
        }
        return {verb: self._leading(handler) for verb, handler in verbs.items()}

    async def pod_explain(self, payload: bytes) -> bytes:
        """Return why the Pod of {"namespace", "pod"} is where it is, or waits, with up to "limit" nodes."""
        asked = serving.read_question(payload)

        async def answer() -> dict[str, Any]:
            return pod.answer(self.known, asked, self.clock)

        return await self._dump(await self._pods.take(answer))

    async def node_explain(self, payload: bytes) -> bytes:
        """Return why the capacity of the node of {"node"} is what it is."""
        asked = serving.read_question(payload)

        async def answer() -> dict[str, Any]:
            return node.answer(self.known, asked, self.clock.monotonic_s())

        return await self._dump(await self._nodes.take(answer))

    async def capacity_fit(self, payload: bytes) -> bytes:
        """Return how many more Pods of {"pod": object}, {"like": "namespace/name"} or {"class": name} fit, by node.

        The first of up to "limit" nodes is "node", if that is asked for; the others follow by how many fit.
        """
        asked = serving.read_question(payload)
        return await self._dump(await self._fits.take(lambda: fit.answer(self.known, asked, self.clock)))

    async def waiting_list(self, payload: bytes) -> bytes:
        """Return the Pods that wait for a node, by reason and by class; "limit" Pods of each reason are named."""
        asked = serving.read_question(payload)

        async def answer() -> dict[str, Any]:
            return waiting.answer(self.known, asked, self.clock)

        return await self._dump(await self._lists.take(answer))

    async def decision_get(self, payload: bytes) -> bytes:
        """Return the newest decision about the Pod of {"namespace", "pod"}; {"found": false} if none is remembered."""
        namespace, name = serving.pod_of(serving.read_question(payload))
        found = self.known.log.latest(namespace, name)
        if found is None:
            return orjson.dumps({"found": False, "namespace": namespace, "pod": name})
        return b'{"found":true,"decision":' + wire.encode_decision(found) + b"}"

    async def reservations_list(self, payload: bytes) -> bytes:
        """Return the placed Pods that their nodes do not account for yet, in pages by UID (`serving.page`)."""
        after = serving.after_of(serving.read_question(payload))
        return await self._lists.take(lambda: self._reserved(after))

    async def _reserved(self, after: str) -> bytes:
        now_s = self.clock.monotonic_s()
        by_uid = {each[0].uid: each for each in self.known.state.reservations.reserved()}
        uids, more = serving.page(by_uid, after, most=RESERVATIONS_MOST)
        rows = [
            {
                "node": booking.node,
                "pod": booking.key,
                "uid": booking.uid,
                "age_s": round(now_s - since_s, 3),
                "binding": self.known.state.is_binding(booking.uid),
            }
            for booking, since_s in map(by_uid.__getitem__, uids)
        ]
        return orjson.dumps({"reservations": rows, **more})

    async def capacity_list(self, payload: bytes) -> bytes:
        """Return by node what it advertises, what is reserved, and what is free by the cycle's rules.

        Also the schedulerNames whose Pods are placed. The answer is a page of nodes, by their names (`serving.page`).
        """
        after = serving.after_of(serving.read_question(payload))
        return await self._lists.take(lambda: self._capacity(after))

    async def _capacity(self, after: str) -> bytes:
        view = self.known.state.fleet.snapshot(self.clock.monotonic_s())
        present = view.present.nonzero()[0].tolist()
        slot_of = {each.name: slot for slot in present if (each := view.nodes[slot]) is not None}
        names, more = serving.page(slot_of, after)
        slots = np.array([slot_of[name] for name in names], dtype=np.intp)
        # By columns: viewers ask each few seconds, and a thousand rows one by one take twice as long.
        ages_s = view.now_s - view.sampled_s[slots]
        free = np.array([view.row(slot).typical_free() for slot in slots.tolist()])
        columns = {
            "node": names,
            "ready": view.ready[slots].tolist(),
            "schedulable": view.schedulable[slots].tolist(),
            "freshness": [freshness.classify(age_s, lease_s=self.known.lease_s).value for age_s in ages_s.tolist()],
            "age_s": questions.finite_column(ages_s),
            "capacity": questions.finite_column(view.capacity[slots]),
            "free": questions.finite_column(free),
            "reserved": view.reserved[slots].tolist(),
            "pods": view.pods[slots].tolist(),
            "placed": view.placed[slots].tolist(),
            "limit": questions.finite_column(view.limit[slots]),
            "seq": view.seq[slots].tolist(),
        }
        nodes = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        return orjson.dumps({"nodes": nodes, "names": self.known.names, "ts": self.clock.wall_ns(), **more})

    def _leading(self, handler: buses.Endpoint) -> buses.Endpoint:
        """Return the handler, which raises `NotLeading` while another scheduler leads."""

        async def answer(payload: bytes) -> bytes:
            leader = self.led_by()
            if leader is not None:
                raise NotLeading(leader)
            return await handler(payload)

        return answer

    async def _dump(self, answer: dict[str, Any]) -> bytes:
        silent_s = await self.silent_s()
        # `ts`: the asker's clock may differ.
        return orjson.dumps({**answer, "away": dict(self.away()), "api_silent_s": silent_s, "ts": self.clock.wall_ns()})
