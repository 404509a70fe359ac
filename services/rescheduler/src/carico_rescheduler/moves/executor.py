"""Carries out moves by their mode, and finishes or undoes what an earlier process has left at the API."""

import asyncio
import collections
import dataclasses
from collections.abc import Callable, Iterable

from carico_core.domain import errors
from carico_core.runtime.kube import api_actions
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_rescheduler import instruments, journal
from carico_rescheduler.context import cluster as clusters
from carico_rescheduler.context import movable, objects
from carico_rescheduler.moves import evict, pin, surge, surge_steps
from carico_rescheduler.moves import record as records
from carico_rescheduler.plan import decision

# Moves that have ended are remembered for queries.
REMEMBERED = 200


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What an executor works with. `permit` raises `NotLeading` unless this replica leads."""

    api: api_actions.BindApi
    known: clusters.Cluster
    clock: clocks.Clock
    metrics: instruments.Instruments
    permit: Callable[[], None]
    mode: movable.Mode
    limits: surge_steps.StepTimes
    journal: journal.Journal


class Executor:
    """Makes one move at a time: while it runs, the cluster carries one Pod more at most."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._surge = surge.Surge(
            parts.api, known=parts.known, limits=parts.limits, clock=parts.clock, permit=parts.permit
        )  # fmt: skip
        within_s = parts.limits.start_s
        self._evict = evict.Evict(
            api=parts.api, known=parts.known, clock=parts.clock, permit=parts.permit, within_s=within_s
        )
        self._pin = pin.Pin(
            api=parts.api, clock=parts.clock, permit=parts.permit, within_s=within_s, is_undone=self._undoes_pins
        )
        self._line = logs.get("moves")
        self._is_stopping = False
        # Pins of an earlier process that the API refuses to change, in words; empty if there are none.
        self.stuck_pins = ""
        self.current: records.Record | None = None
        # Whether the last move was cut off: a write of it may still take effect.
        self.is_cut_off = False
        # Set while no move is under way.
        self.idle = asyncio.Event()
        self.idle.set()
        self.ended: collections.deque[records.Record] = collections.deque(maxlen=REMEMBERED)

    def stop(self) -> None:
        """Undo the move under way if it can be undone."""
        self._is_stopping = True
        self._surge.stop()

    def _undoes_pins(self) -> bool:
        """Return whether a rollout under way is undone: also where Deployments are not pinned any more."""
        return self._is_stopping or self._parts.mode is not movable.Mode.NODE_SELECTOR

    async def run(self, move: decision.Move) -> records.Record:
        """Make a move, and return what became of it. Raises `NotLeading`, `ApiUnavailable`."""
        pod, parts = move.pod, self._parts
        made = records.Record(
            pod=pod.pod.key, uid=pod.uid, source=move.source, target=move.target, mode=parts.mode, why=move.why,
            gain=move.gain, began_s=parts.clock.monotonic_s(), began_at_ns=parts.clock.wall_ns(),
            owner=pod.controller,
        )  # fmt: skip
        replica_set = parts.known.replica_set_of(pod)
        node = parts.known.nodes.found.get(("", move.target))
        deployment = None if replica_set is None else parts.known.deployment_of(replica_set)
        pinned = deployment if parts.mode is movable.Mode.NODE_SELECTOR else None
        noted = made.uid if pinned is None else pinned.uid
        await parts.journal.begin(noted)
        self._begin(made)
        try:
            if parts.mode is movable.Mode.EVICT:
                await self._evict.run(made, pod)
            elif replica_set is None or deployment is None or node is None:
                gone = "its Deployment, its ReplicaSet or its node is gone"
                made.advance(records.State.KEPT, gone, now_s=parts.clock.monotonic_s())
            elif parts.mode is movable.Mode.SURGE:
                where = {"namespace": replica_set.namespace, "replica_set": replica_set.name}
                await self._surge.begin(made, **where)
                await self._surge.follow(made, **where)
            else:
                host = node.labels.get(movable.HOSTNAME, node.name)
                await self._pin.run(made, namespace=replica_set.namespace, deployment=deployment.name, host=host)
        finally:
            self._end(made)
        await parts.journal.end(noted, made, is_elsewhere=made.target != move.target)
        return made

    async def recover(self) -> int:
        """Finish or undo what earlier processes have left; return how many moves these were.

        Only moves that the journal names, and of each namespace one: anyone who creates Pods can write the same marks
        on any number of them, and each would hold up all others for minutes.
        """
        count = 0
        begun = await self._parts.journal.moving()
        for found in _one_of_each_namespace(each for each in self._left_surges() if each.replaces in begun):
            await self._resume(found)
            count += 1
        for each in _one_of_each_namespace(filter(self._is_stray, list(self._parts.known.pods.found.values()))):
            await self._clear(each)
            count += 1
        stuck = []
        for pinned in list(self._parts.known.deployments.found.values()):
            if pinned.uid in begun and pin.parse_mark(pinned.pinned) is not None:
                move = await self._resume_pin(pinned)
                count += 1
                if move.is_marked:
                    stuck.append(f"{move.pod} is half pinned to {move.target}, and {move.detail}")
        self.stuck_pins, self.is_cut_off = "; ".join(stuck), False
        return count

    def _left_surges(self) -> list[objects.KnownPod]:
        """Return new Pods of moves that have not ended."""
        known = self._parts.known.pods.found.values()
        leaving = {each.leaves_for for each in known if each.is_active and each.leaves_for}
        return [
            each
            for each in list(known)
            if each.replaces
            and not each.pod.deleting
            and (each.is_surge or (each.is_active and each.pod.name in leaving))
        ]

    def _is_stray(self, pod: objects.KnownPod) -> bool:
        """Return whether a Pod is marked for a new one that does not exist."""
        successor = self._parts.known.pods.found.get((pod.pod.namespace, pod.leaves_for))
        return bool(pod.leaves_for) and pod.is_active and (successor is None or not successor.is_active)

    async def _resume(self, found: objects.KnownPod) -> None:
        parts, owner = self._parts, found.pod.owner
        old = parts.known.pod(found.replaces)
        is_known = old is not None and old.pod.namespace == found.pod.namespace
        move = records.Record(
            pod=old.pod.key if old is not None and is_known else found.pod.key, uid=found.replaces,
            source=found.mark(objects.CAME_FROM), target=_target_of(found), mode=movable.Mode.SURGE,
            why=found.mark(objects.REASON), gain=0.0, began_s=parts.clock.monotonic_s(),
            began_at_ns=parts.clock.wall_ns(), successor=found.pod.name, owner=found.controller,
        )  # fmt: skip
        self._line.info("continuing a move of an earlier process", pod=move.pod, successor=move.successor)
        self._begin(move)
        try:
            name = "" if owner is None else owner.name
            await self._surge.follow(move, namespace=found.pod.namespace, replica_set=name)
        finally:
            self._end(move)
        await parts.journal.end(move.uid, move)
        parts.metrics.recovered.labels(move.state.value).inc()

    async def _clear(self, pod: objects.KnownPod) -> None:
        self._line.info("taking off the mark of a move that is gone", pod=pod.pod.key)
        try:
            await self._surge.unmark(pod)
        except (errors.ApiError, errors.ApiUnavailable) as error:
            self._line.warning("mark not taken off, tried again later", pod=pod.pod.key, error=str(error))
            return
        self._parts.metrics.recovered.labels("cleared").inc()

    async def _resume_pin(self, found: objects.Deployment) -> records.Record:
        mark = pin.parse_mark(found.pinned)
        move = records.Record(
            pod=f"{found.namespace}/{found.name}", uid=found.uid, source="", target=mark["node"] if mark else "",
            mode=movable.Mode.NODE_SELECTOR, why="", gain=0.0, began_s=self._parts.clock.monotonic_s(),
            began_at_ns=self._parts.clock.wall_ns(),
        )  # fmt: skip
        self._begin(move)
        try:
            await self._pin.follow(move, namespace=found.namespace, deployment=found.name)
        finally:
            self._end(move, counts=not move.is_marked)
        if move.is_marked:
            # It is tried again in each round, and must not count each time.
            return move
        await self._parts.journal.end(found.uid, move)
        self._parts.metrics.recovered.labels(move.state.value).inc()
        return move

    def _begin(self, move: records.Record) -> None:
        self.current = move
        self.idle.clear()
        self._parts.metrics.under_way.set(1)
        self._line.info("move begins", pod=move.pod, source=move.source, target=move.target, mode=move.mode.value)

    def _end(self, move: records.Record, *, counts: bool = True) -> None:
        self.current = None
        self.idle.set()
        self._parts.metrics.under_way.set(0)
        self.is_cut_off = move.state not in records.ENDED
        if self.is_cut_off or not counts:
            return
        self.ended.append(move)
        self._parts.metrics.moves.labels(move.mode.value, move.state.value).inc()
        took_s = (move.ended_s or move.began_s) - move.began_s
        self._parts.metrics.move_s.observe(took_s)
        self._line.info(
            "move ended", pod=move.pod, target=move.target, outcome=move.state.value, detail=move.detail,
            successor=move.successor, took_s=round(took_s, 3),
        )  # fmt: skip


def _one_of_each_namespace(pods: Iterable[objects.KnownPod]) -> list[objects.KnownPod]:
    return list({each.pod.namespace: each for each in pods}.values())


def _target_of(surge_pod: objects.KnownPod) -> str:
    """Return the node for which a new Pod was made: where it is, else the one that its affinity names."""
    if surge_pod.pod.node_name is not None:
        return surge_pod.pod.node_name
    limits = surge_pod.pod.constraints
    terms = () if limits is None else limits.node_terms or ()
    named = [value for term in terms for each in term.fields for value in each.values]
    return named[0] if named else ""
