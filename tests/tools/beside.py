"""Tests that may run beside others, by two pytests: what the second finds is told in the first.

`pytest --beside`, which is `make test`, starts the second where there are two CPUs. It begins with the tests on a real
control plane, the first with all others that wait. Then both go through what needs a CPU and little else, the second
from its beginning and the first from its end, until they meet: neither waits for the other for long, on any machine.
What the second finds is told as it comes, and all of it before the first test that measures this machine. Failures,
`-k`, `-x`, `--durations` and the summary are as without it. No other flag reaches the second, which is why
`make test ARGS=...` does without.

pytest-xdist runs every test in a worker: Ctrl-C then ends the worker with its clusters still up, and nothing holds a
test back until others are through.
"""

import argparse
import collections
import contextlib
import itertools
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from typing import Any

import pytest

from carico_local.cluster import ports, processes

# A file of these is run by whoever comes to it first. Few state a time, and none one that a busy machine misses.
SHARED = (
    "tests/unit/", "tests/golden/", "tests/closed_loop/", "tests/conformance/test_estimators.py",
    "tests/chaos/test_chaos_faults.py", "tests/e2e/web/test_e2e_web_page.py",
)  # fmt: skip
# The second's, where one control plane serves them all and ends with it.
SECOND = "real_programs"
# From the first of these on the machine is the first pytest's alone. Agents of whole clusters measure it, and so do two
# tests more; the engine of the last is at work for `tests.tools.prepare` in the first minutes.
ALONE = (
    "tests/e2e/", "tests/chaos/",
    "tests/integration/test_agent_cgroups.py", "tests/integration/test_node_restarts.py::test_a_node_reads_as_loaded",
    "tests/integration/test_docker_engine.py",
)  # fmt: skip
# Tests that wait for something come first.
NICE = 10
# Where the second begins to look for free ports, and the first ends: of two that look at once, both would take one.
_SECONDS_PORTS = 26_000
_LOOK_EVERY_S = 0.05
_END_WITHIN_S = 30.0
_LAST_CHARACTERS = 4000
_LIST, _REPORTS, _OUTPUT = "list.json", "reports.jsonl", "output.txt"


def add_options(parser: pytest.Parser) -> None:
    """Nothing; pytest knows the flags."""
    group = parser.getgroup("beside", "a second pytest")
    group.addoption("--beside", action="store_true", help="on two CPUs: run unit tests beside those that wait")
    group.addoption("--beside-folder", metavar="FOLDER", type=pathlib.Path, help=argparse.SUPPRESS)


def configure(config: pytest.Config) -> None:
    """Nothing; this pytest is the first or the second, where it is either."""
    folder = config.getoption("--beside-folder", None)
    if folder is not None:
        config.pluginmanager.register(_Second(config, folder))
    elif config.getoption("--beside", False) and len(os.sched_getaffinity(0)) > 1 and not config.getoption("usepdb"):
        config.pluginmanager.register(_First())


class _Claims:
    """Which files of the shared tests one pytest has."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        self._asked: dict[str, bool] = {}

    def has(self, item: pytest.Item) -> bool:
        """Whether the item is this pytest's: its file is of whoever asks for it first."""
        file = item.nodeid.partition("::")[0]
        if file not in self._asked:
            try:
                (self._folder / file.replace("/", ":")).touch(exist_ok=False)
            except FileExistsError:
                self._asked[file] = False
            else:
                self._asked[file] = True
        return self._asked[file]


class _Second:
    """Runs what it is told to but what the first has, and writes down what came of it."""

    def __init__(self, config: pytest.Config, folder: pathlib.Path) -> None:
        self._config = config
        self._wanted: list[str] = json.loads((folder / _LIST).read_text())
        self._claims = _Claims(folder)
        self._reports = (folder / _REPORTS).open("a", encoding="ascii")
        self._nice = NICE
        ports.FIRST_PORT = _SECONDS_PORTS

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        found = {item.nodeid: item for item in items}
        items[:] = [found[name] for name in self._wanted if name in found]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        if not item.nodeid.startswith(SHARED):
            return None
        os.nice(self._nice)
        self._nice = 0
        return None if self._claims.has(item) else _passed_over(item, nextitem)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        said = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._reports.write(json.dumps(said) + "\n")
        self._reports.flush()


