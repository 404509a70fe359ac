"""The tiers of the test suite: which tests each runs, one summary for all, and what Ctrl-C leaves behind."""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import textwrap

import pytest

from tests.tools import tiers, waiting

ROOT = pathlib.Path(__file__).parents[3]
WITHIN_S = 120.0

CONFTEST = """
from tests.tools import tiers
def pytest_addoption(parser): tiers.add_options(parser)
def pytest_configure(config): tiers.configure(config)
def pytest_collection_modifyitems(items): tiers.refuse_misplaced(items)
"""
UNIT = """
import pytest
def test_passes(): pass
def test_fails(): assert 1 == 2, "in a worker"
def test_skipped(): pytest.skip("for a reason")
@pytest.mark.xfail(reason="known", strict=True)
def test_known(): assert False
@pytest.mark.upstream
def test_long(): assert False
"""
CHAOS = """
import os
def test_of_a_worker_that_keeps_bytecode():
    assert "PYTEST_XDIST_WORKER" in os.environ and "PYTHONDONTWRITEBYTECODE" not in os.environ
"""
SHARED = """
import os
import pytest
{mark}
def test_of_what_one_worker_has(pytestconfig):
    with open(pytestconfig.rootpath / "workers", "a") as file:
        print(os.environ["PYTEST_XDIST_WORKER"], file=file)
"""
E2E = """
import os
import pytest
def test_alone(): assert "PYTEST_XDIST_WORKER" not in os.environ
@pytest.mark.system
def test_engine(): assert False
"""


class Project:
    """A folder with tests of its own."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        markers = "".join(f"    {name}: of a tier\n" for name in ("system", "upstream"))
        (folder / "pytest.ini").write_text(
            f"[pytest]\naddopts = -ra --import-mode=importlib -p xdist.plugin\ntestpaths = tests\nmarkers =\n{markers}"
        )
        (folder / "conftest.py").write_text(CONFTEST)
        for path in (*tiers.CLUSTERS, *tiers.SERIAL, *{*tiers.SYSTEM, *tiers.COMPUTING}):
            self.add(path if path.endswith(".py") else f"{path}/test_of_folder.py", "def test_there(): pass\n")

    def add(self, path: str, text: str) -> "Project":
        """Write one file of tests."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text))
        return self

    def start(self, *words: str, on_interrupt: signal.Handlers = signal.SIG_DFL) -> "subprocess.Popen[str]":
        """Start `python -m tests.tools.tiers WORDS` in a process group of its own, as a terminal does."""
        # This test may run in a worker itself, whose variables would make the run below one, too.
        ours = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
        environ = {**ours, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": "", "PY_COLORS": "0", tiers.NO_BYTECODE: "1"}
        # Up to seven processes, which need no other plugin than xdist: importing the others takes most of their time.
        environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        return subprocess.Popen(
            [sys.executable, "-m", "tests.tools.tiers", *words], cwd=self.folder, env=environ, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, process_group=0,
            # `main` in other tests leaves SIGINT ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, on_interrupt),
        )  # fmt: skip

    def run(self, *words: str) -> tuple[int, str]:
        """Exit code and output of the tiers."""
        with self.start(*words) as started:
            try:
                output, _ = started.communicate(timeout=WITHIN_S)
            finally:
                # After a timeout: pytest and its workers end when this does.
                started.kill()
        return started.returncode, output

    def is_one_worker(self, tests: int) -> bool:
        """Whether one worker had all of the tests that are `SHARED`, of which there are so many."""
        workers = (self.folder / "workers").read_text().split()
        return len(workers) == tests and len(set(workers)) == 1


@pytest.fixture
def project(tmp_path: pathlib.Path) -> Project:
    return Project(tmp_path)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, int, str]:
    """Run tests of every outcome, and a file for each worker at least, in the parallel and the serial part."""
    made = Project(tmp_path_factory.mktemp("mixed"))
    made.add("tests/unit/test_unit.py", UNIT).add(tiers.SERIAL[0], E2E)
    for number in range(4):
        made.add(f"tests/chaos/test_chaos_{number}.py", CHAOS)
        made.add(tiers.SHARED_PLANE[number + 1], SHARED.format(mark=""))
    return made, *made.run("parallel", "serial", "--workers", "2")


def test_parallel_and_serial_tests_end_with_one_summary_line(mixed: tuple[Project, int, str]) -> None:
    _, code, output = mixed
    assert code == 1, output
    summaries = re.findall(r"^=+ (.*) in [\d.]+s =+$", output, re.M)
    # One of the unit tests, eight of processes, and one for each folder and file that the tiers name.
    passed = 9 + len(tiers.CLUSTERS) + len(tiers.SERIAL) + len({*tiers.SYSTEM, *tiers.COMPUTING})
    assert summaries == [f"1 failed, {passed} passed, 1 skipped, 1 xfailed"], output
    assert output.rstrip().endswith("=")
    assert "AssertionError: in a worker" in output
    assert "SKIPPED [1] tests/unit/test_unit.py:5: for a reason" in output
    assert re.search(r"^ +[\d.]+ s  tests/unit$", output, re.M)


