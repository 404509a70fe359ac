"""Schedulers that share the work commit claims under faults; the API's store shows whether a rule was broken.

`python -m tests.chaos.claims.soak --commits 100000`: real schedulers, real NATS (`--servers 3`: one of three fails at a
time, or two), the embedded API and model nodes. Exit code 1 if a rule was broken:

- no Pod is bound twice, and none without a claim on its node that the stream has stored;
- no node has more Pods than it has room for;
- every Pod is bound in time after the last fault;
- no claim holds room without a Pod for longer than a lease.
"""

import argparse
import asyncio
import collections
import contextlib
import dataclasses
import itertools
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

from carico_cli.live import members as live_members
from carico_core.domain import errors
from carico_core.runtime.bus import nats_bus
from carico_core.runtime.bus import port as buses
from carico_core.wire import messages as wire
from carico_scheduler.sharing.claims import janitor, ledger
from tests.chaos.claims import members, model
from tests.chaos.nemesis import deck, faults
from tests.tools.sites import nats_site

MEMBER = "member"
# Two faults of NATS for many of members: after one nothing is committed for 7 s.
CARDS = (
    *((kind, MEMBER) for kind in (deck.KILL, deck.STOP, deck.CUT_BUS) for _ in range(3)),
    *((kind, MEMBER) for kind in (deck.RESTART, deck.CUT_API, deck.ONE_API)),
    (deck.KILL, deck.NATS), (deck.RESTART, deck.NATS),
)  # fmt: skip
# Claims that were stored right before a server of NATS was killed may not have come to the observer.
UNSEEN_S = 3.0
# Of the janitor, which looks every 5 s and ends 50 claims at a time.
ROUNDS_MOST = 4


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The size of a run: at least so many commits, and each fault. `every_s`: between faults.

    `settled_s`: from the last fault until all Pods are bound.
    """

    seed: int = 1
    commits: int = 100_000
    schedulers: int = 8
    servers: int = 1
    every_s: float = 4.0
    longest_s: float = 10.0
    settled_s: float = 240.0
    # False: end without waiting for a lease, after which no orphan may be left.
    waits_for_orphans: bool = True

    @property
    def cards(self) -> Sequence[tuple[str, str]]:
        """The deck; each card comes at least once."""
        return CARDS if self.servers == 1 else (*CARDS, (deck.QUORUM, deck.NATS))


class Soak:
    """One run."""

    def __init__(self, run: Run, made: model.Model, nats: list[nats_site.NatsServer], bus: nats_bus.NatsBus) -> None:
        self._run = run
        self._model = made
        self._nats = nats
        self._bus = bus
        self._members: list[members.Member] = []
        # By the name of a member, or of all NATS servers.
        self._busy: dict[str, asyncio.Lock] = collections.defaultdict(asyncio.Lock)
        # When no claim may have come from the bus (monotonic).
        self._unseen: list[tuple[float, float]] = []
        self._seen: set[tuple[str, str]] = set()
        self.commits = 0
        self.faults: collections.Counter[str] = collections.Counter()
        self.orphans = 0
        self.violations: list[str] = []

    async def run(self, made: list[members.Member]) -> None:
        """Commit under faults, then check."""
        self._members = made
        await self._bus.claims.follow(self._take)
        living = asyncio.create_task(self._model.live(self._bus))
        try:
            await self._until(lambda: bool(self._model.bound), living, within_s=120.0)
            await self._torment(living)
            self._model.creates = False
            with contextlib.suppress(TimeoutError):
                await self._until(
                    lambda: not self._model.waiting and not self._model.running, living, within_s=self._run.settled_s
                )
            if self._run.waits_for_orphans and not self._model.waiting:
                await asyncio.sleep(ledger.LEASE_S + ROUNDS_MOST * janitor.EVERY_S)
                await self._check_orphans()
        finally:
            living.cancel()
            await asyncio.gather(living, return_exceptions=True)
        self.orphans = sum(each.orphans for each in made)
        self.violations += [*self._model.violations, *self.lost(), *self.unclaimed()]

    async def _torment(self, living: "asyncio.Task[None]") -> None:
        """Do faults until there are as many of them and of commits as asked for; return when the last one is over."""
        steps = deck.deal(
            self._run.seed,
            seconds=86400.0,
            longest_s=self._run.longest_s,
            every_s=self._run.every_s,
            cards=self._run.cards,
        )
        began_s = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for number, step in enumerate(steps):
                member = None if step.part == deck.NATS else self._members[int(step.choice * len(self._members))]
                busy = self._busy[deck.NATS if member is None else member.name]
                while time.monotonic() < began_s + step.at_s or busy.locked():
                    if living.done():
                        living.result()
                    if number >= len(self._run.cards) and self.commits >= self._run.commits:
                        return
                    await asyncio.sleep(0.1)
                # Those that follow keep their distance: on a slow machine more would come than are over.
                began_s = max(began_s, time.monotonic() - step.at_s)
                group.create_task(self._do(step, member, busy))

    async def _do(self, step: deck.Step, member: members.Member | None, busy: asyncio.Lock) -> None:
        async with busy:
            await (self._do_nats(step) if member is None else self._do_member(step, member))
        self.faults[f"{step.kind} {step.part}"] += 1

    async def _do_nats(self, step: deck.Step) -> None:
        first = int(step.choice * len(self._nats))
        count = 2 if step.kind == deck.QUORUM else 1
        servers = [self._nats[(first + index) % len(self._nats)] for index in range(count)]
        began_s = time.monotonic()
        for server in servers:
            await asyncio.to_thread(server.stop if step.kind == deck.RESTART else server.kill)
        await asyncio.sleep(step.lasts_s / 4.0)
        for server in servers:
            await asyncio.to_thread(server.start)
        while not self._bus.connected:
            await asyncio.sleep(0.05)
        # Of three, the next one fails only once this one has caught up.
        await asyncio.sleep(UNSEEN_S)
        self._unseen.append((began_s - UNSEEN_S, time.monotonic()))

    async def _do_member(self, step: deck.Step, member: members.Member) -> None:
        if step.kind == deck.CUT_BUS:
            await asyncio.gather(*(faults.cut(wire, step) for wire in member.wires))
        elif step.kind == deck.CUT_API:
            await faults.cut(member.api, step)
        elif step.kind == deck.ONE_API:
            await faults.silence_one_server(member.api, step)
        elif step.kind == deck.STOP:
            member.send(signal.SIGSTOP)
            await asyncio.sleep(step.lasts_s)
            member.send(signal.SIGCONT)
        else:
            await member.end(signal.SIGKILL if step.kind == deck.KILL else signal.SIGTERM)
            member.start()

    def _take(self, kept: buses.Kept) -> None:
        """Take in a message that the stream has stored."""
        self.commits += 1
        try:
            found = wire.decode_claims(kept.payload, subject=kept.subject)
        except errors.MessageError as error:
            self.violations.append(f"{kept.subject}: {error}")
            return
        self._seen.update((claim.uid, found.node) for claim in found.claims)

    def lost(self) -> list[str]:
        """Return the Pods without a node."""
        return [f"{uid} was not bound within {self._run.settled_s:g} s" for uid in sorted(self._model.waiting)]

    def unclaimed(self) -> list[str]:
        """Return the binds without a claim."""
        return [
            f"{uid} was bound to {node} without a claim"
            for uid, (node, at_s) in self._model.bound.items()
            if (uid, node) not in self._seen and not any(began_s <= at_s <= end_s for began_s, end_s in self._unseen)
        ]

    async def _check_orphans(self) -> None:
        heard = await live_members.listen(self._bus)
        taking = [each for each in heard if not each.is_leaving and each.report is not None]
        if len(taking) != len(self._members):
            self.violations.append(f"{len(taking)} of {len(self._members)} schedulers share the work at the end")
        self.violations += [
            f"{each.replica} counts {each.report.orphans} claims without a Pod a lease after the last fault"
            for each in taking
            if each.report is not None and each.report.orphans
        ]

    async def _until(self, condition: Callable[[], bool], living: "asyncio.Task[None]", *, within_s: float) -> None:
        async with asyncio.timeout(within_s):
            while not condition():
                if living.done():
                    living.result()
                await asyncio.sleep(0.05)


async def record(folder: pathlib.Path, run: Run) -> tuple[Soak, model.Model]:
    """Make a run with its files in `folder`."""
    made = model.Model(folder, rng=random.Random(run.seed))
    nats = members.servers(folder, run.servers)
    with contextlib.ExitStack() as stack:
        for server in nats:
            stack.callback(server.kill)
            server.start()
        async with made.serving():
            settings = buses.BusSettings(url=",".join(each.url for each in nats), copies=run.servers)
            bus = await nats_bus.connect(settings, name="soak", clock=model.CLOCK)
            try:
                soak = Soak(run, made, nats, bus)
                async with members.running(folder, run.schedulers, made, nats) as processes:
                    await soak.run(processes)
            finally:
                await bus.close()
    return soak, made


def figures(soak: Soak, made: model.Model, took_s: float) -> list[str]:
    """Summarise a run."""
    answers = ", ".join(f"{count} with {status}" for status, count in sorted(made.answers.items()))
    return [
        f"{soak.commits} commits stored, {len(made.bound)} Pods bound in {took_s:.0f} s; "
        f"at most {made.largest} Pods on a node with room for {model.ROOM}",
        f"binds answered: {answers}; orphan claims ended: {soak.orphans}",
        f"{soak.faults.total()} faults: {', '.join(f'{count} {kind}' for kind, count in sorted(soak.faults.items()))}",
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Run as asked, print the figures and what was broken, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.claims.soak", description="Commit claims under faults."
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--commits", type=int, default=100_000)
    parser.add_argument("--schedulers", type=int, default=8)
    parser.add_argument("--servers", type=int, default=1, choices=(1, 3), help="NATS servers (default: 1)")
    asked = parser.parse_args(argv)
    # As Ctrl-C, so that nothing is left.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    run = Run(seed=asked.seed, commits=asked.commits, schedulers=asked.schedulers, servers=asked.servers)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="carico-claims-"))
    began_s = time.monotonic()
    soak, made = asyncio.run(record(folder, run))
    print(*figures(soak, made, time.monotonic() - began_s), sep="\n")
    for each in itertools.islice(soak.violations, 50):
        print(f"VIOLATION {each}")
    print(
        f"seed {run.seed}: {len(soak.violations)} violations", f"; logs in {folder}" if soak.violations else "", sep=""
    )
    if not soak.violations:
        shutil.rmtree(folder)
    return int(bool(soak.violations))


if __name__ == "__main__":
    sys.exit(main())
