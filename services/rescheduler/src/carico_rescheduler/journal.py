"""What outlives every process: pauses, moves of the last hour, those that have not ended, rests, effects of plans.

A ConfigMap, which is read before each plan and each move. A move is noted before it begins, so a process that dies in
the middle of each of its moves makes no more of them than another one.
"""

import dataclasses
from collections.abc import Callable, Mapping, Set
from typing import Any

import orjson

from carico_core.domain import errors, names
from carico_core.runtime.kube import api_actions
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_core.wire.kubernetes import instants
from carico_rescheduler.moves import record as records

NAME = "carico-rescheduler"
_PAUSED, _SINCE, _MOVES, _MOVING, _RESTS = "paused", "since", "moves", "moving", "rests"
_EFFECTS = "effects"
HOUR_S, _MINUTE_S = 3600.0, 60
# Of a minute: more may be too many for a float.
_DIGITS_MOST = 16
# How long Pods are left alone after a move of their controller's Pods failed.
FAILED_REST_S = 600.0
# What is kept of them: far below the size of an object.
_RESTS_MOST, _WHY_MOST = 200, 200
# Moves that have not ended: an earlier process has left one, and each before it that could not finish those of others
# one more.
_MOVING_MOST = 16


@dataclasses.dataclass(slots=True, kw_only=True)
class Journal:
    """The ConfigMap in the namespace of the Lease. `paused`: what the last look has shown, None before it.

    Times are Unix seconds of whichever replica led.
    """

    api: api_actions.BindApi
    namespace: str
    clock: clocks.Clock
    permit: Callable[[], None]
    paused: str | None = None
    # What became of plans (`reflection`), as last read.
    effects: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    # Moves that began in each minute; by controller until when its Pods rest, and why. What others have noted is added.
    _began: dict[int, int] = dataclasses.field(default_factory=dict)
    _rests: dict[str, tuple[float, str]] = dataclasses.field(default_factory=dict)
    # UIDs of what moves, the newest last: as the ConfigMap has them, since another replica may have led in between.
    _moving: dict[str, None] = dataclasses.field(default_factory=dict)

    async def read(self) -> str:
        """Return since when moves are paused; empty if they are not. Raises `ApiError` and `ApiUnavailable`."""
        try:
            found = await self.api.request("GET", f"{self._path}/{NAME}")
        except errors.NotFound:
            found = {}
        data = found.get("data") or {}
        self._take_in(data)
        self.paused = f"paused since {data.get(_SINCE, 'an unknown time')}" if data.get(_PAUSED) == "true" else ""
        return self.paused

    async def pause(self, *, paused: bool) -> None:
        """Pause or resume. Raises `ApiError` and `ApiUnavailable`."""
        await self._write({_PAUSED: str(paused).lower(), _SINCE: instants.format_time(self.clock.wall_ns())})
        await self.read()

    async def moving(self) -> Set[str]:
        """Return the UIDs of what moves that have not ended have begun to move. Raises as `read`.

        The marks of a move can be written by anyone who creates Pods: a move of another UID was never begun.
        """
        await self.read()
        return self._moving.keys()

    async def begin(self, uid: str) -> None:
        """Note that a move begins. Raises `ApiError`, `ApiUnavailable`, `NotLeading`: then it must not."""
        self._moving[uid] = self._moving.pop(uid, None)
        minute = int(self._now_s() // _MINUTE_S)
        self._began[minute] = self._began.get(minute, 0) + 1
        await self._save()

    async def end(self, uid: str, move: records.Record, *, is_elsewhere: bool = False) -> None:
        """Note what became of the move that began with this UID. After one that failed, its controller's Pods rest.

        What stopped it, such as an image that cannot be pulled or a quota, usually lasts, and stops the next replica as
        well: without a rest, each plan would try one. `is_elsewhere`: the new Pod is on another node than planned, as
        the next one would be.
        """
        self._moving.pop(uid, None)
        if move.is_marked:
            self._moving[uid] = None
        if move.owner and (move.state is records.State.KEPT or is_elsewhere):
            why = f"{move.pod}: {move.detail}"[:_WHY_MOST]
            self._rests[move.owner] = self._now_s() + FAILED_REST_S, why
        try:
            await self._save()
        except (errors.ApiError, errors.ApiUnavailable, records.NotLeading) as error:
            # A rest is saved with the next move; one that has ended and is still noted is not found any more.
            logs.get("rescheduler").warning("end of a move not noted", pod=move.pod, error=str(error))

    async def note_effects(self, kept: Mapping[str, Any]) -> None:
        """Keep what became of plans for later leaders, unless the API does not answer."""
        try:
            await self._write({_EFFECTS: orjson.dumps(kept).decode()})
        except (errors.ApiError, errors.ApiUnavailable, records.NotLeading) as error:
            logs.get("rescheduler").warning("effect of a plan not noted", error=str(error))

    def moves_of_the_hour(self) -> int:
        """Return how many moves began within an hour."""
        self._forget()
        return sum(self._began.values())

    def rests(self) -> Mapping[str, str]:
        """Return by controller why its Pods rest."""
        self._forget()
        return {owner: why for owner, (_, why) in self._rests.items()}

    def _take_in(self, data: Mapping[str, Any]) -> None:
        for minute, count in _counts(data.get(_MOVES)).items():
            self._began[minute] = max(count, self._began.get(minute, 0))
        self._moving = _uids(data.get(_MOVING))
        self.effects = _object(data.get(_EFFECTS))
        for owner, rest in _rests(data.get(_RESTS)).items():
            self._rests[owner] = max(rest, self._rests.get(owner, rest))
        self._forget()

    def _forget(self) -> None:
        now_s = self._now_s()
        # A time of a clock that is ahead is not kept for longer than one of ours.
        self._began = {each: count for each, count in self._began.items() if abs(now_s - each * _MINUTE_S) < HOUR_S}
        kept = [(owner, rest) for owner, rest in self._rests.items() if 0.0 < rest[0] - now_s <= FAILED_REST_S]
        self._rests = dict(kept[-_RESTS_MOST:])
        self._moving = dict.fromkeys(list(self._moving)[-_MOVING_MOST:])

    async def _save(self) -> None:
        self._forget()
        began = {str(minute): count for minute, count in self._began.items()}
        found = {_MOVES: began, _MOVING: dict.fromkeys(self._moving), _RESTS: self._rests}
        await self._write({name: orjson.dumps(each).decode() for name, each in found.items()})

    async def _write(self, data: Mapping[str, str]) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}, "data": data}
        try:
            await self.api.request(
                "PATCH", f"{self._path}/{NAME}", body={"data": data}, content_type=api_actions.MERGE_PATCH,
                permit=self.permit,
            )  # fmt: skip
        except errors.NotFound:
            await self.api.request("POST", self._path, body=body, permit=self.permit)

    def _now_s(self) -> float:
        return self.clock.wall_ns() / 1e9

    @property
    def _path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/configmaps"


def _counts(text: object) -> dict[int, int]:
    """Return the moves of each minute; none of what people have written there."""
    return {
        int(minute): count
        for minute, count in _object(text).items()
        if minute.isdecimal() and len(minute) <= _DIGITS_MOST and isinstance(count, int) and not isinstance(count, bool)
    }


def _uids(text: object) -> dict[str, None]:
    return {uid: None for uid in _object(text) if len(uid) <= names.SUBDOMAIN_MAX}


def _rests(text: object) -> dict[str, tuple[float, str]]:
    found = {}
    for owner, rest in _object(text).items():
        match rest:
            case [int() | float() as until_s, str() as why]:
                found[owner] = float(until_s), why[:_WHY_MOST]
    return found


def _object(text: object) -> dict[str, Any]:
    try:
        found = orjson.loads(text) if isinstance(text, str) else {}
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}
