"""Kubernetes' own scheduler_perf workloads, with CARICO and with the kube-scheduler of the same version.

`python -m bench scheduler_perf` plays one workload of each case that can be played, of at most 1,000 Nodes and 3,000
Pods; with `--quick` the smallest. `python -m bench.scheduler_perf [CASE ...] [--size smallest|short|largest] [--list]`
chooses. As upstream's own runner does: no kubelets, no admission by ServiceAccount, taints or priority, no limit on
requests; the scheduler is a process of its own here, as it is in a cluster. The figure is the number of measured Pods
bound a second, from the first to the last as the API's watch shows them; 0 if not all were bound within ten minutes.
kube-scheduler runs with its defaults, and with the gate SchedulerAsyncAPICalls.
"""

import argparse
import asyncio
import pathlib
import sys
import tempfile
from collections.abc import Iterable, Mapping

from bench.cluster import _cluster, _player, _workloads

Row = tuple[str, float, str, str]
ASYNC = "kube-scheduler, async API calls"
# Some workloads have one Node for all Pods, and some wait until each Pod's status states that it was refused.
_CARICO_FLAGS = (
    "--names", "default-scheduler", "--max-pods-per-core", "1000",
    "--event-after-s", "0", "--conditions-per-s", "1000",
)  # fmt: skip
CONTENDERS = {
    _cluster.CARICO: (_cluster.CARICO, _CARICO_FLAGS),
    _cluster.KUBE: (_cluster.KUBE, ()),
    ASYNC: (_cluster.KUBE, ("--feature-gates=SchedulerAsyncAPICalls=true",)),
}
ADMISSION = "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,Priority"
SIZES = {"smallest": _workloads.smallest, "short": _workloads.short, "largest": _workloads.largest}


def run(quick: bool) -> list[Row]:
    """Pods bound a second in each case, by each contender."""
    return rows(size="smallest" if quick else "short")


def rows(*, size: str, cases: Iterable[str] = (), contenders: Iterable[str] = CONTENDERS) -> list[Row]:
    """Play a workload of this size of each case, or of those named."""
    known = _workloads.read(_workloads.folder())
    found: list[Row] = []
    for case in cases or known:
        workload = SIZES[size](known[case])
        for name in contenders:
            scheduler, flags = CONTENDERS[name]
            rate = asyncio.run(_rate(workload, scheduler, flags))
            found.append((f"{case} {workload.name}: {name}", rate, "Pods/s", ""))
            print(f"{found[-1][0]}: {rate:.0f} Pods/s", file=sys.stderr, flush=True)
    return found


def listing(known: Mapping[str, list[_workloads.Workload]]) -> list[str]:
    """Format Nodes and Pods of each size, and upstream's floor for the largest, as a table of Markdown."""
    lines = [
        f"| case (Nodes, Pods) | {' | '.join(SIZES)} | floor of the largest |",
        f"|---|{'---|' * (len(SIZES) + 1)}",
    ]
    for case, workloads in known.items():
        chosen = [choose(workloads) for choose in SIZES.values()]
        floor = chosen[-1].floor
        sizes = " | ".join(f"{each.nodes}, {each.pods}" for each in chosen)
        lines.append(f"| {case} | {sizes} | {'' if floor is None else f'{floor:g} /s'} |")
    return lines


async def _rate(workload: _workloads.Workload, scheduler: str, flags: tuple[str, ...]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        async with _cluster.empty(pathlib.Path(folder), ADMISSION) as cluster:
            with cluster.scheduler(scheduler, *flags):
                async with _player.on(cluster, cluster.check) as player:
                    try:
                        return await player.play(workload)
                    except TimeoutError:
                        return 0.0


def main() -> int:
    """Play what is named and return the exit code."""
    known = _workloads.read(_workloads.folder())
    parser = argparse.ArgumentParser(prog="python -m bench.scheduler_perf", description="Play workloads of upstream's.")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="which (default: all that --list names)")
    parser.add_argument("--size", choices=SIZES, default="short", help="which workload of each case (default: short)")
    parser.add_argument("--contender", choices=CONTENDERS, help="only this one (default: all, by turns)")
    parser.add_argument("--list", action="store_true", help="list cases with the workload of each size, play none")
    asked = parser.parse_args()
    unknown = sorted(set(asked.cases) - set(known))
    if unknown:
        parser.error(f"no case named {', '.join(unknown)}; --list names all")
    if asked.list:
        print(*listing(known), sep="\n")
        return 0
    contenders = (asked.contender,) if asked.contender else CONTENDERS
    for what, value, unit, _ in rows(size=asked.size, cases=asked.cases, contenders=contenders):
        print(f"{what}: {value:,.0f} {unit}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
