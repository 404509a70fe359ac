"""Two programs under one first process."""

import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.tools import waiting

SCRIPT = """
import os, sys
from carico_local.contained import pair
kubelet, agent = (lambda word=word: os.execv("/bin/sh", ["sh", "-c", word]) for word in sys.argv[1:])
sys.exit(pair.Pair(kubelet=kubelet, agent=agent, pause=lambda _: None).run())
"""
# A program that says when it is up and when it is asked to end.
LASTING = 'trap "echo {0} ends >> {1}; exit {2}" TERM; echo {0} up >> {1}; while :; do sleep 0.05; done'


class Running:
    def __init__(self, log: pathlib.Path, first: str, second: str) -> None:
        self._log = log
        self.process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, first, second], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def lines(self) -> list[str]:
        return self._log.read_text().splitlines() if self._log.exists() else []

    def until(self, holds: Callable[[list[str]], bool]) -> None:
        waiting.until_now(lambda: holds(self.lines()), what=self.lines)


def test_the_agent_ends_after_the_kubelet(tmp_path: pathlib.Path) -> None:
    log = tmp_path / "log"
    running = Running(log, LASTING.format("kubelet", log, 0), LASTING.format("agent", log, 0))
    running.until(lambda lines: len(lines) == 2)
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(waiting.WAIT_S) == 0
    assert running.lines()[2:] == ["kubelet ends", "agent ends"]


def test_a_program_that_ends_by_itself_is_started_again_next_to_the_other(tmp_path: pathlib.Path) -> None:
    log, once = tmp_path / "log", tmp_path / "once"
    crashing = f"if [ ! -e {once} ]; then touch {once}; echo agent crashes >> {log}; exit 1; fi; "
    running = Running(log, LASTING.format("kubelet", log, 0), crashing + LASTING.format("agent", log, 0))
    running.until(lambda lines: sorted(lines) == ["agent crashes", "agent up", "kubelet up"])
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(waiting.WAIT_S) == 0


def test_a_users_mistake_ends_both(tmp_path: pathlib.Path) -> None:
    log = tmp_path / "log"
    running = Running(log, LASTING.format("kubelet", log, 0), f"until [ -e {log} ]; do sleep 0.02; done; exit 2")
    assert running.process.wait(waiting.WAIT_S) == 2
    assert running.lines() == ["kubelet up", "kubelet ends"]


@pytest.mark.parametrize(
    ("program", "code", "said"),
    [
        ("lambda: 2", 2, ""),
        ("lambda: sys.exit(2)", 2, ""),
        ("lambda: (print('word'), 2)[1]", 2, "word"),
        # A failure is logged, and the program is started again.
        ("lambda: 2 if os.path.exists(sys.argv[1]) else (open(sys.argv[1], 'w'), {}['key'])", 2, "KeyError: 'key'"),
    ],
)
def test_a_program_is_a_function_in_a_process_of_its_own(
    tmp_path: pathlib.Path, program: str, code: int, said: str
) -> None:
    script = (
        "import os, sys, time\nfrom carico_local.contained import pair\n"
        f"ended = pair.Pair(kubelet={program}, agent=lambda: time.sleep(60), pause=lambda _: None).run()\n"
        "print('once')\nsys.exit(ended)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "mark")], capture_output=True, text=True, check=False,
        timeout=60.0,
    )  # fmt: skip
    assert done.returncode == code
    assert said in done.stdout + done.stderr
    assert done.stdout.count("once") == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="enters a process namespace of its own, which needs root")
def test_orphans_are_reaped_by_the_first_process(tmp_path: pathlib.Path) -> None:
    """As in a container: a zombie would be left of each process whose parent has gone."""
    log = tmp_path / "log"
    left = "ps -eo stat= | grep -c Z"
    until = f"n=0; while [ $({left}) != 0 ] && [ $n -lt 100 ]; do n=$((n+1)); sleep 0.1; done"
    kubelet = f"(sleep 0.1 & ) ; sleep 0.5; {until}; {left} >> {log}; exit 2"
    done = subprocess.run(
        ["unshare", "--fork", "--pid", "--mount-proc", sys.executable, "-c", SCRIPT, kubelet, "sleep 120"],
        capture_output=True, text=True, check=False, timeout=60.0,
    )  # fmt: skip
    if "unshare failed" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert log.read_text().strip() == "0"


@pytest.mark.skipif(os.geteuid() != 0, reason="enters a process namespace of its own, which needs root")
def test_a_container_that_is_ended_while_it_still_imports_ends_at_once() -> None:
    """The kernel keeps from a first process what it has not asked for."""
    script = (
        "import time; from carico_local.contained import pair; pair.exit_on_signals(); print(1, flush=True)"
        "; time.sleep(60)"
    )
    running = subprocess.Popen(
        ["unshare", "--fork", "--pid", "--kill-child", sys.executable, "-c", script],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert running.stdout is not None
    assert running.stderr is not None
    try:
        if running.stdout.readline() != "1\n":
            pytest.skip(running.stderr.read().strip())
        children = pathlib.Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGTERM)
        assert running.wait(waiting.WAIT_S) == 0
    finally:
        running.kill()
        running.wait()
        running.stdout.close()
        running.stderr.close()
