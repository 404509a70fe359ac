"""LimitRanges and ResourceQuotas of all namespaces, in step with the API."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from carico_core.runtime.kube import list_watch, paged_lists
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_core.wire.kubernetes import namespace_rules

_Rule = TypeVar("_Rule", namespace_rules.LimitRange, namespace_rules.Quota)


class Api(Protocol):
    """The part of the client that follows."""

    def mirror(
        self, path: str, *, params: Mapping[str, str] | None = None, read: paged_lists.Read | None = None
    ) -> AsyncGenerator[list_watch.MirrorEvent, None]: ...


class Namespaces:
    """The rules of each namespace. While the API is away, those that were read last."""

    def __init__(self, api: Api, *, clock: clocks.Clock) -> None:
        self._limit_ranges = _Followed(api, namespace_rules.LIMIT_RANGES, namespace_rules.parse_limit_range, clock)
        self._quotas = _Followed(api, namespace_rules.QUOTAS, namespace_rules.parse_quota, clock)

    def rules(self, namespace: str) -> namespace_rules.Rules:
        """Return the rules of a namespace, as far as they are known."""
        return namespace_rules.Rules(
            limit_ranges=tuple(self._limit_ranges.of(namespace)), quotas=tuple(self._quotas.of(namespace))
        )

    def state(self) -> str:
        """Return whether the rules are known, for people."""
        return self._limit_ranges.trouble or self._quotas.trouble or "known"

    async def follow_forever(self) -> None:
        """Keep the rules in step with the API, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._limit_ranges.follow_forever(), name="limit ranges")
            group.create_task(self._quotas.follow_forever(), name="quotas")


class _Followed(Generic[_Rule]):
    """One collection, by namespace and name."""

    def __init__(self, api: Api, path: str, parse: Callable[[Mapping[str, Any]], _Rule], clock: clocks.Clock) -> None:
        self._api = api
        self._path = path
        self._parse: Callable[[Mapping[str, Any]], _Rule] = parse
        self._by_namespace: dict[str, dict[str, _Rule]] = {}
        self._limited = logs.RateLimited(logs.get("namespaces"), clock=clock)
        self.trouble: str | None = f"{path} has not been read yet"

    def of(self, namespace: str) -> list[_Rule]:
        """Return those of a namespace."""
        return list(self._by_namespace.get(namespace, {}).values())

    async def follow_forever(self) -> None:
        """Keep them in step, until cancelled."""
        async with contextlib.aclosing(self._api.mirror(self._path, read=self._read)) as mirror:
            async for event in mirror:
                self._take(event)

    def _take(self, event: list_watch.MirrorEvent) -> None:
        match event:
            case list_watch.Listed():
                self._by_namespace, self.trouble = {}, None
                for each in event.objects:
                    self._put(each)
            case list_watch.Changed(type="DELETED"):
                if (gone := self._read(event.object)) is not None:
                    held = self._by_namespace.get(gone.namespace, {})
                    held.pop(gone.name, None)
                    if not held:
                        self._by_namespace.pop(gone.namespace, None)
            case list_watch.Changed():
                self._put(self._read(event.object))
            case list_watch.Away():
                self.trouble = f"{self._path} cannot be read: {event.error}"
                self._limited.warning(
                    "away", "namespaces' rules cannot be read", path=self._path, error=str(event.error)
                )

    def _put(self, rule: _Rule | None) -> None:
        if rule is not None:
            self._by_namespace.setdefault(rule.namespace, {})[rule.name] = rule

    def _read(self, obj: Mapping[str, Any]) -> _Rule | None:
        try:
            return self._parse(obj)
        except ValueError as error:
            self._limited.warning("object", "object cannot be parsed", path=self._path, error=str(error))
            return None
