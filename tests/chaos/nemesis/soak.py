"""Faults at random on a whole cluster while Pods come and go; then the checker judges what was recorded.

`python -m tests.chaos.nemesis.soak --seed 7 --minutes 60` (`make soak SEED=7 MINUTES=60`) prints the figures and each
violation; exit code 1 if there is any. `test_chaos_nemesis.py` is the short run.
"""

import argparse
import asyncio
import collections
import dataclasses
import itertools
import os
import pathlib
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from carico_core.runtime.bus import nats_bus
from carico_core.wire import subjects
from tests.chaos.nemesis import checker, deck, faults, history, looks, nemesis_site, recorder, workload


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The size of a run. `longest_s`: of one fault; `every_s`: from one to the next, in the mean."""

    seed: int
    seconds: float
    longest_s: float
    limits: checker.Limits
    every_s: float = 2.4
    # Of NATS: one or three.
    servers: int = 1
    # Pods that start, and binds that can be judged by room, before the end, however slow the machine is.
    least_starts: int = 0
    least_judged: int = 0

    @property
    def cards(self) -> Sequence[tuple[str, str]]:
        """The deck."""
        return deck.CARDS if self.servers == 1 else deck.OF_THREE

    def steps(self) -> list[deck.Step]:
        """Return its faults."""
        return deck.deal(
            self.seed, seconds=self.seconds, longest_s=self.longest_s, every_s=self.every_s, cards=self.cards
        )  # fmt: skip


async def record(root: pathlib.Path, run: Run) -> history.History:
    """Return what happened in a cluster below `root` under the faults of a run."""
    found = history.History(pod_class=f"app/default/{workload.APP}")
    made = nemesis_site.Site(root, name=f"nemesis-{os.getpid()}", into=found, servers=run.servers)
    async with made.running() as site, looks.Looks(site).running() as seen_by_commands:
        bus = await nats_bus.connect(site.bus.owner, name="nemesis", clock=nemesis_site.CLOCK, owns_streams=False)
        seen = recorder.Recorder(site)
        work = workload.Work(site, random.Random(run.seed + 1))
        tasks: list[asyncio.Task[Any]] = []
        try:
            await bus.subscribe(subjects.CAPACITY_ALL, seen.on_advertisement)
            await bus.subscribe(subjects.DECISION_ALL, seen.on_decision)
            await work.label_nodes()
            tasks = [
                asyncio.create_task(each)
                for each in (seen.follow_pods(), site.sample_forever(), site.supervise_forever())
            ]
            work.start()
            await _until(lambda: len(found.binds) >= 5, tasks, within_s=120.0)
            await faults.Faults(site, seen_by_commands).do_all(run.steps())
            _raise_failed(tasks)
            await _until(lambda: _starts(site.read_runs()) >= run.least_starts, tasks, within_s=run.limits.settled_s)
            await _until(lambda: checker.judged(found) >= run.least_judged, tasks, within_s=run.limits.settled_s)
            await work.finish()
            try:
                await _until(seen.all_ended, tasks, within_s=run.limits.settled_s + 10.0)
            except TimeoutError:
                await site.write_pages()
            await seen_by_commands.until_well(within_s=run.limits.settled_s)
        finally:
            for task in tasks:
                task.cancel()
            work.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await bus.close()
        found.out_of_memory, found.short_of_memory = site.memory.killed(tuple(site.parts))
        found.runs = list(site.read_runs())
    found.binds.sort(key=lambda each: each.sent_s)
    return found


def judge(folder: pathlib.Path, run: Run) -> tuple[history.History, list[checker.Violation]]:
    """Make a run below `folder`; return its history and violations. With any of these, its logs are in `logs` there."""
    with nemesis_site.disk(folder / "carico" / "cluster") as root:
        found = asyncio.run(record(root, run))
        violations = checker.check(found, run.limits)
        if violations:
            shutil.copytree(root / "logs", folder / "logs")
    return found, violations


def _starts(runs: Iterable[history.Run]) -> int:
    """Count the Pods that started."""
    return sum(run.is_start for run in runs)


async def _until(condition: Callable[[], bool], tasks: Sequence[asyncio.Task[Any]], *, within_s: float) -> None:
    """Return once the condition holds; raise what a task raised, or TimeoutError."""
    async with asyncio.timeout(within_s):
        while not condition():
            _raise_failed(tasks)
            await asyncio.sleep(0.1)


def _raise_failed(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        if task.done():
            task.result()
            raise AssertionError("a recorder has ended")


def figures(found: history.History) -> list[str]:
    """Summarise a run."""
    kinds = collections.Counter(each.kind for each in found.faults)
    accepted = [each for each in found.binds if each.status == checker.CREATED]
    holders = [each.holder for each in found.terms if each.holder]
    changes = sum(a != b for a, b in itertools.pairwise(holders))
    lines = [
        f"{len(found.pods)} Pods, {sum(pod.deleted_s is not None for pod in found.pods)} of them deleted; "
        f"{_starts(found.runs)} ran; {len(accepted)} binds accepted of {len(found.binds)} sent; "
        f"{changes} changes of leader; {len(found.decisions)} decisions, {len(found.advertised)} advertisements seen",
        f"{len(found.faults)} faults: {', '.join(f'{count} {kind}' for kind, count in sorted(kinds.items()))}",
        f"{len(found.ends)} services ended by themselves: {', '.join(each.service for each in found.ends) or 'none'}",
        f"{found.short_of_memory} kills by the kernel at memory limits that were too low",
        f"{checker.judged(found)} binds judged by room; last bind {checker.placed_s(found):.1f} s after the last fault",
    ]
    by_service: dict[str, list[history.Sample]] = collections.defaultdict(list)
    for sample in found.samples:
        by_service[sample.service].append(sample)
    for service, samples in sorted(by_service.items()):
        lines.append(
            f"{service}: at most {max(each.rss_bytes for each in samples) / 1e6:.0f} MB, "
            f"{max(each.descriptors for each in samples)} descriptors, {max(each.threads for each in samples)} threads"
        )
    return lines


def timeline(found: history.History) -> list[str]:
    """List faults, terms and cordons in order, in seconds since the first event."""
    first_s = min(pod.created_s for pod in found.pods)
    lines = [
        (each.began_s, f"{each.kind} of {each.target} for {each.ended_s - each.began_s:.1f} s") for each in found.faults
    ]
    lines += [(each.at_s, f"{each.service} has ended by itself") for each in found.ends]
    lines += [(each.at_s, f"{'cordon' if each.is_on else 'uncordon'} {each.node}") for each in found.cordons]
    terms = [found.terms[0], *(b for a, b in itertools.pairwise(found.terms) if a.holder != b.holder)]
    lines += [(each.at_s, f"Lease of {each.holder or 'none'}") for each in terms]
    return [f"{at_s - first_s:7.1f}  {text}" for at_s, text in sorted(lines)]


def main(argv: Sequence[str] | None = None) -> int:
    """Run as long as asked, print the figures and violations, and return the exit code."""
    what = "Do faults at random to a whole cluster, and check what became of its Pods."
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.nemesis.soak", description=what)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--longest", type=float, default=60.0, help="seconds of the longest fault (default: 60)")
    parser.add_argument("--servers", type=int, default=1, choices=(1, 3), help="NATS servers (default: 1)")
    asked = parser.parse_args(argv)
    # As Ctrl-C, so that nothing is left.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    run = Run(
        seed=asked.seed, seconds=asked.minutes * 60.0, longest_s=asked.longest, limits=checker.Limits(),
        servers=asked.servers,
    )  # fmt: skip
    folder = pathlib.Path(tempfile.mkdtemp(prefix="carico-soak-"))
    found, violations = judge(folder, run)
    print(*figures(found), sep="\n")
    if violations:
        print(*timeline(found), sep="\n")
    for each in violations:
        print(f"VIOLATION {each}")
    print(f"seed {run.seed}: {len(violations)} violations", f"; logs in {folder}/logs" if violations else "", sep="")
    if not violations:
        shutil.rmtree(folder)
    return int(bool(violations))


if __name__ == "__main__":
    sys.exit(main())
