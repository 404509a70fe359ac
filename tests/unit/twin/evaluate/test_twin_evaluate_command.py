"""`carico evaluate` as a command: files written, mistakes in one line, Ctrl-C at once and without a trace."""

import functools
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from carico_cli.evaluation import command as evaluate
from carico_cli.evaluation import text as evaluate_text
from tests.tools import carico_cli, waiting

Carico = Callable[..., int]
PLAN = '[[nodes]]\ncount = 2\n[[jobs]]\nwork = "pi"\npods = 6\n'


@pytest.fixture
def carico(monkeypatch: pytest.MonkeyPatch) -> Carico:
    return functools.partial(carico_cli.run, monkeypatch)


@pytest.fixture
def plan(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "mine.toml"
    path.write_text(PLAN)
    return path


def test_a_users_scenario_is_compared_and_written(
    carico: Carico, plan: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = plan.parent / "out"
    chosen = ("--scheduler", "kube-500m", "--scheduler", "node-local", "--seeds", 2, "--jobs", 1)
    assert carico("evaluate", "--plan", plan, *chosen, "--out", out) == 0
    said = capsys.readouterr()
    assert "kube-500m" in said.out
    assert "node-local" in said.out
    assert "runs 4/4" in said.err
    written = json.loads((out / "evaluation.json").read_bytes())
    assert set(written["scenarios"]["plan"]) == {"kube-500m", "node-local"}
    mean, half, seeds = written["scenarios"]["plan"]["node-local"]["figures"]["job_s"]
    assert mean > 4.0
    assert half >= 0.0
    assert seeds == 2
    assert (out / "evaluation.html").read_text().startswith("<!doctype html>")


def test_json_on_stdout_is_nothing_but_json(
    carico: Carico, plan: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = ("--scheduler", "oracle", "--seeds", 1, "--first-seed", 201, "--json")
    assert carico("evaluate", "--plan", plan, *chosen, "--out", plan.parent) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["runs"], printed["first_seed"]) == (1, 201)
    assert "1 runs in the twin, seed 201." in (plan.parent / "evaluation.html").read_text()


def test_the_report_is_written_also_if_what_is_printed_is_not_read(
    carico: Carico, plan: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`carico evaluate --json | head`, after an hour."""

    def gone(*_: object) -> str:
        raise BrokenPipeError

    monkeypatch.setattr(evaluate_text, "text", gone)
    # Text without a reader is not: a real one has another stderr for the next command.
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert carico("evaluate", "--plan", plan, "--scheduler", "oracle", "--seeds", 1, "--out", plan.parent / "out") == 1
    assert json.loads((plan.parent / "out" / "evaluation.json").read_bytes())["runs"] == 1


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--scenario", "pi-99"), "--scenario: got 'pi-99'"),
        (("--scheduler", "kubes"), "--scheduler: got 'kubes' (did you mean kube?)"),
        (("--plan", "/nowhere.toml"), "/nowhere.toml: cannot be read (No such file or directory)"),
        # A device has no end.
        (("--plan", "/dev/zero"), "/dev/zero: got more than 16 MiB, expected a TOML file"),
        (("--compare-with", "/dev/zero"), "/dev/zero: got more than 16 MiB, expected what `carico compare` wrote"),
        (("--seeds", "0"), "Invalid value for '--seeds'"),
        (("--first-seed", "0"), "Invalid value for '--first-seed'"),
        (("--sharing", "--first-seed", "2"), "--sharing runs its own cluster and schedulers: leave out --first-seed"),
        (("--jobs", "0"), "Invalid value for '--jobs'"),
        (("--scenario", "pi-100", "--out", "/proc/none"), "--out: cannot write to /proc/none"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    carico: Carico, capsys: pytest.CaptureFixture[str], argv: tuple[str, ...], said: str
) -> None:
    assert carico("evaluate", *argv) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_a_plan_goes_with_no_other_scenario(
    carico: Carico, plan: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert carico("evaluate", "--plan", plan, "--scenario", "pi-100") == 2
    assert "leave out --scenario" in capsys.readouterr().err


def test_an_impossible_cluster_says_where(
    carico: Carico, plan: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan.write_text(PLAN.replace("count = 2", "cores = 0"))
    assert carico("evaluate", "--plan", plan) == 2
    assert "nodes[0].cores: got 0, expected a number from 0.1 to 4096" in capsys.readouterr().err


@pytest.mark.parametrize("after_s", [0.0, 1.0])
def test_ctrl_c_ends_it_at_once_with_one_line_and_nothing_left(tmp_path: pathlib.Path, after_s: float) -> None:
    argv = [sys.executable, "-m", "carico_cli", "evaluate", "--scenario", "isolation", "--out", str(tmp_path)]
    # A group of its own, as a terminal's Ctrl-C reaches all of it; `main` in other tests leaves SIGINT ignored.
    started = subprocess.Popen(
        argv, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, process_group=0,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    try:
        workers = _until_two_workers(started.pid)
        time.sleep(after_s)
        os.killpg(started.pid, signal.SIGINT)
        _, err = started.communicate(timeout=waiting.WAIT_S)
    finally:
        started.kill()
        started.wait()
    assert started.returncode == 130
    assert err.strip().splitlines()[-1] == "carico: interrupted"
    assert "Traceback" not in err
    assert not any(pathlib.Path(f"/proc/{pid}").exists() for pid in workers)


def test_a_kill_ends_the_bar_in_order_so_that_the_terminal_has_its_cursor_again() -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(KeyboardInterrupt), evaluate._shown(1, 1.0, plain=False):
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)


def _until_two_workers(pid: int) -> list[str]:
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children")

    def workers() -> list[str]:
        return [each for each in children.read_text().split() if _has_begun(each)]

    # While other tests run, this one may wait for a CPU.
    waiting.until_now(lambda: len(workers()) == 2, within_s=200.0)
    return workers()


def _has_begun(pid: str) -> bool:
    try:
        return "spawn_main" in pathlib.Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:  # ended since it was listed
        return False
