"""The rescheduler's queries on the bus: JSON in, JSON out. Only the leader answers."""

import dataclasses
from typing import Any

import orjson

from carico_core.domain import errors
from carico_core.runtime.bus import port as buses
from carico_core.runtime.bus import serving
from carico_rescheduler import asked_plans, rounds
from carico_rescheduler.context import objects
from carico_rescheduler.moves import record as records
from carico_rescheduler.plan import decision, generator, planning

# Below the time that any client waits for an answer.
ANSWER_WITHIN_S = 3.0
# Rows of an answer: far below one bus message.
ROWS_MOST = 1000


class Refused(errors.CaricoError):
    """A request that is not carried out; the message says why."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """The endpoints of the service, over the rounds of this replica; `plans`: those that queries ask for."""

    rounds: rounds.Rounds
    plans: asked_plans.AskedPlans

    def endpoints(self) -> dict[str, buses.Endpoint]:
        """Return the handlers by verb."""
        return {
            "plan.get": self.plan_get,
            "moves.list": self.moves_list,
            "traffic.list": self.traffic_list,
            "pod.explain": self.pod_explain,
            "control.apply": self.control_apply,
            "control.pause": self.control_pause,
            "control.resume": self.control_resume,
        }

    async def plan_get(self, payload: bytes) -> bytes:
        """Return a plan for the cluster as it is now, of at most "most" moves; nothing is moved.

        The plan is null if it takes longer than a question may: who repeats the question gets the same plan.
        """
        plan = await self.plans.within(question_of(payload), ANSWER_WITHIN_S)
        return orjson.dumps({"plan": None if plan is None else describe(plan), **await self._standing()})

    async def moves_list(self, payload: bytes) -> bytes:
        """Return the move under way, those that have ended, and why nothing is moved now."""
        current = self.rounds.parts.executor.current
        return orjson.dumps(
            {
                "current": None if current is None else self._move(current),
                "ended": [self._move(each) for each in reversed(self.rounds.parts.executor.ended)],
                **await self._standing(),
            }
        )

    async def traffic_list(self, payload: bytes) -> bytes:
        """Return the traffic between nodes as the last plan saw it, by pairs of nodes; no plan is made."""
        plan = self.rounds.last
        if plan is None or not plan.has_traffic:
            return orjson.dumps({"plan_at_ns": None if plan is None else plan.at_ns, "has_traffic": False, "links": []})
        return orjson.dumps(
            {
                "plan_at_ns": plan.at_ns, "has_traffic": True, "between_bytes": plan.traffic_bytes[0],
                "within_bytes": plan.within_bytes,
                "links": [
                    {"one": each.one, "other": each.other, "bytes_per_s": each.bytes_per_s} for each in plan.links
                ],
            }
        )  # fmt: skip

    async def pod_explain(self, payload: bytes) -> bytes:
        """Return how a Pod came to its node, if by a move, and what the last plan says of it; no plan is made.

        Of a Pod that is gone: the move that replaced it, as in `moves.list`; null if there was none.
        """
        namespace, name = serving.pod_of(serving.read_question(payload))
        pod = self.rounds.parts.planner.pod(namespace, name)
        if pod is None:
            moves = (each for each in reversed(self.rounds.parts.executor.ended) if each.state is records.State.MOVED)
            last = next((each for each in moves if each.pod == f"{namespace}/{name}"), None)
            return orjson.dumps({"known": False, "went": None if last is None else self._move(last)})
        return orjson.dumps(
            {
                "known": True, "uid": pod.uid, "moved": moved(pod), **said_of(pod, self.rounds.last),
                "rests": self.rounds.rests,
            }
        )  # fmt: skip

    async def control_apply(self, payload: bytes) -> bytes:
        """Begin to carry out a plan made now, of at most "most" moves; done when "rounds" of "boot" have ended."""
        asked = question_of(payload)
        paused = await self.rounds.parts.journal.read()
        if paused:
            raise Refused(f"moves are {paused}: `carico reschedule resume` first")
        return orjson.dumps({"boot": self.rounds.parts.boot, "rounds": self.rounds.apply(asked)})

    async def control_pause(self, payload: bytes) -> bytes:
        """Begin no further move, until resumed; the move under way ends."""
        await self.rounds.parts.journal.pause(paused=True)
        return orjson.dumps({"paused": True})

    async def control_resume(self, payload: bytes) -> bytes:
        """Move again."""
        await self.rounds.parts.journal.pause(paused=False)
        return orjson.dumps({"paused": False})

    async def _standing(self) -> dict[str, Any]:
        parts, journal = self.rounds.parts, self.rounds.parts.journal
        return {
            "mode": parts.settings.mode.value,
            "automatic": parts.settings.automatic,
            # Each round looks: readers may ask often, and the API is not asked for each of them.
            "paused": await journal.read() if journal.paused is None else journal.paused,
            "rests": self.rounds.rests,
            # Each process counts its own.
            "boot": parts.boot,
            "rounds": self.rounds.ended,
        }

    def _move(self, found: records.Record) -> dict[str, Any]:
        age_s = self.rounds.parts.clock.monotonic_s() - found.began_s
        took_s = None if found.ended_s is None else round(found.ended_s - found.began_s, 3)
        return {
            "pod": found.pod, "uid": found.uid, "successor": found.successor, "from": found.source, "to": found.target,
            "mode": found.mode.value, "state": found.state.value, "why": found.why, "detail": found.detail,
            "gain": round(found.gain, 6), "began_at_ns": found.began_at_ns,
            "age_s": round(age_s, 3), "took_s": took_s,
        }  # fmt: skip


def question_of(payload: bytes) -> planning.Question:
    """Return which plan a question asks for. Raises `BadQuestion`."""
    asked = serving.read_question(payload)
    most = asked.get("most")
    if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 0):
        raise serving.BadQuestion(f'expected {{"most": N}} with a number of moves, got {payload[:80]!r}')
    algorithm = asked.get("algorithm", generator.CARICO)
    if algorithm not in generator.ALGORITHMS:
        raise serving.BadQuestion(
            f"algorithm: got {str(algorithm)[:80]!r}, expected one of {', '.join(generator.ALGORITHMS)}"
        )
    return planning.Question(most=most, algorithm=algorithm)


def moved(pod: objects.KnownPod) -> dict[str, Any] | None:
    """Return where a Pod came from, when (Unix seconds) and why, by its own marks; None if no move created it."""
    if pod.moved_at_s is None:
        return None
    return {"from": pod.mark(objects.CAME_FROM), "at_s": pod.moved_at_s, "why": pod.mark(objects.REASON)}


def said_of(pod: objects.KnownPod, plan: decision.Plan | None) -> dict[str, Any]:
    """Return what a plan says of a Pod: why it stays, where it goes, or where it does not go and why."""
    if plan is None:
        return {"plan_at_ns": None, "planned": False, "stays": None, "move": None, "left_out": None}
    stays = plan.skipped.get(pod.uid)
    move = next((each for each in plan.moves if each.pod.uid == pod.uid), None)
    left_out = next((each for each in plan.left_out if each.pod == pod.pod.key), None)
    return {
        "plan_at_ns": plan.at_ns,
        # False: it came to its node after the plan was made.
        "planned": pod.uid in plan.pods,
        "stays": None if stays is None else {"why": stays.why.value, "detail": stays.detail},
        "move": None if move is None else {"to": move.target, "why": move.why},
        "left_out": None if left_out is None else {"to": left_out.target, "detail": left_out.detail},
    }


def describe(plan: decision.Plan) -> dict[str, Any]:
    """Return a plan as JSON types."""
    return {
        "at_ns": plan.at_ns,
        "verdict": plan.verdict,
        "gain": round(plan.gain, 6),
        "has_traffic": plan.has_traffic,
        "unresolved_bytes": plan.gaps.unresolved_bytes,
        "skipped_readings": [
            {"node": node, "why": why, "count": count}
            for (node, why), count in list(plan.gaps.skipped.items())[:ROWS_MOST]
        ],
        "dropped_messages": [
            {"kind": kind, "why": why, "count": count} for (kind, why), count in sorted(plan.gaps.dropped.items())
        ],
        "traffic_bytes": {"before": plan.traffic_bytes[0], "after": plan.traffic_bytes[1]},
        "overload_tasks": {"before": plan.excess_tasks[0], "after": plan.excess_tasks[1]},
        "moves": [
            {
                "pod": each.pod.pod.key, "from": each.source, "to": each.target, "gain": round(each.gain, 6),
                "bytes_per_s": each.bytes_per_s, "tasks": each.tasks, "cost_task_s": each.cost_task_s,
                "pays_back_s": each.pays_back_s, "why": each.why,
            }
            for each in plan.moves[:ROWS_MOST]
        ],
        "left_out": [
            {"pod": each.pod, "from": each.source, "to": each.target, "why": each.why.value, "detail": each.detail}
            for each in plan.left_out[:ROWS_MOST]
        ],
        # Of all Pods that stay; the rows may be fewer.
        "skipped_pods": planning.count_skipped(plan),
        "skipped": [
            {"pod": plan.skipped_names.get(uid, uid), "why": each.why.value, "detail": each.detail}
            for uid, each in list(plan.skipped.items())[:ROWS_MOST]
        ],
        "nodes": [
            {
                "node": each.node, "load": {"before": each.before, "after": each.after},
                "saturation": each.saturation,
                "pods": {"before": each.pods_before, "after": each.pods_after},
            }
            for each in sorted(plan.nodes, key=lambda each: each.pods_before == each.pods_after)[:ROWS_MOST]
        ],
    }  # fmt: skip
