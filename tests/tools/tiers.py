"""Run the tiers of the test suite, as several pytest runs, and print one summary line for all of them.

`python -m tests.tools.tiers parallel serial` is `make test`. `parallel` is `waiting`, then `clusters`, and `computing`
at the same time as both. These run with pytest-xdist: the tests of one file go to one worker, and so do all tests of
the shared control plane (`SHARED_PLANE`). `waiting` has tests that wait for processes most of the time, in more workers
than the machine has CPUs; `clusters` has two tests of whole clusters, of minutes each, in a worker each, which bear one
other run; `computing` has those that need a CPU all the time, in a worker for each CPU, which runs while no other test
wants it. `serial` has what measures this machine, and would fail when other tests run at the same time. `system` has
two workers, one of them for all tests that need Docker (`ENGINE`), of which a machine has one; it needs no idle machine
and may run next to `parallel`. `compose` has those of docker-compose.yml, which have deadlines; `deadlines` is it next
to `clusters`.

Exit code: 0 where every run succeeded, else 1. `--totals FILE` adds the results to those in FILE and prints the sum, so
that several commands can end with one line.
"""

import argparse
import collections
import contextlib
import fcntl
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from typing import IO, Any

import pytest
from xdist import scheduler as schedulers

from carico_core.runtime.process import memory_use
from carico_local.cluster import processes

# Files that assert what they measure of this machine.
SERIAL = (
    "tests/integration/agents/test_agent_cgroups.py", "tests/integration/nodes/test_node_load.py",
    "tests/integration/nodes/test_node_qos.py", "tests/security/test_security_bus_load.py",
)  # fmt: skip
# Two and three minutes, in which they wait more than they compute; at the same time.
CLUSTERS = ("tests/chaos/test_chaos_nemesis.py", "tests/e2e/test_e2e_compare_applications.py")
COMPUTING = ("tests/unit", "tests/golden", "tests/conformance", "tests/closed_loop")
# Files that take longer than half a minute, and a folder of such, are first, so that no worker ends long after others.
LONG = (
    "tests/integration/scheduler/test_scheduler_sharing.py", "tests/e2e/test_e2e_cluster.py",
    "tests/chaos/test_chaos_claims.py", "tests/integration/scheduler/test_scheduler_leadership.py",
    "tests/integration/identities/test_bus_security_callout.py", "tests/integration/cluster/test_docs_pages.py",
    "tests/e2e/test_e2e_preemption.py", "tests/chaos/test_chaos_faults.py",
    "tests/integration/services/test_aggregator_replicas.py", "tests/integration/identities/test_bus_bad_input.py",
    "tests/integration/services/test_rescheduler_real.py", "tests/e2e/test_e2e_demo_cut_short.py",
    "tests/chaos/test_chaos_outage.py", "tests/integration/services/test_recommender_real.py",
    "tests/integration/scheduler/test_scheduler_feasibility.py", "tests/e2e/test_e2e_compare.py",
    "tests/e2e/test_e2e_real_control_plane.py", "tests/e2e/test_e2e_recommend.py",
    "tests/closed_loop", "tests/unit/rescheduler/plan/test_rescheduler_convergence.py",
    "tests/unit/cli/rescheduling/test_rescheduling_command.py",
)  # fmt: skip
# One worker has all of these: another would start a control plane of its own, which takes five seconds of CPU time and
# a twentieth of a CPU until the end.
SHARED_PLANE = (
    "tests/contract", "tests/integration/cluster/test_control_plane_kwok.py",
    "tests/integration/cluster/test_job_refused.py", "tests/integration/deploy/test_deploy_admission.py",
    "tests/integration/deploy/test_deploy_callout.py", "tests/integration/deploy/test_deploy_extender.py",
    "tests/integration/deploy/test_deploy_helm.py", "tests/integration/deploy/test_deploy_manifests.py",
    "tests/integration/identities/test_bus_security_real.py",
    "tests/integration/scheduler/test_scheduler_extender.py",
    "tests/integration/scheduler/test_scheduler_leadership_real.py",
    "tests/integration/scheduler/test_scheduler_preemption_real.py",
    "tests/integration/scheduler/test_scheduler_volumes.py", "tests/integration/services/test_autoscaler_rules.py",
    "tests/integration/services/test_recommender_real.py", "tests/integration/services/test_rescheduler_real.py",
)  # fmt: skip
# A run of its own: it has deadlines from `docker compose up` on, of a dozen containers that start at once.
COMPOSE = "tests/e2e/compose"
# One worker has all of these, and the only Docker engine; the other one has kubelets of its own meanwhile.
ENGINE = (
    "tests/integration/deploy/test_docker_engine.py",
    *(
        f"tests/e2e/kubernetes/test_e2e_{each}.py"
        for each in ("compose_kube", "callout", "images", "kubelets", "overlays", "parts", "rights")
    ),
)  # fmt: skip
# Where tests of system software may be: `refuse_misplaced` refuses them elsewhere.
SYSTEM = ("tests/conformance", "tests/integration", "tests/e2e")
_SLOWEST = ("--durations=10", "--durations-min=5")
_QUICK = ("-m", "not system and not upstream", *_SLOWEST)
_SYSTEM = ("-m", "system and not upstream", *_SLOWEST)
RUNS: Mapping[str, tuple[str, ...]] = {
    "waiting": (*_QUICK, "tests", *(f"--ignore={path}" for path in (*COMPUTING, *CLUSTERS, *SERIAL))),
    "computing": (*_QUICK, *COMPUTING),
    "clusters": (*_QUICK, *CLUSTERS),
    "serial": (*_QUICK, *SERIAL),
    "system": (*_SYSTEM, *SYSTEM, f"--ignore={COMPOSE}"),
    "compose": (*_SYSTEM, COMPOSE),
    "upstream": ("-m", "upstream"),
}
# Runs one after another, which print as they go, and one in the background, which is printed once all have ended.
TOGETHER: Mapping[str, tuple[tuple[str, ...], str]] = {
    "parallel": (("waiting", "clusters"), "computing"), "deadlines": (("clusters",), "compose"),
}  # fmt: skip
# How much others go first, as for nice(1): those that wait would else wait for these, too, which go on next to whole
# clusters, when CPUs are free.
_NICE = {"computing": 19}
# In the order of pytest's own summary.
OUTCOMES = ("failed", "passed", "skipped", "xfailed", "xpassed", "warnings", "error")
# As a shell reports a command that SIGINT ended.
INTERRUPTED = 130
_WIDTH = 80
CPUS = len(os.sched_getaffinity(0))
# Where it is set, each worker would compile pytest's plugins, `conftest.py` and what that imports anew.
NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is named, print the summary, and return the exit code."""
    asked = _arguments(argv)
    signal.signal(signal.SIGTERM, _interrupt)
    with tempfile.TemporaryDirectory(prefix="carico-tests-") as made:
        totals = pathlib.Path(asked.totals or pathlib.Path(made) / "totals.jsonl")
        try:
            codes = [code for name in asked.runs for code in _run(name, asked.workers, totals)]
        except KeyboardInterrupt:
            return INTERRUPTED
        results = [json.loads(line) for line in totals.read_text().splitlines()] if totals.exists() else []
    print(*folder_lines(results), sep="\n")
    print(summary_line(results))
    return int(any(codes) or not results)


def summary_line(results: Sequence[Mapping[str, Any]]) -> str:
    """Total the runs in the words of pytest's own last line."""
    counts: collections.Counter[str] = collections.Counter()
    for result in results:
        counts.update(result["counts"])
    total_s = max(map(_ended_s, results), default=0.0) - min(map(_began_s, results), default=0.0)
    parts = [f"{counts[outcome]} {outcome}" for outcome in OUTCOMES if counts[outcome]]
    text = f" {', '.join(parts) or 'no tests ran'} in {total_s:.2f}s "
    return text.center(_WIDTH, "=")


