"""`carico top` on a real cluster: once as JSON and as a table, live on a terminal, and over an outage."""

import contextlib
import fcntl
import os
import pathlib
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from typing import Any

import pytest

from carico_local.cluster import folders, state
from tests.e2e import carico_command
from tests.tools import waiting

WITHIN_S = 150.0
_ESCAPES = re.compile(r"\x1b(?:\[[0-9;:?<>=]*[ -/]*[@-~]|[PX^_].*?\x1b\\|[()].|.)", re.DOTALL)


class Terminal:
    """A command on a terminal of 80x24, and all that it has written there."""

    def __init__(self, shell: carico_command.Shell, *words: str, **environ: str) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        os.set_blocking(self._ours, False)
        self.settings = termios.tcgetattr(theirs)
        self.theirs = theirs
        self.process = subprocess.Popen(
            [sys.executable, "-m", "carico_cli", *words], cwd=shell.directory,
            env={**shell.environ, "TERM": "xterm-256color", **environ},
            stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        )  # fmt: skip
        self.written = ""

    def press(self, keys: str) -> None:
        """Types."""
        os.write(self._ours, keys.encode())

    def forget(self) -> None:
        """What is drawn from now on is all that `shows` looks at."""
        self._read()
        self.written = ""

    async def shows(self, text: str) -> None:
        """Returns once it is drawn."""
        await self.shows_match(re.escape(text))

    async def shows_match(self, pattern: str) -> None:
        """Returns once what the expression describes is drawn."""

        def seen() -> bool:
            self._read()
            return re.search(pattern, _ESCAPES.sub("", self.written)) is not None

        try:
            await waiting.until(seen, within_s=WITHIN_S)
        except TimeoutError:
            raise AssertionError(f"never drawn: {pattern} in {_ESCAPES.sub('', self.written)[-3000:]}") from None

    async def ended(self) -> int:
        """Its exit code."""

        def has_ended() -> bool:
            self._read()
            return self.process.poll() is not None

        await waiting.until(has_ended, within_s=WITHIN_S)
        self._read()
        return int(self.process.returncode)

    def close(self) -> None:
        """Ends it, whatever it does."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._ours)
        os.close(self.theirs)

    def _read(self) -> None:
        with contextlib.suppress(BlockingIOError, OSError):
            while data := os.read(self._ours, 65_536):
                self.written += data.decode(errors="replace")


@contextlib.contextmanager
def terminal(shell: carico_command.Shell, *words: str, **environ: str) -> Iterator[Terminal]:
    found = Terminal(shell, *words, **environ)
    try:
        yield found
    finally:
        found.close()


@pytest.fixture
def shell(tmp_path: pathlib.Path) -> carico_command.Shell:
    return carico_command.Shell(tmp_path)


# A cluster, and a dozen commands in turn: on a machine that builds besides, most of three minutes.
@pytest.mark.timeout(900)
async def test_the_cluster_is_seen_once_and_live_and_over_an_outage(shell: carico_command.Shell) -> None:
    async with carico_command.cluster(shell, "e2e-top", "--nodes", "2") as paths:
        code, out, err = await shell.run(
            "submit", "pi", "--name", "e2e-top", "--pods", "4", "--seconds", "0.5", "--job", "four", "--wait"
        )
        assert code == 0, out + err
        await _once(shell)
        await _uses(shell)
        with terminal(shell, "top", "--name", "e2e-top", "--every", "0.5") as top:
            await _live(top)
            await _outage(top, paths)
            top.press("\x03")
            assert await top.ended() == 130
            # The terminal is as it was found: cursor, screen and echo.
            assert top.written.rstrip().endswith("carico: interrupted")
            assert "\x1b[?1049l" in top.written
            assert termios.tcgetattr(top.theirs) == top.settings
        with terminal(shell, "top", "--name", "e2e-top") as top:
            await top.shows("2/2 nodes fresh")
            top.process.send_signal(signal.SIGTERM)
            assert await top.ended() == 130
            assert termios.tcgetattr(top.theirs) == top.settings
        with terminal(shell, "top", "--name", "e2e-top", TERM="dumb") as top:
            await top.shows("this terminal cannot draw a screen (TERM is 'dumb'")
            await top.shows("cluster e2e-top")
            assert await top.ended() == 0


async def _once(shell: carico_command.Shell) -> None:
    seen = await shell.until("top", "--name", "e2e-top", "--once", "--json", holds=_is_whole)
    for node in seen["nodes"]:
        assert set(node["cost"]) == {"cpu", "memory"}
    (job,) = seen["jobs"]
    assert (job["name"], job["pods"]) == ("four", 4)
    assert {found["pod"] for found in seen["decisions"] if found["outcome"] == "bound"} == {
        f"four-{n}" for n in range(4)
    }
    texts = ("cluster e2e-top", "NODE", "node-2", "four", "scheduler", "LAST DECISIONS")
    code, out, err = await waiting.answered(
        lambda: shell.run("top", "--name", "e2e-top"),
        lambda answer: all(text in answer[1] for text in texts),
        within_s=carico_command.WITHIN_S,
        every_s=carico_command.LOOK_EVERY_S,
    )
    assert (code, err) == (0, "")
    assert out.isascii()


async def _uses(shell: carico_command.Shell) -> None:
    """Each running Pod, as the node's agent measures it from its cgroup; in the table and on the screen, too."""
    code, out, err = await shell.run(
        "submit", "pi", "--name", "e2e-top", "--pods", "1", "--seconds", "600", "--job", "on"
    )
    assert code == 0, out + err
    seen = await shell.until("top", "--name", "e2e-top", "--once", "--pods", "--json", holds=_is_measured)
    (pod,) = [each for each in seen["pods"] if each["state"] == "running"]
    assert (pod["name"], pod["job"], pod["node"] in ("node-1", "node-2")) == ("on-0", "on", True)
    # It computes on one core without a pause; Python alone has some megabytes.
    assert 0.2 < pod["uses"]["cores"] < 2.0 and pod["uses"]["memory_bytes"] > 1e6
    assert {each["uses"] is None for each in seen["pods"] if each["state"] != "running"} == {True}
    with terminal(shell, "top", "--name", "e2e-top") as top:
        await top.shows("2/2 nodes fresh")
        top.press("P")
        await top.shows("why, or uses")
        await top.shows_match(r"on-0 .*running .* node-\d +\d+m +[\d.]+ [kM]B [\d.]+ tasks")
        top.press("q")
        assert await top.ended() == 0


