"""`pytest --beside`: each test is told of once, by the first, whichever ran it and whatever becomes of the second."""

import os
import pathlib
import signal
import subprocess
import sys
import textwrap

import pytest

from tests.tools import waiting

ROOT = pathlib.Path(__file__).parents[3]
WITHIN_S = 120.0
pytestmark = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="a second pytest needs a second CPU")

CONFTEST = """
from tests.tools import beside
def pytest_addoption(parser): beside.add_options(parser)
def pytest_configure(config): beside.configure(config)
"""
UNIT = """
import os, pathlib
import pytest
@pytest.fixture(autouse=True)
def told(): pathlib.Path("second").write_text(str(os.getpid()))
def test_second(): pass
@pytest.mark.parametrize("text", ["a b", "\\N{SNOWMAN}"])
def test_words(text): pass
def test_fails(): assert 1 == 2, "of the second"
def test_skipped(): pytest.skip("for a reason")
@pytest.mark.xfail(reason="known", strict=True)
def test_known(): assert False
"""
# The first has something to do until the second has come to its tests.
INTEGRATION = """
from tests.tools import waiting
import pathlib
def test_first(): waiting.until_now(pathlib.Path("second").exists)
"""
E2E = """
import os, pathlib
def test_after(): assert pathlib.Path("second").read_text() != str(os.getpid())
"""


class Project:
    """A folder with tests of its own."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        (folder / "pytest.ini").write_text(
            "[pytest]\naddopts = -ra --import-mode=importlib\nasyncio_default_fixture_loop_scope = function\n"
        )
        (folder / "tests").mkdir()
        (folder / "conftest.py").write_text(CONFTEST)

    def has(self, **texts: str) -> "Project":
        """The project with these tests, by their kind."""
        for kind, text in texts.items():
            file = self.folder / "tests" / kind / f"test_{kind}.py"
            file.parent.mkdir()
            file.write_text(textwrap.dedent(text))
        return self

    def start(self, *words: str) -> "subprocess.Popen[str]":
        """Its tests, under way."""
        environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": "", "PY_COLORS": "0"}
        return subprocess.Popen(
            [sys.executable, "-m", "pytest", "--beside", *words], cwd=self.folder, env=environ, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            # `main` in other tests leaves SIGINT ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip

    def run(self, *words: str) -> tuple[int, str]:
        """Exit code and output of its tests."""
        started = self.start(*words)
        said, _ = started.communicate(timeout=WITHIN_S)
        return started.returncode, said


@pytest.fixture
def project(tmp_path: pathlib.Path) -> Project:
    return Project(tmp_path)


def test_all_are_told_once_and_those_of_the_second_before_a_cluster_starts(project: Project) -> None:
    code, said = project.has(unit=UNIT, integration=INTEGRATION, e2e=E2E).run("tests")
    assert code == 1, said
    assert "6 of them beside the others" in said
    assert "1 failed, 5 passed, 1 skipped, 1 xfailed" in said
    assert "AssertionError: of the second" in said
    assert "SKIPPED [1] tests/unit/test_unit.py:10: for a reason" in said
    assert said.index("tests/unit/test_unit.py") < said.index("tests/e2e/test_e2e.py")


def test_who_has_time_takes_what_the_other_has_not_come_to(project: Project) -> None:
    contract = """
        import os, pathlib
        import pytest
        from carico_local.cluster import ports
        @pytest.mark.real_programs
        def test_real():
            pathlib.Path("ports").write_text(str(ports.FIRST_PORT))
            pathlib.Path("second").write_text(str(os.getpid()))
    """
    golden = """
        import pathlib
        from tests.tools import waiting
        def test_is_held_up(): waiting.until_now(pathlib.Path("taken").exists)
    """
    unit = """
        import os, pathlib
        def test_is_taken(): pathlib.Path("taken").write_text(str(os.getpid()))
    """
    e2e = """
        import os, pathlib
        from carico_local.cluster import ports
        def test_both():
            assert ports.FIRST_PORT < ports.LAST_PORT <= int(pathlib.Path("ports").read_text())
            assert pathlib.Path("second").read_text() != str(os.getpid())
            assert pathlib.Path("taken").read_text() == str(os.getpid())
    """
    code, said = project.has(contract=contract, unit=unit, golden=golden, integration=INTEGRATION, e2e=e2e).run("tests")
    assert (code, "5 passed" in said) == (0, True), said


def test_what_the_other_took_leaves_nothing_set_up_in_between(project: Project) -> None:
    """The first's last test is beside one that the second has: what both are in must not outlive them in the first."""
    unit = """
        import pathlib
        from tests.tools import waiting
        def test_is_taken(): pathlib.Path("second").write_text("-1")
        def test_is_long(): waiting.until_now(pathlib.Path("run").exists)
    """
    project.has(unit=unit, integration=INTEGRATION, e2e=E2E)
    (project.folder / "tests/unit/test_unit_last.py").write_text(
        "import pathlib\ndef test_is_ours(): pathlib.Path('run').touch()\n"
    )
    code, said = project.run("tests")
    assert (code, "5 passed" in said) == (0, True), said


def test_a_choice_of_tests_is_kept_and_the_first_failure_ends_the_run(project: Project) -> None:
    project.has(unit=UNIT, integration=INTEGRATION, e2e=E2E)
    code, said = project.run("tests", "-k", "words or first")
    assert (code, "3 passed, 5 deselected" in said) == (0, True), said
    code, said = project.run("tests", "-x", "-k", "fails or first or after")
    assert (code, "1 failed, 1 passed, 5 deselected" in said) == (1, True), said
    code, said = project.run("tests/unit", "-k", "words")
    assert (code, "2 passed" in said, "beside the others" in said) == (0, True, False), said


def test_a_second_that_crashes_fails_the_run_and_is_heard(project: Project) -> None:
    unit = """
        import os, pathlib
        def test_well(): pathlib.Path("second").touch()
        def test_crashes(): os.abort()
        def test_never(): pass
    """
    code, said = project.has(unit=unit, integration=INTEGRATION, e2e=E2E).run("tests")
    assert code == 1, said
    assert "1 failed, 2 passed" in said
    assert "test_crashes" in said
    assert "ended with -6 before this test had" in said
    assert "Fatal Python error: Aborted" in said
    assert "the pytest beside this one ended before its tests had" in said


def test_ctrl_c_ends_both(project: Project) -> None:
    unit = """
        import os, pathlib, time
        def test_long(): pathlib.Path("second").write_text(str(os.getpid())); time.sleep(600)
    """
    file = project.has(unit=unit, integration=INTEGRATION).folder / "second"
    started = project.start("tests")
    try:
        waiting.until_now(lambda: file.exists() and file.read_text(), within_s=WITHIN_S)
        started.send_signal(signal.SIGINT)
        said, _ = started.communicate(timeout=WITHIN_S)
    finally:
        started.kill()
        started.wait()
    assert started.returncode == 2, said
    assert "KeyboardInterrupt" in said
    assert not pathlib.Path("/proc", file.read_text()).exists()
