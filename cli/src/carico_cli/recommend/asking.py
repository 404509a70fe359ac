"""Asks an aggregator what it recommends, and the Kubernetes API what exists."""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from carico_cli.live import addresses, connection, service_queries
from carico_core.domain import errors
from carico_core.runtime.kube import paged_lists
from carico_core.runtime.process import clock as clocks
from carico_core.wire.kubernetes import namespace_rules

USER_AGENT = "carico-recommend"
ANSWER_MOST_S = 5.0
# Of the Kubernetes API, which is only asked for details.
DETAIL_MOST_S = 2.0

Row = Mapping[str, Any]


class Rules(NamedTuple):
    """What namespaces allow. `unchecked`: why some of it is not known; None if it is."""

    limit_ranges: list[Row]
    quotas: list[Row]
    unchecked: str | None


class Api(Protocol):
    """The Kubernetes API."""

    async def request(self, method: str, path: str) -> Any: ...


def ask(at: addresses.Address, rule: Mapping[str, float]) -> list[Row]:
    """Return the row of every class by the rule. Raises `CaricoError`."""
    return connection.on_bus(at, lambda bus: rows(bus, rule, at), name=USER_AGENT)


def with_distribution(at: addresses.Address, rule: Mapping[str, float], pod_class: str) -> Row:
    """Return the row of a class with its distribution. Raises `CaricoError`."""
    question: dict[str, float | str] = {**rule, "class": pod_class}
    found = connection.on_bus(at, lambda bus: rows(bus, question, at), name=USER_AGENT)
    if not found:
        raise errors.SettingsError(f"--plot: got no distribution of {pod_class}: the aggregator has just forgotten it")
    return found[0]


async def rows(bus: service_queries.Bus, rule: Mapping[str, float | str], at: addresses.Address) -> list[Row]:
    """Return the row of every class, by as many questions as needed. Raises `NoAnswer`, `Refused`."""
    found: list[Row] = []
    while True:
        question = {**rule, "after": found[-1]["class"]} if found else dict(rule)
        page = await service_queries.ask(
            bus, at, "aggregator", "recommend", question, within_s=ANSWER_MOST_S, hint=at.look
        )  # fmt: skip
        found += page["classes"]
        if page["complete"] or not page["classes"]:
            return found


def exists(at: addresses.Address, environ: Mapping[str, str], path: str) -> bool | None:
    """Return whether the API has the object at `path`; None if the API does not answer that."""

    async def main() -> bool | None:
        clock = clocks.SystemClock()
        with contextlib.suppress(errors.CaricoError, TimeoutError, OSError):
            async with asyncio.timeout(DETAIL_MOST_S), connection.api_of(at, clock, environ, name=USER_AGENT) as api:
                return await has(api, path)
        return None

    return asyncio.run(main())


def rules(at: addresses.Address, environ: Mapping[str, str]) -> Rules:
    """Return the LimitRanges and ResourceQuotas of all namespaces, as far as the API answers."""

    async def main() -> Rules:
        clock = clocks.SystemClock()
        try:
            async with asyncio.timeout(DETAIL_MOST_S), connection.api_of(at, clock, environ, name=USER_AGENT) as api:
                return await rules_of(api)
        except TimeoutError:
            return Rules([], [], f"the Kubernetes API has not answered within {DETAIL_MOST_S:g} s")
        except (errors.CaricoError, OSError) as error:
            return Rules([], [], str(error))

    return asyncio.run(main())


async def rules_of(api: Api) -> Rules:
    """Return them; what may not be listed is missing, with the reason."""
    found: list[list[Row]] = []
    unknown: list[str] = []
    for path in (namespace_rules.LIMIT_RANGES, namespace_rules.QUOTAS):
        try:
            found.append([*paged_lists.items_of(await api.request("GET", path), path)])
        except errors.NotFound:
            # The embedded API has no such rules.
            found.append([])
        except errors.ApiError as error:
            found.append([])
            unknown.append(str(error))
    return Rules(found[0], found[1], "; ".join(unknown) or None)


async def has(api: Api, path: str) -> bool:
    """Return whether the API has the object at `path`. Raises `CaricoError` if it does not answer that."""
    try:
        await api.request("GET", path)
    except errors.NotFound:
        return False
    return True
