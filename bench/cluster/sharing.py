"""Schedulers that share the work, against one that leads, on real processes: `python -m bench sharing`.

A real kube-apiserver and etcd (without fsync), no kubelets, 1,000 Nodes that advertise, by turns:

- one scheduler works off a backlog that is already there, as leader and as the only member;
- one member, four, and a leader with three standbys get Pods as fast as the API creates them, once all are ready: CPU
  of all schedulers a Pod, commits in conflict, Pods that were decided on again, evenness. Their rate is that of the
  API, so it is not compared;
- eight processes commit claims with the scheduler's own code, and nothing else.

CPU a Pod is without what advertisements cost, as measured while nothing else happens: they come by the second, so that
a slower run would have more of them for each Pod.
"""

import asyncio
import collections
import contextlib
import dataclasses
import functools
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from typing import Any

from bench import _process
from bench.cluster import _claimer, _cluster
from carico_cli.live import members
from carico_core.domain import messages
from tests.tools.sites import nats_site

Row = tuple[str, float, str, str]
NODES, PODS = 1000, 3000
WRITERS = 8
IDLE_S = 5.0
LEADER, SHARED = "leader", "shared"
ONE, FOUR, STANDBYS = "one member", "four members", "a leader and three standbys"
TEAMS = {ONE: (SHARED, 1), FOUR: (SHARED, 4), STANDBYS: (LEADER, 4)}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One run: Pods a second, CPU of all schedulers for the Pods and for an advertisement, reports, Pods by Node."""

    pods_per_s: float
    cpu_s: float
    heard_us: float
    reports: list[messages.MemberReport]
    on_nodes: list[int]


def run(quick: bool) -> list[Row]:
    """Leader against one member, one member against four, and claims a second."""
    runs = 1 if quick else 3
    backlog: dict[str, list[Found]] = {LEADER: [], SHARED: []}
    streams: dict[str, list[Found]] = {team: [] for team in TEAMS}
    for _ in range(runs):
        for mode, found in backlog.items():
            found.append(_in_a_folder(_work_off, mode))
        for team, found in streams.items():
            found.append(_in_a_folder(_keep_up, team))
    claimed = [claims(3.0 if quick else 10.0) for _ in range(runs)]
    return [
        *_backlog_rows(backlog), *_stream_rows(streams),
        (
            f"claims committed by {WRITERS} processes on {NODES:,} Nodes",
            statistics.median(per_s for per_s, _ in claimed), "1/s", "at least 5000",
        ),
        ("... CPU of these and NATS a claim", statistics.median(cpu_us for _, cpu_us in claimed), "us", ""),
    ]  # fmt: skip


def _backlog_rows(found: dict[str, list[Found]]) -> list[Row]:
    what = f"{PODS:,} Pods on {NODES:,} Nodes, one scheduler"
    rates = {mode: statistics.median(each.pods_per_s for each in runs) for mode, runs in found.items()}
    cpu_us = {mode: statistics.median(each.cpu_s for each in runs) / PODS * 1e6 for mode, runs in found.items()}
    return [
        *((f"{what}: {mode}", rates[mode], "Pods/s", "") for mode in found),
        (f"{what}: shared, of leader", rates[SHARED] / rates[LEADER], "", "at least 0.85"),
        *((f"{what}, CPU a Pod: {mode}", cpu_us[mode], "us", "") for mode in found),
        (f"{what}, CPU a Pod: shared, of leader", cpu_us[SHARED] / cpu_us[LEADER], "", "at most 1.15"),
    ]


def _stream_rows(found: dict[str, list[Found]]) -> list[Row]:
    what = f"{PODS:,} Pods created at once"
    cpu_us = {team: statistics.median(each.cpu_s for each in runs) / PODS * 1e6 for team, runs in found.items()}
    reports = [each for run in found[FOUR] for each in run.reports]
    stored, conflicts = sum(each.stored for each in reports), sum(each.conflicts for each in reports)
    parts = [each.stored * 4 / sum(one.stored for one in run.reports) for run in found[FOUR] for each in run.reports]
    rows = [(f"{what}, CPU of all a Pod: {team}", cpu_us[team], "us", "") for team in found]
    rows += [
        (f"{what}, CPU a Pod: four members, of one", cpu_us[FOUR] / cpu_us[ONE], "", "at most 1.15"),
        (f"{what}, CPU a Pod: four members, of a leader and three standbys", cpu_us[FOUR] / cpu_us[STANDBYS], "", ""),
    ]
    for team, runs in found.items():
        heard_us = statistics.median(each.heard_us for each in runs)
        deviation = statistics.median(statistics.pstdev(each.on_nodes) for each in runs)
        rows.append((f"CPU of all an advertisement: {team}", heard_us, "us", ""))
        rows.append((f"{what}: deviation of Pods between Nodes, {team}", deviation, "Pods", ""))
    again = sum(each.requeued for each in reports)
    rows += [
        (f"{what}, four members: conflicts, of commits", 100.0 * conflicts / (stored + conflicts), "%", "at most 2"),
        (f"{what}, four members: Pods decided on again", 100.0 * again / stored, "%", "at most 0.1"),
        (f"{what}, four members: the least part of one, of a quarter", min(parts), "", ""),
    ]
    return rows


async def _work_off(folder: pathlib.Path, mode: str) -> Found:
    """Let one scheduler work off a backlog."""
    async with _cluster.running(folder, NODES) as cluster:
        await cluster.create_pods(PODS, "carico")
        with cluster.scheduler(_cluster.CARICO, "--sharing", mode) as process:
            used = functools.partial(_used, cluster, [process])
            await cluster.until_bound(1)
            began = used()
            await cluster.until_bound(PODS)
            ended = used()
            heard_s = await _heard_s(used)
        return _found(cluster, began, ended, heard_s, [])


async def _keep_up(folder: pathlib.Path, team: str) -> Found:
    """Create Pods for several schedulers, once all of them are ready."""
    mode, count = TEAMS[team]
    async with _cluster.running(folder, NODES) as cluster:
        with contextlib.ExitStack() as stack:
            names = [f"scheduler-{index}" for index in range(count)]
            flags = ("--sharing", mode, "--leader-identity")
            processes = [stack.enter_context(cluster.scheduler(name, *flags, name)) for name in names]
            while mode == SHARED and sum(not each.is_leaving for each in await members.listen(cluster.bus)) < count:
                cluster.check()
            await cluster.create_pods(1, "carico", prefix="first")
            await cluster.until_bound(1)

            used = functools.partial(_used, cluster, processes)
            heard_s = await _heard_s(used)
            began = used()
            await cluster.create_pods(PODS, "carico")
            await cluster.until_bound(PODS + 1)
            ended = used()
            heard = await members.listen(cluster.bus)
        return _found(cluster, began, ended, heard_s, [each.report for each in heard if each.report is not None])


def _used(cluster: _cluster.Cluster, processes: Iterable[subprocess.Popen[bytes]]) -> tuple[float, int]:
    """Return the CPU time of all processes so far, and the number of advertisements."""
    return sum(_process.cpu_s(each.pid) for each in processes), cluster.advertised


async def _heard_s(used: Callable[[], tuple[float, int]]) -> float:
    """Return the CPU time for an advertisement, while nothing else happens."""
    began_s, before = used()
    await asyncio.sleep(IDLE_S)
    ended_s, after = used()
    return (ended_s - began_s) / max(after - before, 1)


def _found(
    cluster: _cluster.Cluster, began: tuple[float, int], ended: tuple[float, int], heard_s: float,
    reports: list[messages.MemberReport],
) -> Found:  # fmt: skip
    bound_s = sorted(cluster.bound_s.values())
    return Found(
        pods_per_s=(PODS - 1) / (bound_s[-1] - bound_s[0]),
        # By their number, not by time: on a busy machine fewer of them come.
        cpu_s=ended[0] - began[0] - heard_s * (ended[1] - began[1]),
        heard_us=1e6 * heard_s,
        reports=reports,
        on_nodes=cluster.on_nodes,
    )


def claims(seconds: float) -> tuple[float, float]:
    """Return how many claims all writers together commit a second, and the CPU for each, NATS included, in us."""
    with tempfile.TemporaryDirectory() as folder:
        nats = nats_site.NatsServer(pathlib.Path(folder) / "nats").start()
        writers: list[subprocess.Popen[str]] = []
        try:
            asyncio.run(_claimer.prepare(nats.url))
            for index in range(WRITERS):
                command = [sys.executable, "-m", "bench.cluster._claimer", nats.url, f"writer-{index}", str(seconds)]
                writers.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
            for each in writers:
                _line(each, "ready")
            pids = [nats.pid, *(each.pid for each in writers)]
            began_s = sum(map(_process.cpu_s, pids))
            for each in writers:
                assert each.stdin is not None
                each.stdin.write("go\n")
                each.stdin.flush()
            counts: collections.Counter[str] = collections.Counter()
            for each in writers:
                counts.update(json.loads(_line(each, "{")))
            # Those that have ended are still there until they are waited for.
            cpu_s = sum(map(_process.cpu_s, pids)) - began_s
        finally:
            for each in writers:
                each.kill()
                each.wait()
            nats.stop()
    print(f"claims by outcome: {dict(counts)}", file=sys.stderr)
    return counts["stored"] / seconds, cpu_s / counts["stored"] * 1e6


def _line(process: subprocess.Popen[str], begins: str) -> str:
    """Return the next line of its output that begins so; the others are log lines."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(begins):
            return line
    raise AssertionError("a writer has ended")


def _in_a_folder(work: Any, argument: Any) -> Found:
    async def working() -> Found:
        with tempfile.TemporaryDirectory() as folder:
            found: Found = await work(pathlib.Path(folder), argument)
            return found

    return asyncio.run(working())