def test_tests_of_the_shared_control_plane_run_in_one_worker(mixed: tuple[Project, int, str]) -> None:
    made, _, output = mixed
    assert made.is_one_worker(tests=4), output


def test_results_of_several_commands_add_up(project: Project, tmp_path: pathlib.Path) -> None:
    project.add(tiers.SERIAL[0], E2E)
    for path in tiers.ENGINE[:3]:
        project.add(path, SHARED.format(mark="@pytest.mark.system"))
    totals = f"--totals={tmp_path / 'totals'}"
    assert project.run("serial", totals)[0] == 0
    code, output = project.run("system", totals)
    assert code == 1, output
    assert re.search(rf"^=+ 1 failed, {len(tiers.SERIAL) + 3} passed in [\d.]+s =+$", output, re.M), output
    assert project.is_one_worker(tests=3), output


def test_a_system_test_outside_its_tiers_folders_is_refused(project: Project) -> None:
    project.add("tests/unit/test_unit.py", E2E)
    code, output = project.run("parallel", "--workers", "1")
    assert code == 1, output
    folders = ", ".join(tiers.SYSTEM)
    assert f"tests/unit/test_unit.py::test_engine is marked system: put it into one of {folders}\n" in output


def test_a_worker_that_crashes_fails_the_run(project: Project) -> None:
    project.add("tests/unit/test_unit.py", "import os\ndef test_crashes(): os.abort()\ndef test_after(): pass\n")
    code, output = project.run("parallel", "--workers", "2")
    assert code == 1, output
    # Either worker may get the file, and the other one after it.
    assert re.search(r"worker 'gw\d' crashed while running 'tests/unit/test_unit.py::test_crashes'", output), output
    assert re.search(r"[12] failed", output.splitlines()[-1]), output


@pytest.mark.parametrize("how", ["at a terminal", "to the command alone", "in the background of a script"])
def test_ctrl_c_ends_the_workers_and_what_their_tests_started(project: Project, how: str) -> None:
    unit = """
        import os, pathlib, subprocess, time
        import pytest
        @pytest.fixture(scope="session")
        def child():
            with subprocess.Popen(["sleep", "600"]) as process:
                yield process
                process.terminate()
        def test_long(child):
            pathlib.Path("pids.new").write_text(f"{os.getpid()} {child.pid}")
            os.rename("pids.new", "pids")
            time.sleep(600)
    """
    file = project.add("tests/unit/test_unit.py", unit).folder / "pids"
    # A shell that runs a script ignores Ctrl-C in what it starts in the background, and so does what that starts.
    is_script = how == "in the background of a script"
    started = project.start("parallel", "--workers", "2", on_interrupt=signal.SIG_IGN if is_script else signal.SIG_DFL)
    try:
        waiting.until_now(file.exists, within_s=WITHIN_S)
        if how == "at a terminal":
            os.killpg(started.pid, signal.SIGINT)
        else:
            started.send_signal(signal.SIGTERM if is_script else signal.SIGINT)
        output, _ = started.communicate(timeout=WITHIN_S)
    finally:
        os.killpg(started.pid, signal.SIGKILL) if started.poll() is None else None
    assert started.returncode == 130, output
    assert not [pid for pid in file.read_text().split() if pathlib.Path("/proc", pid).exists()]


@pytest.mark.parametrize("during", ["computing", "waiting", "serial"])
def test_a_signal_to_ci_alone_ends_the_tier_that_runs_before_its_folder_goes(
    tmp_path: pathlib.Path, during: str
) -> None:
    script = """
        #!/usr/bin/env bash
        # Stands in for Python, and for make. As pytest, it writes what it has a moment after it was interrupted.
        totals=$4
        case "$*" in *" DURING")
            trap 'kill $!; sleep 0.5; echo 0 >>"$totals" && echo written >>log; exit' TERM
            sleep 600 >/dev/null 2>&1 &
            echo begun >>log
            wait
        esac
    """
    for place in (".venv/bin/python", "programs/make", ".ci/run"):
        file = tmp_path / place
        file.parent.mkdir(parents=True)
        stand_in = textwrap.dedent(script).lstrip().replace("DURING", during)
        file.write_text((ROOT / place).read_text() if place == ".ci/run" else stand_in)
        file.chmod(0o755)
    environ = {**os.environ, "PATH": f"{tmp_path / 'programs'}:{os.environ['PATH']}"}
    started = subprocess.Popen(
        [tmp_path / ".ci/run"], env=environ, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, process_group=0,
    )  # fmt: skip
    log = tmp_path / "log"

    def is_waited_for() -> bool:
        # What it has just started may be ahead of it: a shell that does not know its job yet cannot end that. By then
        # it sleeps.
        stat = pathlib.Path(f"/proc/{started.pid}/stat")
        return log.exists() and stat.read_text().rpartition(")")[2].split()[0] == "S"

    try:
        waiting.until_now(is_waited_for, within_s=WITHIN_S)
        started.terminate()
        output, _ = started.communicate(timeout=WITHIN_S)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        started.wait()
    assert log.read_text() == "begun\nwritten\n", output
