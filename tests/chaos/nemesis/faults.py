"""Does the faults of a deck to a cluster, and records from when until when each lasted."""

import asyncio
import contextlib
import signal
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from carico_core.domain import errors
from tests.chaos.nemesis import deck, history, looks, nemesis_site
from tests.tools import tcp_proxy

# How long a process out of memory lives, at least and at most.
KILLED_AFTER_S = (0.5, 2.5)
# Of a server whose disk is slow: how long nothing happens, and then everything that is due.
STALLS_S, WORKS_S = 0.25, 0.03
# By how much a wall clock jumps.
JUMPS_S = (-86400.0, -3600.0, -7.0, 7.0, 3600.0, 86400.0)


class Faults:
    """Does what the nemesis has dealt."""

    def __init__(self, site: nemesis_site.Site, seen: looks.Looks) -> None:
        self._site = site
        self._looks = seen
        # Killed, stopped and restarted one after the other.
        self._busy = site.busy
        # Held while a key is being replaced.
        self._keys = asyncio.Lock()
        self._doing: Mapping[str, Callable[[deck.Step, str], Awaitable[None]]] = {
            deck.KILL: self._kill, deck.STOP: self._stop, deck.RESTART: self._restart,
            deck.CUT_BUS: self._cut_bus, deck.CUT_API: self._cut_api, deck.AWAY: self._away,
            deck.STREAMS: self._streams, deck.LEASE: self._lease, deck.DISK: self._disk,
            deck.MEMORY: self._memory, deck.SLOW: self._slow, deck.CLOCK: self._clock,
            deck.ONE_API: self._one_api, deck.ROLL: self._roll, deck.TOKEN: self._token, deck.KEY: self._key,
            deck.QUORUM: self._quorum,
        }  # fmt: skip

    async def do_all(self, steps: Sequence[deck.Step]) -> None:
        """Do each step at its time; return when the last one is over and every service runs again."""
        began_s = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for step in steps:
                await asyncio.sleep(max(began_s + step.at_s - time.monotonic(), 0.0))
                group.create_task(self._do(step))

    async def _do(self, step: deck.Step) -> None:
        target, at_s = self._target(step), time.time()
        await self._doing[step.kind](step, target)
        label = f"{step.kind} {step.direction}" if step.kind in (deck.CUT_API, deck.CUT_BUS) else step.kind
        self._site.history.faults.append(
            history.Fault(kind=label, target=f"{step.part} {target}", began_s=at_s, ended_s=time.time())
        )  # fmt: skip

    def _target(self, step: deck.Step) -> str:
        """The service that a step is for."""
        terms = self._site.history.terms
        holder = next(each.holder for each in reversed(terms) if each.holder)
        leader = holder.partition(".")[0]
        (standby,) = (name for name in nemesis_site.SCHEDULERS if name != leader)
        among: Mapping[str, Sequence[str]] = {
            deck.LEADER: (leader,), deck.STANDBY: (standby,), deck.AGGREGATOR: nemesis_site.AGGREGATORS,
            deck.AGENT: self._site.agents, deck.AUTH: self._site.auths, deck.NATS: self._site.bus.names,
            deck.NODE: [f"node/{node}" for node in self._site.plan.node_names],
        }  # fmt: skip
        names = among.get(step.part, (step.part,))
        return names[int(step.choice * len(names))]

    async def _kill(self, step: deck.Step, target: str) -> None:
        async with self._busy[target]:
            await self._site.end(target, signal.SIGKILL)
            await asyncio.sleep(step.lasts_s / 2)
            await self._looks.during(step, target)
            await self._start(target)

    async def _stop(self, step: deck.Step, target: str) -> None:
        async with self._busy[target]:
            self._site.send(target, signal.SIGSTOP)
            try:
                await asyncio.sleep(step.lasts_s)
                await self._looks.during(step, target)
            finally:
                self._site.send(target, signal.SIGCONT)

    async def _restart(self, step: deck.Step, target: str) -> None:
        async with self._busy[target]:
            await self._site.end(target, signal.SIGTERM)
            await self._start(target)

    async def _memory(self, step: deck.Step, target: str) -> None:
        async with self._busy[target]:
            until_s = time.monotonic() + step.lasts_s
            within_s = KILLED_AFTER_S[0] + step.size * (KILLED_AFTER_S[1] - KILLED_AFTER_S[0])
            await self._site.end(target, signal.SIGKILL)
            with self._site.memory.short(target, step.size):
                while time.monotonic() < until_s:
                    # At any moment of its start: while it imports, connects, lists or takes the Lease.
                    await self._site.spawn(target)
                    await self._site.ended(target, within_s=within_s)
                    await self._site.end(target, signal.SIGKILL)
            await self._start(target)

    async def _slow(self, step: deck.Step, target: str) -> None:
        async with self._busy[target]:
            until_s = time.monotonic() + step.lasts_s
            while time.monotonic() < until_s:
                self._site.send(target, signal.SIGSTOP)
                try:
                    await asyncio.sleep(STALLS_S)
                finally:
                    self._site.send(target, signal.SIGCONT)
                await asyncio.sleep(WORKS_S)

    async def _clock(self, step: deck.Step, target: str) -> None:
        shift_s = JUMPS_S[int(step.size * len(JUMPS_S))]
        self._site.move_clock(target, shift_s)
        try:
            await asyncio.sleep(step.lasts_s)
        finally:
            self._site.move_clock(target, -shift_s)

    async def _roll(self, step: deck.Step, target: str) -> None:
        kinds = (nemesis_site.SCHEDULERS, nemesis_site.AGGREGATORS, self._site.agents, self._site.auths)
        await asyncio.gather(*(self._roll_out(names) for names in kinds))

    async def _roll_out(self, names: Sequence[str]) -> None:
        for name in names:
            async with self._busy[name]:
                await self._site.end(name, signal.SIGTERM)
                await self._start(name)

    async def _away(self, step: deck.Step, target: str) -> None:
        agent = target.replace("node/", "agent/")
        async with self._busy[target], self._busy[agent]:
            await self._site.end(target, signal.SIGKILL)
            await self._site.end(agent, signal.SIGKILL)
            await asyncio.sleep(step.lasts_s)
            await self._site.start(target)
            await self._site.start(agent)

    async def _start(self, target: str) -> None:
        await self._site.start(target)
        agent = target.replace("node/", "agent/")
        if agent != target and self._site.measures_processes(target.removeprefix("node/")):
            # Without cgroups, an agent measures the node's process by its id.
            async with self._busy[agent]:
                await self._site.end(agent, signal.SIGKILL)
                await self._site.start(agent)

    async def _cut_bus(self, step: deck.Step, target: str) -> None:
        await asyncio.gather(*(cut(wire, step) for wire in self._site.parts[target].wires))

    async def _cut_api(self, step: deck.Step, target: str) -> None:
        await cut(self._site.parts[target].api, step)

    async def _one_api(self, step: deck.Step, target: str) -> None:
        await silence_one_server(self._site.parts[target].api, step)

    async def _token(self, step: deck.Step, target: str) -> None:
        async with self._site.without_token(target):
            await asyncio.sleep(step.lasts_s)

    async def _key(self, step: deck.Step, target: str) -> None:
        async with self._keys, self._site.with_two_keys():
            await asyncio.sleep(step.lasts_s)

    async def _quorum(self, step: deck.Step, target: str) -> None:
        # In the order of their names, so that no two faults wait for each other.
        lost = [name for name in self._site.bus.names if name != target]
        async with self._busy[lost[0]], self._busy[lost[1]]:
            for name in lost:
                await self._site.end(name, signal.SIGKILL)
            await asyncio.sleep(step.lasts_s)
            await asyncio.gather(*map(self._site.start, lost))

    async def _streams(self, step: deck.Step, target: str) -> None:
        await self._site.bus.delete_streams()

    async def _lease(self, step: deck.Step, target: str) -> None:
        with contextlib.suppress(errors.NotFound):
            await self._site.request("DELETE", nemesis_site.LEASE_PATH)

    async def _disk(self, step: deck.Step, target: str) -> None:
        # Some seconds on a busy machine, in which this process has to pass on what services say.
        await asyncio.to_thread(self._site.fill_disk)
        try:
            await asyncio.sleep(step.lasts_s)
        finally:
            self._site.empty_disk()
        for name in self._site.bus.names:
            async with self._busy[name]:
                # As the supervisor of a local cluster does, and the runbook: NATS stores nothing more until then.
                await self._site.end(name, signal.SIGTERM)
                await self._site.start(name)


async def cut(way: tcp_proxy.Proxy | None, step: deck.Step) -> None:
    """Hold what one side sends, or both, for as long as the step."""
    assert way is not None, "a part that can be cut off has a proxy"
    sends, receives = way.to_target, way.to_client
    held = {"both ways": (sends, receives), "sends nothing": (sends,), "receives nothing": (receives,)}[step.direction]
    for each in held:
        each.clear()
    try:
        await asyncio.sleep(step.lasts_s)
    finally:
        for each in held:
            each.set()


async def silence_one_server(way: tcp_proxy.Proxy | None, step: deck.Step) -> None:
    """Silence the connections of now for as long as the step, and end them; new ones go to another server."""
    assert way is not None, "a part that can be cut off has a proxy"
    async with way.one_server_silent():
        await asyncio.sleep(step.lasts_s)
