"""Run the tiers of the test suite, each as one or two pytest runs, and print one summary line for all of them.

`python -m tests.tools.tiers parallel serial` is `make test`. The parallel part has two pytest-xdist workers more than
the machine has CPUs, since most tests wait for processes most of the time; the tests of one file go to one worker. The
serial part has what measures this machine, or fills it, and would fail when other tests run at the same time. System
software (Docker, kubelets) exists once on a machine, so its tier runs in one process too; its part `browser` disturbs
no other tests and may run at the same time.

Exit code: 0 where every run succeeded, else 1. `--totals FILE` adds the results to those in FILE and prints the sum, so
that several commands can end with one line.
"""

import argparse
import collections
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from carico_local.cluster import processes

# Files that assert what they measure of this machine, or that fill it.
SERIAL = (
    "tests/e2e/test_e2e_compare.py", "tests/e2e/test_e2e_demo.py", "tests/e2e/test_e2e_real_control_plane.py",
    "tests/e2e/test_e2e_record.py", "tests/integration/test_agent_cgroups.py",
    "tests/integration/test_node_restarts.py", "tests/security/test_security_bus_load.py",
)  # fmt: skip
# Where tests of system software may be: `refuse_misplaced` refuses them elsewhere.
SYSTEM = ("tests/conformance", "tests/integration", "tests/e2e")
# The live page in a browser, with simulated nodes: it has no need of the machine for itself.
BROWSER = ("tests/e2e/web/test_e2e_web_identity.py", "tests/e2e/web/test_e2e_web_page.py")
_SLOWEST = ("--durations=10", "--durations-min=5")
_QUICK = ("-m", "not system and not upstream", *_SLOWEST)
_SYSTEM = ("-m", "system and not upstream", *_SLOWEST)
RUNS: Mapping[str, tuple[str, ...]] = {
    "parallel": (*_QUICK, "tests", *(f"--ignore={path}" for path in SERIAL)),
    "serial": (*_QUICK, *SERIAL),
    "browser": (*_SYSTEM, *BROWSER),
    "system": (*_SYSTEM, *SYSTEM, *(f"--ignore={path}" for path in BROWSER)),
    "upstream": ("-m", "upstream"),
}
# In the order of pytest's own summary.
OUTCOMES = ("failed", "passed", "skipped", "xfailed", "xpassed", "warnings", "error")
# As a shell reports a command that SIGINT ended.
INTERRUPTED = 130
_WIDTH = 80


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is named, print the summary, and return the exit code."""
    asked = _arguments(argv)
    signal.signal(signal.SIGTERM, _interrupt)
    with tempfile.TemporaryDirectory(prefix="carico-tests-") as made:
        totals = pathlib.Path(asked.totals or pathlib.Path(made) / "totals.jsonl")
        try:
            codes = [_run(name, asked.workers, totals) for name in asked.runs]
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
    total_s = sum(result["elapsed_s"] for result in results)
    parts = [f"{counts[outcome]} {outcome}" for outcome in OUTCOMES if counts[outcome]]
    text = f" {', '.join(parts) or 'no tests ran'} in {total_s:.2f}s "
    return text.center(_WIDTH, "=")


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
    """Register what reports the results; workers report to the process that started them."""
    path = config.getoption("--totals", None)
    if path is not None and "PYTEST_XDIST_WORKER" not in os.environ:
        config.pluginmanager.register(_Totals(path))


def refuse_misplaced(items: Sequence[pytest.Item]) -> None:
    """Raise `pytest.UsageError` where a test of system software is in a folder that its tier does not search."""
    for item in items:
        if item.get_closest_marker("system") is not None and not item.nodeid.startswith(SYSTEM):
            raise pytest.UsageError(f"{item.nodeid} is marked system: put it into one of {', '.join(SYSTEM)}")


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
        elapsed_s = time.monotonic() - self._began_s
        with self._path.open("a") as file:
            print(json.dumps({"counts": counts, "elapsed_s": elapsed_s, "folders": self._folders}), file=file)
        # The command that started this run prints one line for all.
        vars(terminalreporter)["summary_stats"] = lambda: None


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.tools.tiers", description="Run parts of the test suite.")
    parser.add_argument("runs", nargs="+", choices=RUNS, metavar="RUN", help=" | ".join(RUNS))
    parser.add_argument(
        "--workers", type=int, default=len(os.sched_getaffinity(0)) + 2, help="default: the CPUs and two more"
    )
    parser.add_argument("--totals", metavar="FILE", help="add to the results of earlier commands")
    return parser.parse_args(argv)


def _run(name: str, workers: int, totals: pathlib.Path) -> int:
    """Run one part; return pytest's exit code."""
    argv = [sys.executable, "-m", "pytest", f"--totals={totals}", *RUNS[name]]
    if name == "parallel" and workers > 1:
        # Ordered by name, short files of unit tests come last, so that the workers end at about the same time.
        # A crash would end every new worker too, which is given the same file.
        argv += [f"--numprocesses={workers}", "--dist=loadfile", "--no-loadscope-reorder", "--max-worker-restart=0"]
    print(f"\n{name} tests: {' '.join(argv[1:])}", flush=True)
    # A group of its own, so that an interrupt reaches pytest and its workers once each, wherever it came from.
    process = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, process_group=0, preexec_fn=processes.end_with_parent(signal.SIGINT)
    )
    try:
        return process.wait()
    except KeyboardInterrupt:
        os.killpg(process.pid, signal.SIGINT)
        process.wait()
        raise


def _interrupt(number: int, _: object) -> None:
    """Treat SIGTERM as Ctrl-C."""
    raise KeyboardInterrupt(signal.Signals(number).name)


if __name__ == "__main__":
    sys.exit(main())
