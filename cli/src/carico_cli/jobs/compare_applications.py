"""`carico compare --applications`: service times of three applications before and after their Pods are moved."""

import asyncio
import contextlib
import dataclasses
import functools
import itertools
import pathlib
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from carico_cli.clusters import starting
from carico_cli.jobs import compare_applications_page
from carico_cli.live import addresses, connection
from carico_cli.output import formats
from carico_cli.output import report as report_folder
from carico_cli.rescheduling import cluster as reschedulers
from carico_cli.shell import exits, settings
from carico_core.domain import errors
from carico_core.runtime.process import clock as clocks
from carico_local.applications import catalog
from carico_local.cluster import folders, machine, state
from carico_local.cluster import plan as plans
from carico_local.compare.applications import contender as contenders
from carico_local.compare.applications import descheduler, experiment, pods, result

CONNECT_MOST_S = 10.0
# --load: all of `contenders.LOADS`, one after the other.
BOTH = "both"
# Plans that are carried out one after another at most; one ends at the first move that fails.
ROUNDS = 3
# Between nodes, as the paper's evaluation is repeated here.
DELAY_MS, RATE_MBIT = 0.5, 1000.0
# Nodes of half a processor, as usual, but with twice the memory: a Pod of a class that is not measured yet counts much.
CORES, SCALE = 2, 0.25
# Why a run has no result after Ctrl-C.
_CUT_SHORT = "interrupted"
# The rescheduler of the comparison: it moves when it is asked to, everything that gains, and also young Pods. A node is
# overloaded above .8 runnable tasks per core (the paper: 1): where the kernel reports no waiting, a node's tasks never
# exceed its cores.
RESCHEDULER = {
    "AUTOMATIC": "false", "EVERY_S": "3600", "LEAST_AGE_S": "5", "LEAST_BYTES": "1000", "LEAST_TASKS": "0.2",
    "MOST_MOVES": "100", "MOVES_PER_HOUR": "100000", "CEILING_CPU": "0.4",
    "PLACE_S": "10",
}  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is compared. `loads`: names of `contenders.LOADS`. `repeats`: runs of each contender, in turn."""

    contenders: Sequence[contenders.PlacementContender]
    loads: Sequence[str]
    repeats: int
    spans: experiment.Spans
    delay_ms: float


def asked(given: Mapping[str, Any]) -> Asked:
    """Return what the flags ask for. Raises `SettingsError`."""
    is_quick = bool(given["quick"])
    names = given["chosen"] or (contenders.QUICK if is_quick else contenders.NAMES)
    delay_ms = DELAY_MS if given["delay_ms"] is None else float(given["delay_ms"])
    if not 0.0 <= delay_ms <= 1e3:
        raise errors.SettingsError(f"--delay-ms: got {delay_ms:g}, expected 0 to 1000")
    return Asked(
        contenders=[contenders.parse(each) for each in names],
        loads=_loads(given["load"], is_quick=is_quick),
        repeats=given["repeats"] or 1,
        spans=experiment.QUICK if is_quick else experiment.Spans(),
        delay_ms=delay_ms,
    )


def _loads(asked: str | None, *, is_quick: bool) -> tuple[str, ...]:
    if asked is None:
        return ("low",) if is_quick else tuple(contenders.LOADS)
    return tuple(contenders.LOADS) if asked == BOTH else (asked,)


def request(chosen: plans.Options) -> plans.Options:
    """Return the cluster: the paper's nodes unless the flags say otherwise, a real control plane, a rescheduler.

    Raises `SettingsError` for nodes that do not run Pods here.
    """
    if chosen.node_kind != plans.NodeKind.PROCESS:
        raise errors.SettingsError(f"--nodes: got {chosen.node_kind}, expected process nodes with --applications")
    nodes = catalog.NODES if chosen.nodes is None else chosen.nodes
    cores, scale = chosen.cores, chosen.scale
    if (cores, scale) == (plans.DEFAULT_CORES, plans.DEFAULT_SCALE):
        cores, scale = CORES, SCALE
    return dataclasses.replace(chosen, nodes=nodes, cores=cores, scale=scale, rescheduler=True)


def compare(context: settings.Context, chosen: plans.Options, wanted: Asked, given: Mapping[str, Any]) -> int:
    """Run all contenders, and write the report.

    Return the exit code: 1 if a request failed where none may, or a run has no result; 130 after Ctrl-C.
    """
    prints_json = given["output"] is formats.Output.JSON
    out: pathlib.Path = given["out"] or pathlib.Path("var") / chosen.name
    report_folder.check(out)
    with contextlib.redirect_stdout(sys.stderr) if prints_json else contextlib.nullcontext():
        found = asyncio.run(_compare(context, request(chosen), wanted))
    pages = compare_applications_page
    report_folder.deliver(
        out, "applications", found, page=pages.page, text=pages.text, as_json=prints_json, err=prints_json
    )  # fmt: skip
    if any(each["why"] == _CUT_SHORT for each in found["missing"]):
        return exits.INTERRUPTED
    failed = any(each["failed"] for each in found["runs"] if each["contender"] == contenders.CARICO)
    return int(failed or bool(found["missing"]))


async def _compare(context: settings.Context, chosen: plans.Options, wanted: Asked) -> dict[str, Any]:
    binaries = starting.obtain(chosen, context)
    program = _descheduler(context, wanted)
    environ = {**context.environ, **{f"CARICO_RESCHEDULER_{name}": each for name, each in RESCHEDULER.items()}}
    async with starting.measured(chosen, binaries, context, environ) as cluster:
        runs, missing = await _runs(cluster.paths, cluster.state, wanted, program)
        stamp = report_folder.stamp(clocks.SystemClock().wall_ns())
        return {**result.report(runs, missing, _setting(cluster.state.plan, wanted, cluster.notes)), **stamp}


def _descheduler(context: settings.Context, wanted: Asked) -> pathlib.Path | None:
    if all(each.name != contenders.DESCHEDULER for each in wanted.contenders):
        return None
    from carico_local.binaries import tools

    name = contenders.DESCHEDULER
    found = tools.obtain(
        [name], environ=context.environ, clock=clocks.SystemClock(),
        report=lambda step: None if step.passing else formats.say(step.text),
    )  # fmt: skip
    return found[name].path


async def _runs(
    paths: folders.Paths, found: state.ClusterState, wanted: Asked, program: pathlib.Path | None
) -> tuple[list[result.Run], list[result.Missing]]:
    at = addresses.of_state(paths, found)
    plan, clock = found.plan, clocks.SystemClock()
    async with contextlib.AsyncExitStack() as stack:
        live = await stack.enter_async_context(connection.connect_to(at))
        bus = await stack.enter_async_context(
            connection.bus_of(at, clock, name=reschedulers.USER_AGENT, within_s=CONNECT_MOST_S)
        )
        known, server = await stack.enter_async_context(pods.following(live.api))
        asker = reschedulers.ReschedulerAsker(bus, at)

        async def move(contender: contenders.PlacementContender) -> tuple[int, str]:
            if contender.name == contenders.DESCHEDULER:
                assert program is not None
                before = known.found.keys() & {each.uid for each in known.serving()}
                await descheduler.run(program, paths.kubeconfig)
                await known.until_ready(list(catalog.SERVICES), experiment.READY_MOST_S)
                return len(before - known.found.keys()), ""
            if not contender.algorithm:
                return 0, ""
            moved, rests = 0, ""
            for _ in range(ROUNDS):
                made: list[reschedulers.Answer] = []
                answer = await asker.apply({"algorithm": contender.algorithm}, made.append)
                more, rests = sum(each["state"] == "moved" for each in made), str(answer["rests"])
                moved += more
                if not more:
                    break
            return moved, rests

        testbed = experiment.ApplicationTestbed(
            api=live.api, clock=clock, nodes=plan.node_names, node_cores=plan.cores,
            node_memory_bytes=plans.NODE_MEMORY_BYTES, pods=known, server=server, move=move,
            delay_ms=wanted.delay_ms, rate_mbit=RATE_MBIT,
        )  # fmt: skip
        return await all_of(wanted, functools.partial(_one, testbed, wanted.spans))


async def all_of(
    wanted: Asked, one: Callable[[contenders.PlacementContender, str], Awaitable[result.Run]]
) -> tuple[list[result.Run], list[result.Missing]]:
    """Make every run, and return those with a result and the others: one that fails does not cost the rest.

    Nor does Ctrl-C cost those that have ended; without any, `asyncio.CancelledError` is raised.
    """
    runs, missing = list[result.Run](), list[result.Missing]()
    every = [
        (load, contender)
        for load, _, contender in itertools.product(wanted.loads, range(wanted.repeats), wanted.contenders)
    ]
    for number, (load, contender) in enumerate(every):
        try:
            runs.append(await one(contender, load))
        except asyncio.CancelledError:
            if not runs:
                raise
            missing += [result.Missing(contender=each.name, load=at, why=_CUT_SHORT) for at, each in every[number:]]
            break
        except errors.CaricoError as error:
            missing.append(result.Missing(contender=contender.name, load=load, why=str(error)))
            formats.say(f"{load} load, {contender.name}: no result: {error}")
    return runs, missing


async def _one(
    testbed: experiment.ApplicationTestbed, spans: experiment.Spans, contender: contenders.PlacementContender, load: str
) -> result.Run:
    run = await experiment.run(testbed, contender, contenders.LOADS[load], spans)
    times = ", ".join(
        f"{name} {formats.number(run.before.times[name].mean_ms)} -> {formats.number(run.after.times[name].mean_ms)} ms"
        for name in catalog.APPLICATIONS
    )
    formats.say(f"{load} load, {contender.name}: {times}; {run.moves} moves, {run.failed} of {run.requests} failed")
    if run.rests:
        formats.say(f"  no more was moved: {run.rests}")
    return run


def _setting(plan: plans.Plan, wanted: Asked, notes: Sequence[str]) -> dict[str, Any]:
    return {
        "nodes": plan.nodes, "cores": plan.cores, "node_memory_bytes": plans.NODE_MEMORY_BYTES, "scale": plan.scale,
        "delay_ms": wanted.delay_ms, "rate_mbit": RATE_MBIT, "repeats": wanted.repeats,
        "spans_s": dataclasses.asdict(wanted.spans),
        "loads": {name: dataclasses.asdict(contenders.LOADS[name]) for name in wanted.loads}, "notes": list(notes),
        "machine": machine.read_machine().described(),
    }  # fmt: skip
