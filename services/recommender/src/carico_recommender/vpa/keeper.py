"""Keeps the status of VerticalPodAutoscaler objects in step with what is learnt."""

import asyncio
import collections
import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from carico_core.domain import errors
from carico_core.runtime.kube import api_actions, list_watch
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import tasks
from carico_core.wire.kubernetes import instants, namespace_rules, object_fields
from carico_recommender import classes, instruments, namespaces
from carico_recommender import settings as setting
from carico_recommender.vpa import advice as advices
from carico_recommender.vpa import objects, status

# Objects between two turns of the event loop: less than 5 ms.
_AT_ONCE = 50


RulesOf = Callable[[str], namespace_rules.Rules]


class Api(api_actions.Api, namespaces.Api, Protocol):
    """The part of the client that follows and writes."""


class Keeper:
    """The objects that name this recommender, and their writer. `leads`: whether this replica writes."""

    def __init__(
        self, chosen: setting.RecommenderSettings, api: Api, known: classes.Classes, *, rules: RulesOf,
        counted: instruments.Instruments, leads: Callable[[], bool], clock: clocks.Clock,
    ) -> None:  # fmt: skip
        self._chosen = chosen
        self._api = api
        self._known = known
        self._rules = rules
        self._counted = counted
        self._leads = leads
        self._clock = clock
        self._pace = tasks.Pace(chosen.writes_per_s, clock=clock)
        self._objects: dict[tuple[str, str], objects.Autoscaler] = {}
        self._is_listed = False
        self._line = logs.get("vpa")
        self._limited = logs.RateLimited(self._line, clock=clock)

    def __len__(self) -> int:
        """Return how many objects name this recommender."""
        return len(self._objects)

    async def follow_forever(self) -> None:
        """Keep the objects in step with the API, until cancelled. Without VPA's CRD there are none."""
        async with contextlib.aclosing(self._api.mirror(objects.PATH, read=self._parsed)) as mirror:
            async for event in mirror:
                self._take(event)

    async def write_forever(self) -> None:
        """Write what has changed, every interval, until cancelled."""
        while True:
            await asyncio.sleep(self._chosen.interval_s)
            if self._may_write():
                await self.write()

    def _may_write(self) -> bool:
        return self._leads() and self._is_listed and self._known.is_current

    async def write(self) -> int:
        """Write the statuses that differ; return how many were written. Those without a recommendation come first."""
        written = 0
        for one, fields in await self._due():
            await self._pace.wait()
            # Between two writes the object may have changed; the Lease, API or aggregators may have been lost.
            if not self._may_write():
                break
            if self._objects.get(one.key) is not one:
                continue
            result = await self._write(one, fields)
            self._counted.writes.labels(result.value).inc()
            written += result is instruments.Written.WRITTEN
        return written

    async def _due(self) -> list[tuple[objects.Autoscaler, dict[str, Any]]]:
        first: list[tuple[objects.Autoscaler, dict[str, Any]]] = []
        rest: list[tuple[objects.Autoscaler, dict[str, Any]]] = []
        states: collections.Counter[instruments.State] = collections.Counter()
        taken_s = 0.0
        at = instants.format_time(self._clock.wall_ns())
        for index, one in enumerate(list(self._objects.values())):
            if index % _AT_ONCE == 0:
                await asyncio.sleep(0)
            started_s = self._clock.monotonic_s()
            try:
                state, fields = self._judge(one, at)
            except (
                Exception
            ) as error:  # the boundary of one object, whose status anybody with the right may have written
                self._counted.writes.labels(instruments.Written.FAILED.value).inc()
                self._limited.warning(one.path, "status cannot be computed", path=one.path, error=repr(error))
                continue
            states[state] += 1
            if fields is not None:
                (rest if status.has_recommendation(one.status) else first).append((one, fields))
            taken_s += self._clock.monotonic_s() - started_s
        for state in instruments.State:
            self._counted.objects.labels(state.value).set(states[state])
        self._counted.round_s.observe(taken_s)
        return first + rest

    def _judge(self, one: objects.Autoscaler, at: str) -> tuple[instruments.State, dict[str, Any] | None]:
        """Return what an object gets, and the fields to write; None if what is there is near enough."""
        has = status.has_recommendation(one.status)
        known = self._known.get(one.pod_class)
        advice = advices.advise(
            one, known, margin=self._chosen.margin, has_recommendation=has, rules=self._rules(one.namespace)
        )  # fmt: skip
        return _state(advice), status.update(one.status, advice, change=self._chosen.change, at=at)

    async def _write(self, one: objects.Autoscaler, fields: Mapping[str, Any]) -> instruments.Written:
        # The version as precondition: the status is for the specification that was read.
        body = {"metadata": {"resourceVersion": one.resource_version}, "status": fields}
        try:
            found = await self._api.request("PATCH", one.path, body=body, content_type=api_actions.MERGE_PATCH)
        except (errors.Conflict, errors.NotFound):
            return instruments.Written.CHANGED
        except (errors.ApiError, errors.ApiUnavailable) as error:
            self._limited.warning(type(error).__name__, "status not written", path=one.path, error=str(error))
            return instruments.Written.FAILED
        # Not after a watch that was faster: an object that is gone or newer stays so.
        if self._objects.get(one.key) is one:
            self._put(self._parsed(found))
        return instruments.Written.WRITTEN

    def _take(self, event: list_watch.MirrorEvent) -> None:
        match event:
            case list_watch.Listed():
                self._objects = {each.key: each for each in event.objects if each is not None}
                self._is_listed = True
                self._line.info("listed VerticalPodAutoscaler objects", ours=len(self._objects))
            case list_watch.Changed(type="DELETED"):
                with contextlib.suppress(ValueError):
                    self._objects.pop(object_fields.key_of(event.object), None)
            case list_watch.Changed():
                self._change(event.object)
            case list_watch.Away():
                self._is_listed = False
                self._limited.warning("away", "VerticalPodAutoscaler objects cannot be read", error=str(event.error))

    def _change(self, obj: Mapping[str, Any]) -> None:
        parsed = self._parsed(obj)
        if parsed is not None:
            self._put(parsed)
            return
        # It may have named this recommender before.
        with contextlib.suppress(ValueError):
            self._objects.pop(object_fields.key_of(obj), None)

    def _put(self, one: objects.Autoscaler | None) -> None:
        if one is not None:
            self._objects[one.key] = one

    def _parsed(self, obj: Mapping[str, Any]) -> objects.Autoscaler | None:
        try:
            return objects.parse(obj, recommender=self._chosen.name)
        except ValueError as error:
            self._limited.warning("object", "object cannot be parsed", error=str(error))
            return None


def _state(advice: advices.Advice) -> instruments.State:
    if advice.find(advices.Kind.CONFIG_UNSUPPORTED) is not None:
        return instruments.State.UNSUPPORTED
    provided = advice.find(advices.Kind.RECOMMENDATION_PROVIDED)
    if provided is None or not provided.is_true:
        return instruments.State.WITHHELD
    if advice.find(advices.Kind.NAMESPACE_REFUSES) is not None:
        return instruments.State.NAMESPACE_REFUSES
    is_low = advice.find(advices.Kind.LOW_CONFIDENCE) is not None
    return instruments.State.LOW_CONFIDENCE if is_low else instruments.State.PROVIDED
