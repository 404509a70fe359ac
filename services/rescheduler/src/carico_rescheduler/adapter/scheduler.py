"""Asks the scheduler whether it would place a new Pod where a plan wants it: by its own rules, with its own room."""

import dataclasses
from typing import Any, Protocol

import orjson

from carico_core.domain import decision as decisions
from carico_core.domain import errors
from carico_core.runtime.kube import api_actions
from carico_core.wire import subjects
from carico_rescheduler.context import cluster as clusters
from carico_rescheduler.moves import surge_pod
from carico_rescheduler.plan import decision

SUBJECT = subjects.query("scheduler", "capacity.fit")
ANSWER_MOST_S = 5.0
_WHY_MOST = 200


class Bus(Protocol):
    """The bus."""

    async def request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes:
        """Return the answer. Raises `BusUnavailable` where none comes in time, `BusError` for an error."""


# Reasons that no other Pod's leaving changes; all others are about room, which an earlier move of a plan may make.
_REASONS = decisions.Reason
_LASTS = frozenset(
    each.value
    for each in (
        _REASONS.NODE_NAME, _REASONS.UNSCHEDULABLE, _REASONS.NOT_READY, _REASONS.TAINT, _REASONS.NODE_SELECTOR,
        _REASONS.NODE_AFFINITY, _REASONS.NO_ADVERTISEMENT, _REASONS.STALE, _REASONS.SUSPECT, _REASONS.POD_AFFINITY,
        _REASONS.TOPOLOGY_SPREAD, _REASONS.DISK, _REASONS.VOLUME, _REASONS.VOLUME_LIMIT, _REASONS.UNSUPPORTED,
        _REASONS.GANG,
    )
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why the scheduler would not place the new Pod on the target. lasts: also if another Pod leaves it."""

    detail: str
    lasts: bool = True


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """Asks about one move at a time."""

    bus: Bus
    api: api_actions.BindApi
    known: clusters.Cluster

    async def why_not(self, move: decision.Move) -> Refusal | None:
        """Return why the scheduler would not place the new Pod on the target; None if it would.

        Raises `BusUnavailable` if no scheduler answers that can be understood, `ApiError` and `ApiUnavailable`.
        """
        question = await self._question(move)
        if question is None:
            return Refusal(detail="its ReplicaSet is gone")
        try:
            return _read(
                await self.bus.request(SUBJECT, orjson.dumps(question), timeout_s=ANSWER_MOST_S), move.target
            )  # fmt: skip
        except errors.BusUnavailable:
            raise
        except errors.BusError as error:
            return Refusal(detail=f"the scheduler refuses the question: {error}")
        except (ValueError, KeyError, TypeError) as error:
            # Such as one of another version.
            raise errors.BusUnavailable(f"its answer cannot be read: {error!r}"[:_WHY_MOST]) from error

    async def _question(self, move: decision.Move) -> dict[str, Any] | None:
        # The row of the target alone: a large cluster has more nodes than an answer has rows.
        where = {"node": move.target, "limit": 1}
        replica_set = self.known.replica_set_of(move.pod)
        if replica_set is None:
            return {"like": move.pod.pod.key, **where}
        path = f"/apis/apps/v1/namespaces/{replica_set.namespace}/replicasets/{replica_set.name}"
        try:
            found = await self.api.request("GET", path)
        except errors.NotFound:
            return None
        # The very Pod that a move would create.
        pod = surge_pod.body(found, old_uid=move.pod.uid, source=move.source, target=move.target, why=move.why)
        return {"pod": pod, **where}


def _read(answer: bytes, target: str) -> Refusal | None:
    row = next((each for each in orjson.loads(answer)["per_node"] if each["node"] == target), None)
    if row is None:
        return Refusal(detail=f"the scheduler does not know {target}")
    if row["fits"]:
        return None
    return Refusal(detail=f"{row['stopped_by']}: {row['detail']}", lasts=row["stopped_by"] in _LASTS)
