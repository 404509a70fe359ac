"""Measure the time to the first bind after each kind of fault of a part other than the leader (`bench failover`).

Two schedulers with default settings, two aggregators, three emulated nodes with agents, NATS and the embedded API as
processes; a Pod comes every 0.3 s, and one fault follows the other. Then the same with three servers of NATS.
`python -m bench recovery` does each fault ten times and takes about ten minutes; `--quick` does it twice.
"""

import asyncio
import itertools
import os
import pathlib
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping

from carico_core.runtime.observe import logs
from tests.chaos.nemesis import checker, history, nemesis_site, workload

Row = tuple[str, float, str, str]
POD_EVERY_S = 0.3
# How long a part is away: less than a Lease.
AWAY_S = 3.0
# Between two faults, and after a fault that stops no bind.
REST_S = 5.0
WITHIN_S = 120.0
AGENT, NODE = "agent/node-1", "node-1"


Fault = Callable[[nemesis_site.Site], Awaitable[float]]


def run(quick: bool) -> list[Row]:
    """Return median and worst over several faults of each kind."""
    return rows(times=2 if quick else 10)


def rows(*, times: int) -> list[Row]:
    """Return median and worst over that many faults of each kind."""
    logs.setup(service="bench", level="error")
    numbers = itertools.count()

    async def one_of_three(site: nemesis_site.Site) -> float:
        return await _one_of_three(site, site.bus.names[next(numbers) % 3])

    of_one: dict[str, tuple[Fault, str]] = {
        "NATS is back: to the first bind": (_nats, "at most 2"),
        "the API is back: to the first bind": (_api, "at most 2"),
        "an agent is back: to the first bind to its node": (_agent, "at most 2"),
        "an aggregator killed and started: longest time without a bind": (_aggregator, "at most 2"),
        "streams deleted: longest time without a bind": (_streams, "at most 2"),
        "streams deleted: until all exist again": (_streams_back, "at most 10"),
    }
    of_three: dict[str, tuple[Fault, str]] = {
        "one of three NATS servers killed: longest time without a bind": (one_of_three, "at most 3"),
    }
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(_measure(pathlib.Path(folder) / "one", of_one, servers=1, times=times))
        return found + asyncio.run(_measure(pathlib.Path(folder) / "three", of_three, servers=3, times=times))


async def _measure(
    root: pathlib.Path, kinds: Mapping[str, tuple[Fault, str]], *, servers: int, times: int
) -> list[Row]:  # fmt: skip
    took: dict[str, list[float]] = {what: [] for what in kinds}
    site = nemesis_site.Site(
        root, name=f"recovery-{os.getpid()}", into=history.History(), leader_flags=(), servers=servers,
        with_identities=False,
    )  # fmt: skip
    async with site.running():
        creating = asyncio.create_task(_create_pods(site))
        try:
            await _first_bind(site, after_s=0.0)
            for _ in range(times):
                for what, (fault, _) in kinds.items():
                    await asyncio.sleep(REST_S)
                    took[what].append(await fault(site))
                    print(f"{what}: {took[what][-1]:.2f} s", file=sys.stderr, flush=True)
        finally:
            creating.cancel()
            await asyncio.gather(creating, return_exceptions=True)
    found: list[Row] = []
    for what, (_, target) in kinds.items():
        found.append((f"{what}, median of {times}", statistics.median(took[what]), "s", ""))
        found.append((f"{what}, worst", max(took[what]), "s", target))
    return found


async def _nats(site: nemesis_site.Site) -> float:
    return await _back(site, "nats")


async def _api(site: nemesis_site.Site) -> float:
    return await _back(site, "api")


async def _agent(site: nemesis_site.Site) -> float:
    return await _back(site, AGENT, node=NODE)


async def _back(site: nemesis_site.Site, name: str, *, node: str | None = None) -> float:
    """Kill a part, start it after some seconds, and return how long after it is ready the first bind comes."""
    await site.end(name, signal.SIGKILL)
    await asyncio.sleep(AWAY_S)
    await site.start(name)
    ready_s = time.time()
    return await _first_bind(site, after_s=ready_s, node=node) - ready_s


async def _aggregator(site: nemesis_site.Site) -> float:
    began_s = time.time()
    await site.end(nemesis_site.AGGREGATORS[0], signal.SIGKILL)
    await site.start(nemesis_site.AGGREGATORS[0])
    return await _longest_gap_s(site, since_s=began_s)


async def _one_of_three(site: nemesis_site.Site, name: str) -> float:
    began_s = time.time()
    await site.end(name, signal.SIGKILL)
    gap_s = await _longest_gap_s(site, since_s=began_s)
    await site.start(name)
    return gap_s


async def _streams(site: nemesis_site.Site) -> float:
    began_s = time.time()
    await site.bus.delete_streams()
    return await _longest_gap_s(site, since_s=began_s)


async def _streams_back(site: nemesis_site.Site) -> float:
    async with site.bus.administrator() as administrator:
        before = {each.config.name for each in await administrator.streams_info()}
        await site.bus.delete_streams()
        began_s = time.time()
        while not before <= {each.config.name for each in await administrator.streams_info()}:
            await asyncio.sleep(0.05)
    return time.time() - began_s


async def _longest_gap_s(site: nemesis_site.Site, *, since_s: float) -> float:
    """Return the longest time between two binds, from a fault until it has rested."""
    await asyncio.sleep(REST_S)
    times = [each.sent_s for each in site.history.binds if each.sent_s >= since_s and each.status == checker.CREATED]
    return max(b - a for a, b in itertools.pairwise([since_s, *sorted(times), time.time()]))


async def _first_bind(site: nemesis_site.Site, *, after_s: float, node: str | None = None) -> float:
    """Return when the first bind after a moment was sent, to `node` if one is given."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            for each in site.history.binds:
                is_wanted = each.status == checker.CREATED and node in (None, each.node)
                if is_wanted and each.sent_s >= after_s:
                    return each.sent_s
            await asyncio.sleep(0.01)


async def _create_pods(site: nemesis_site.Site) -> None:
    """Create a Pod that ends at once every so often, until cancelled."""
    for number in itertools.count():
        await site.request("POST", workload.PODS_PATH, workload.manifest(f"pod-{number}", "true", {}))
        await asyncio.sleep(POD_EVERY_S)
