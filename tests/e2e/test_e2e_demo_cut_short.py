"""What is left of a demo that is cut short: by Ctrl-C, by a kill, by a service that crashes."""

import asyncio
import contextlib
import os
import pathlib
import signal

import pytest

from carico_local.cluster import folders, state
from tests.e2e import carico_command
from tests.tools import waiting


@pytest.fixture
def shell(tmp_path: pathlib.Path) -> carico_command.Shell:
    return carico_command.Shell(tmp_path)


@pytest.mark.parametrize("moment", ["start", "job", "twice"])
async def test_ctrl_c_ends_everything(shell: carico_command.Shell, moment: str) -> None:
    name = f"e2e-int-{moment}"
    async with shell.running("demo", "--name", name, "--pods", "40", "--seconds", "5") as process:
        await carico_command.said(process, "running" if moment == "job" else "ready: nats")
        process.send_signal(signal.SIGINT)
        if moment == "twice":
            # While the first is being followed: the end is hurried, and as complete. A fast machine may be done.
            await asyncio.sleep(0.05)
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)
        async with asyncio.timeout(carico_command.WITHIN_S):
            _, err = await process.communicate()
    assert process.returncode == 130
    assert b"interrupted" in err
    assert b"Traceback" not in err
    assert shell.left(name) == []


async def test_a_killed_demo_takes_its_cluster_along(shell: carico_command.Shell) -> None:
    async with shell.running("demo", "--name", "e2e-kill", "--pods", "40") as process:
        await carico_command.said(process, "running")
        process.kill()
        await process.wait()
    paths = shell.paths("e2e-kill")
    await waiting.until(lambda: not folders.is_running(paths), within_s=carico_command.WITHIN_S)
    code, out, err = await shell.run("down", "--name", "e2e-kill")
    assert code == 0, out + err
    assert shell.left("e2e-kill") == []


async def test_a_crashed_service_is_named_with_its_last_lines(shell: carico_command.Shell) -> None:
    async with shell.running("demo", "--name", "e2e-crash", "--pods", "40") as process:
        await carico_command.said(process, "running")
        found = state.read(shell.paths("e2e-crash"))
        assert found is not None
        (victim,) = [service for service in found.services if service.name == "scheduler"]
        assert victim.process is not None
        os.kill(victim.process.pid, signal.SIGKILL)
        async with asyncio.timeout(carico_command.WITHIN_S):
            _, err = await process.communicate()
    assert process.returncode == 1
    assert b"scheduler ended unexpectedly (killed by SIGKILL); its last lines:" in err
    logs = shell.paths("e2e-crash").logs
    last = (logs / "scheduler.log").read_bytes().splitlines()[-1]
    assert b"  " + last + b"\n" in err, "its last log lines follow"
    assert f"logs are kept in {logs}".encode() in err
    assert shell.left("e2e-crash") == [str(logs.parent)], "the logs and nothing else"
    assert list(logs.parent.iterdir()) == [logs]
