"""The `carico` command as a person runs it, and a look at what it left behind."""

import asyncio
import contextlib
import json
import os
import pathlib
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from carico_local.cgroups import layout, node_group, sweep
from carico_local.cluster import folders, processes
from tests.tools import waiting

# What takes seconds may take minutes where others build besides.
WITHIN_S = 200.0
# Between commands that look: each takes most of a second of a CPU, which what they wait for needs, too.
LOOK_EVERY_S = 1.0


class Shell:
    """A shell with state of its own, so that tests touch no user's cluster."""

    def __init__(
        self, directory: pathlib.Path, *, command: Sequence[str] = (sys.executable, "-m", "carico_cli")
    ) -> None:  # fmt: skip
        self.directory = directory
        self._command = command
        self.environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("CARICO_")},
            "XDG_STATE_HOME": str(directory / "state"),
            "TERM": "dumb",
        }

    def paths(self, name: str) -> folders.Paths:
        """The places of a cluster."""
        return folders.Paths(self.directory / "state" / "carico" / name)

    @contextlib.asynccontextmanager
    async def running(self, *words: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """The running command, its output in pipes, no terminal; killed if it outlives the block."""
        process = await asyncio.create_subprocess_exec(
            *self._command, *words, cwd=self.directory, env=self.environ,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def run(self, *words: str, within_s: float = WITHIN_S) -> tuple[int, str, str]:
        """Exit code, standard output and standard error of a command that ends."""
        async with self.running(*words) as process, asyncio.timeout(within_s):
            out, err = await process.communicate()
        assert process.returncode is not None
        return process.returncode, out.decode(), err.decode()

    async def until(self, *words: str, holds: Callable[[Any], object]) -> Any:
        """The JSON of a command that shows a cluster, once it ends well and shows enough.

        One look shows what answered it in some tenths of a second, and on a machine that stalls not all of a cluster.
        """
        last = (0, "", "")

        async def look() -> tuple[int, str, str]:
            nonlocal last
            last = await self.run(*words)
            return last

        try:
            _, out, _ = await waiting.answered(
                look, lambda answer: answer[0] == 0 and holds(json.loads(answer[1])), within_s=WITHIN_S,
                every_s=LOOK_EVERY_S,
            )  # fmt: skip
        except TimeoutError:
            raise AssertionError(f"not within {WITHIN_S:g} s, at last: {last}") from None
        return json.loads(out)

    def left(self, name: str) -> list[str]:
        """What is left of a cluster: processes, cgroups, state."""
        paths = self.paths(name)
        marks = [f"{name}={paths.root}" for name in (sweep.RUN_VARIABLE, sweep.RUNTIME_VARIABLE)]
        found = [f"process {process.pid}" for process in processes.marked(*marks)]
        roots = layout.read_layout().roots
        found += [str(root / node_group.cluster_path(name)) for root in roots
                  if (root / node_group.cluster_path(name)).exists()]  # fmt: skip
        return found + ([str(paths.root)] if paths.root.exists() else [])


async def said(process: asyncio.subprocess.Process, word: str) -> None:
    """Returns once a line of a running command's standard output has this word. Fails where it ends without."""
    assert process.stdout is not None
    assert process.stderr is not None
    async with asyncio.timeout(WITHIN_S):
        while word not in (line := (await process.stdout.readline()).decode()):
            assert line, f"it ended and never said {word!r}: {await process.stderr.read()!r}"


@contextlib.asynccontextmanager
async def cluster(shell: Shell, name: str, *flags: str) -> AsyncIterator[folders.Paths]:
    """A cluster by `carico up`, taken down in the end."""
    code, out, err = await shell.run("up", "--name", name, *flags)
    assert code == 0, out + err
    try:
        yield shell.paths(name)
    finally:
        code, out, err = await shell.run("down", "--name", name)
        assert code == 0, out + err
        assert shell.left(name) == []