def _is_measured(seen: Any) -> bool:
    return [each["name"] for each in seen["pods"] if each["uses"] is not None and each["uses"]["cores"] > 0.2] == [
        "on-0"
    ]


def _is_whole(seen: Any) -> bool:
    """Whether everybody was heard: on a machine that stalls a service may answer too late for a picture."""
    return (
        [link for link in seen["links"] if link["trouble"]] == []
        and [node["name"] for node in seen["nodes"]] == ["node-1", "node-2"]
        and all(node["freshness"] == "fresh" and node["reserved"] is not None for node in seen["nodes"])
        and [job["succeeded"] for job in seen["jobs"]] == [4]
        and {each["name"] for each in seen["services"]} == {"carico-scheduler", "carico-aggregator"}
        and seen["bus"]["backlog_messages"] is not None
        and seen["model"] is not None
        and seen["model"]["contributors"] == 2
        and sum(found["outcome"] == "bound" for found in seen["decisions"]) == 4
    )


async def _live(top: Terminal) -> None:
    for text in ("2/2 nodes fresh", "CPU used", "node-2", "decisions", "Quit"):
        await top.shows(text)
    top.press("\r")
    await top.shows("a Pod costs")
    await top.shows("capacity = ")
    # The node's past comes together with what its agent answers, which is below it.
    await top.shows("the last ")
    top.press("\x1b[B" * 20)
    await top.shows("agent: footprint")
    top.forget()
    top.press("\x1b")
    await top.shows("reserved")


async def _outage(top: Terminal, paths: folders.Paths) -> None:
    """NATS dies, and is started again later: one line says so meanwhile, and is gone by itself."""
    found = state.read(paths)
    assert found is not None
    (nats,) = [service for service in found.services if service.name == "nats"]
    assert nats.process is not None
    # Who would start it again at once waits until the line was seen.
    os.kill(found.supervisor.pid, signal.SIGSTOP)
    try:
        os.kill(nats.process.pid, signal.SIGKILL)
        await top.shows("is away")
    finally:
        os.kill(found.supervisor.pid, signal.SIGCONT)
    top.forget()
    await top.shows("2/2 nodes fresh")
