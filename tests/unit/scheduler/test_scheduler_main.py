"""The program: a user's mistake is one line and exit code 2."""

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--treshold", "3"], "unknown flag --treshold; nearest: --threshold"),
        (["--threshold", "much"], "--threshold"),
        (["--kubeconfig", "/nonexistent", "--http-port", "-1"], "kubeconfig /nonexistent does not exist"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(flags: list[str], says: str) -> None:
    command = [sys.executable, "-m", "carico_scheduler", *flags]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("CARICO_")}
    ended = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 2
    assert ended.stdout == ""
    (line,) = ended.stderr.splitlines()
    assert line.startswith("carico-scheduler: ")
    assert says in line


def test_a_scheduler_without_an_extender_does_not_load_its_server() -> None:
    run = subprocess.run(
        [sys.executable, "-c", "import sys, carico_scheduler.service; print('aiohttp.web' in sys.modules)"],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert run.stdout.strip() == "False"