class _First:
    """Starts the second with all that it may run, and tells of what it has run."""

    def __init__(self) -> None:
        self._theirs: frozenset[str] = frozenset()
        self._alone: pytest.Item | None = None
        self._left: dict[str, pytest.Item] = {}
        self._reports: dict[str, list[pytest.TestReport]] = collections.defaultdict(list)
        self._running: _Running | None = None
        self._at: pathlib.Path | None = None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        ours, seconds, shared = _divided(session.items)
        theirs = [*seconds, *shared]
        if session.config.option.collectonly or session.testsfailed or not ours or not theirs:
            return (yield)
        # The last is ours, and ends what all of ours shared.
        alone = [item for item in ours if item.nodeid.startswith(ALONE)] or ours[-1:]
        before = [item for item in ours if item not in set(alone)]
        session.items[:] = [*before, *_from_the_end(shared), *seconds, *alone]
        self._alone = alone[0]
        self._left = {item.nodeid: item for item in theirs}
        self._theirs = frozenset(self._left)
        if reporter := session.config.pluginmanager.get_plugin("terminalreporter"):
            reporter.write_line(f"{len(theirs)} of them beside the others, all or in part by a second pytest")
        ports.LAST_PORT = _SECONDS_PORTS
        with _started(session.config, theirs) as self._running:
            return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        if item.path != self._at:
            # Between files, so that each has its line.
            self._at = item.path
            self._tell_news(item.config)
        if item is self._alone and self._running is not None:
            self._running.until_ended()
        if not self._is_theirs(item):
            return None
        # What the test may take is seen to where it runs; here it is waited for.
        item.config.hook.pytest_timeout_cancel_timer(item=item)
        self._wait_for(item)
        return _passed_over(item, nextitem)

    def _is_theirs(self, item: pytest.Item) -> bool:
        if item.nodeid not in self._theirs or self._running is None:
            return False
        return not item.nodeid.startswith(SHARED) or not self._running.claims.has(item)

    def _wait_for(self, item: pytest.Item) -> None:
        """Returns once the item is told of, as lost where the second ended without a word on it."""
        assert self._running is not None
        while item.nodeid in self._left and not item.session.shouldfail:
            # Asked first: what it wrote last is there once it has ended.
            code = self._running.process.poll()
            self._tell_news(item.config)
            if item.nodeid in self._left and code is not None:
                self._tell(item, [self._lost(item, code)])
                item.session.shouldfail = "the pytest beside this one ended before its tests had"
            elif item.nodeid in self._left:
                time.sleep(_LOOK_EVERY_S)

    def _tell_news(self, config: pytest.Config) -> None:
        """Tells of every test that has ended since the last look."""
        for said in self._running.news() if self._running is not None else ():
            report = _read(config, said)
            self._reports[report.nodeid].append(report)
            if report.when == "teardown" and report.nodeid in self._left:
                self._tell(self._left[report.nodeid], self._reports[report.nodeid])

    def _tell(self, item: pytest.Item, reports: Sequence[pytest.TestReport]) -> None:
        del self._left[item.nodeid]
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)

    def _lost(self, item: pytest.Item, code: int) -> pytest.TestReport:
        assert self._running is not None
        why = f"the pytest beside this one ended with {code} before this test had; its last words:\n"
        return pytest.TestReport(
            nodeid=item.nodeid, location=item.location, keywords={}, outcome="failed", when="call",
            longrepr=why + self._running.last_words(),
        )  # fmt: skip


class _Running:
    """The second pytest as the first sees it."""

    def __init__(self, process: "subprocess.Popen[bytes]", folder: pathlib.Path) -> None:
        self.process = process
        self.claims = _Claims(folder)
        self._output = folder / _OUTPUT
        self._reports = (folder / _REPORTS).open(encoding="ascii")
        self._begun = ""

    def news(self) -> Iterator[Any]:
        """What it has written down since the last look."""
        while line := self._reports.readline():
            self._begun += line
            if line.endswith("\n"):
                whole, self._begun = self._begun, ""
                yield json.loads(whole)

    def last_words(self) -> str:
        """The end of what it printed."""
        return self._output.read_text(encoding="utf-8", errors="replace")[-_LAST_CHARACTERS:]

    def until_ended(self) -> None:
        """Nothing; it has had the time to end what its tests shared."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_END_WITHIN_S)

    def end(self) -> None:
        """Ends it as Ctrl-C does, in the time that takes, else at once."""
        self._reports.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.until_ended()
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def _started(config: pytest.Config, items: Sequence[pytest.Item]) -> Iterator[_Running]:
    """A second pytest with these tests; it has ended afterwards."""
    with tempfile.TemporaryDirectory(prefix="carico-beside-") as made:
        folder = pathlib.Path(made)
        (folder / _LIST).write_text(json.dumps([item.nodeid for item in items]))
        (folder / _REPORTS).touch()
        files = dict.fromkeys(str(item.path) for item in items)
        argv = [sys.executable, "-u", "-m", "pytest", "-p", "no:cacheprovider", f"--beside-folder={folder}", *files]
        with (folder / _OUTPUT).open("wb") as output:
            # A group of its own, since on Ctrl-C it is the first that ends the second; of the same session, since
            # Linux weighs what is nice only within one.
            process = subprocess.Popen(
                argv, cwd=config.rootpath, stdin=subprocess.DEVNULL, stdout=output, stderr=output, process_group=0,
                preexec_fn=processes.end_with_parent(signal.SIGINT),
            )  # fmt: skip
        running = _Running(process, folder)
        try:
            yield running
        finally:
            running.end()


def _passed_over(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """True: the item is seen to.

    pytest left set up what the item shares with the one before it; of that the next one may need less.
    """
    item.session._setupstate.teardown_exact(nextitem)
    return True


def _divided(items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item], list[pytest.Item]]:
    """The items of the first pytest, those of the second, and those that either runs."""
    shared = [item for item in items if item.nodeid.startswith(SHARED)]
    may = [item for item in items if not item.nodeid.startswith((*SHARED, *ALONE))]
    seconds = [item for item in may if item.get_closest_marker(SECOND) is not None]
    others = {*shared, *seconds}
    return [item for item in items if item not in others], seconds, shared


def _from_the_end(items: Sequence[pytest.Item]) -> Iterator[pytest.Item]:
    """The last file's items first, as they stand in it."""
    files = [list(of_file) for _, of_file in itertools.groupby(items, key=lambda item: item.path)]
    return itertools.chain.from_iterable(reversed(files))


def _read(config: pytest.Config, said: dict[str, Any]) -> pytest.TestReport:
    """The report as it was, where JSON knows no tuple."""
    for name in ("location", "longrepr"):
        if isinstance(said[name], list):
            said[name] = tuple(said[name])
    report = config.hook.pytest_report_from_serializable(config=config, data=said)
    assert isinstance(report, pytest.TestReport)
    return report