def _began_s(result: Mapping[str, Any]) -> float:
    return float(result["began_s"])


def _ended_s(result: Mapping[str, Any]) -> float:
    return float(result["ended_s"])


def folder_lines(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """List how many seconds the tests of each folder took, the most first."""
    seconds: dict[str, float] = collections.defaultdict(float)
    for result in results:
        for folder, spent_s in result["folders"].items():
            seconds[folder] += spent_s
    return [f"{seconds[folder]:8.1f} s  {folder}" for folder in sorted(seconds, key=seconds.__getitem__, reverse=True)]


def add_options(parser: pytest.Parser) -> None:
    """Register the flag by which a run reports what came of it."""
    group = parser.getgroup("tiers", "parts of the test suite")
    group.addoption("--totals", metavar="FILE", type=pathlib.Path, help=argparse.SUPPRESS)


def configure(config: pytest.Config) -> None:
    """Register what divides the tests and what reports the results; workers report to the process that started them."""
    config.pluginmanager.register(_Division())
    path = config.getoption("--totals", None)
    if path is None:
        return
    if "PYTEST_XDIST_WORKER" in os.environ:
        config.pluginmanager.register(_Compilation(path.with_name(os.environ["PYTEST_XDIST_TESTRUNUID"])))
    else:
        config.pluginmanager.register(_Totals(path))


def refuse_misplaced(items: Sequence[pytest.Item]) -> None:
    """Raise `pytest.UsageError` where a test of system software is in a folder that its tier does not search."""
    for item in items:
        if item.get_closest_marker("system") is not None and not item.nodeid.startswith(SYSTEM):
            raise pytest.UsageError(f"{item.nodeid} is marked system: put it into one of {', '.join(SYSTEM)}")


def refuse_another_plane(item: pytest.Item) -> None:
    """Raise `pytest.UsageError` where a test of the shared control plane may run in a worker that has none."""
    if not item.nodeid.startswith((*SHARED_PLANE, "tests/upstream")) and item.get_closest_marker("system") is None:
        raise pytest.UsageError(f"{item.nodeid} shares the control plane: put its file into SHARED_PLANE")


def is_long(item: pytest.Item) -> bool:
    """Return whether a test's file is one of `LONG`, or of those of one worker, which are as long together."""
    return item.nodeid.startswith((*LONG, *SHARED_PLANE, *ENGINE))


class _Units(schedulers.LoadScopeScheduling):  # type: ignore[misc]
    """What goes to one worker: the tests of a file, those of `SHARED_PLANE`, and those of `ENGINE`."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return next((group[0] for group in (SHARED_PLANE, ENGINE) if nodeid.startswith(group)), file)


class _Division:
    """Divides the tests among workers."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> _Units | None:
        return _Units(config, log) if config.getoption("dist") == "loadfile" else None


class _Compilation:
    """Lets one worker of a run import all tests before the others, which then find their bytecode.

    None of them searches the imported for garbage, which is a tenth of the CPU time.
    """

    def __init__(self, lock: pathlib.Path) -> None:
        self._lock = lock

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Generator[None, Any, Any]:
        with self._lock.open("wb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                fcntl.flock(lock, fcntl.LOCK_SH)
            with memory_use.rare_collections():
                return (yield)


class _Totals:
    """Counts outcomes and seconds, and appends them to a file in place of pytest's summary line."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._began_s = time.monotonic()
        self._folders: dict[str, float] = collections.defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        folder = pathlib.PurePosixPath(report.nodeid.partition("::")[0]).parent
        self._folders[str(folder)] += report.duration

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        counts = {outcome: len(terminalreporter.stats.get(outcome, ())) for outcome in OUTCOMES}
        # One clock for all processes since the machine's start: runs may be at the same time.
        span = {"began_s": self._began_s, "ended_s": time.monotonic()}
        with self._path.open("a") as file:
            print(json.dumps({"counts": counts, **span, "folders": self._folders}), file=file)
        # The command that started this run prints one line for all.
        vars(terminalreporter)["summary_stats"] = lambda: None


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.tools.tiers", description="Run parts of the test suite.")
    names = (*TOGETHER, *RUNS)
    parser.add_argument("runs", nargs="+", choices=names, metavar="RUN", help=" | ".join(names))
    parser.add_argument("--workers", type=int, default=CPUS + 3, help="default: the CPUs and three more")
    parser.add_argument("--totals", metavar="FILE", help="add to the results of earlier commands")
    return parser.parse_args(argv)


def _run(name: str, workers: int, totals: pathlib.Path) -> list[int]:
    """Run one part, or several at the same time; return pytest's exit codes."""
    runs, in_background = TOGETHER.get(name, ((name,), None))
    started: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryFile() as output:
        try:
            if in_background is not None:
                started.append(_start(in_background, workers, totals, output))
            for run in runs:
                started.append(_start(run, workers, totals, None))
                started[-1].wait()
            return [each.wait() for each in started]
        except KeyboardInterrupt:
            for process in started:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGINT)
            for process in started:
                process.wait()
            raise
        finally:
            output.seek(0)
            sys.stdout.write(output.read().decode(errors="replace"))
            sys.stdout.flush()


def _start(name: str, workers: int, totals: pathlib.Path, output: IO[bytes] | None) -> "subprocess.Popen[bytes]":
    argv = [sys.executable, "-m", "pytest", f"--totals={totals}", *RUNS[name]]
    count = {"waiting": workers, "computing": min(workers, CPUS), "clusters": 2, "system": 2}.get(name, 1)
    if count > 1:
        # A crash would end every new worker too, which is given the same file.
        argv += [f"--numprocesses={count}", "--dist=loadfile", "--no-loadscope-reorder", "--max-worker-restart=0"]
    print(f"\n{name} tests: {' '.join(argv[1:])}", flush=True)
    end_with_parent = processes.end_with_parent(signal.SIGINT)
    environ = {name: value for name, value in os.environ.items() if name != NO_BYTECODE}

    def prepare() -> None:
        # In the background of a script it is ignored, and pytest would not end by it.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        end_with_parent()
        os.nice(_NICE.get(name, 0))

    # A group of its own, so that an interrupt reaches pytest and its workers once each, wherever it came from.
    return subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output and subprocess.STDOUT, process_group=0,
        env=environ, preexec_fn=prepare,
    )  # fmt: skip


def _interrupt(number: int, _: object) -> None:
    """Treat SIGTERM as Ctrl-C."""
    raise KeyboardInterrupt(signal.Signals(number).name)


if __name__ == "__main__":
    sys.exit(main())
