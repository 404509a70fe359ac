"""The demo's path end to end, and what is left when it is cut short."""

import asyncio
import json
import os
import pathlib
import re
import signal

import pytest

from carico_local.cluster import state
from tests.e2e import carico_command
from tests.tools import waiting

PODS = 30


@pytest.fixture
def shell(tmp_path: pathlib.Path) -> carico_command.Shell:
    return carico_command.Shell(tmp_path)


async def test_thirty_pods_are_each_bound_once_and_nothing_stays(shell: carico_command.Shell) -> None:
    code, out, err = await shell.run("demo", "--name", "e2e-demo", "--pods", str(PODS), "--seconds", "1")
    assert code == 0, out + err
    report = json.loads((shell.directory / "var/e2e-demo/report.json").read_bytes())
    assert report["pods"] == report["succeeded"] == PODS
    for nothing in ("failed", "bound_twice", "never_bound", "capacity_overrun"):
        assert report[nothing] == 0, nothing
    assert report["nodes"] >= 2
    assert 1 <= report["max_running_per_node"] <= 2 * 4, "never above two Pods a core"
    assert sum(node["pods"] for node in report["per_node"].values()) == PODS
    # Alone a Pod takes 1 s: less would mean that pacing failed, and the process's own times are wrong.
    assert 0.9 <= report["pod_s"]["min"] <= report["pod_s"]["max"] < report["job_s"]
    assert {"mean", "std", "p50", "p95", "max"} <= report["pod_s"].keys()
    assert report["overload_node_s"] >= 0
    assert re.search(r"30 of 30 Pods succeeded, 0 failed, 0 bound twice, 0 never bound", out)
    assert "\x1b" not in out + err, "no terminal: plain lines"
    assert shell.left("e2e-demo") == []


async def test_the_report_is_one_page_that_loads_nothing(shell: carico_command.Shell) -> None:
    code, out, err = await shell.run(
        "demo", "--name", "e2e-page", "--pods", "4", "--seconds", "0.5", "--nodes", "2", "--estimator", "dual"
    )
    assert code == 0, out + err
    page = (shell.directory / "var/e2e-page/report.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 4
    assert not re.search(r'(src|href)="(?!#)', page)
    # Namespaces of SVG are names, not addresses that anything loads.
    assert set(re.findall(r"https?://[^\s\"'<]+", page)) <= {
        "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink", "https://matplotlib.org/",
        "http://creativecommons.org/ns#", "http://purl.org/dc/elements/1.1/", "http://purl.org/dc/dcmitype/StillImage",
        "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    }  # fmt: skip


@pytest.mark.parametrize("moment", ["start", "job", "twice"])
async def test_ctrl_c_ends_everything(shell: carico_command.Shell, moment: str) -> None:
    name = f"e2e-int-{moment}"
    process = await shell.start("demo", "--name", name, "--pods", "40", "--seconds", "5")
    await carico_command.said(process, "running" if moment == "job" else "ready: nats")
    process.send_signal(signal.SIGINT)
    if moment == "twice":
        # While the first is being followed: the end is hurried, and as complete.
        await asyncio.sleep(0.1)
        process.send_signal(signal.SIGINT)
    async with asyncio.timeout(carico_command.WITHIN_S):
        _, err = await process.communicate()
    assert process.returncode == 130
    assert b"interrupted" in err
    assert b"Traceback" not in err
    assert shell.left(name) == []


async def test_a_killed_demo_takes_its_cluster_along(shell: carico_command.Shell) -> None:
    process = await shell.start("demo", "--name", "e2e-kill", "--pods", "40")
    await carico_command.said(process, "running")
    process.kill()
    await process.wait()
    paths = shell.paths("e2e-kill")
    await waiting.until(lambda: not state.is_running(paths), within_s=carico_command.WITHIN_S)
    code, out, err = await shell.run("down", "--name", "e2e-kill")
    assert code == 0, out + err
    assert shell.left("e2e-kill") == []


async def test_a_crashed_service_is_named_with_its_last_lines(shell: carico_command.Shell) -> None:
    process = await shell.start("demo", "--name", "e2e-crash", "--pods", "40")
    await carico_command.said(process, "running")
    found = state.read(shell.paths("e2e-crash"))
    assert found is not None
    (victim,) = [service for service in found.services if service.name == "scheduler"]
    assert victim.process is not None
    os.kill(victim.process.pid, signal.SIGKILL)
    async with asyncio.timeout(carico_command.WITHIN_S):
        _, err = await process.communicate()
    assert process.returncode == 1
    assert b"scheduler ended by itself (killed by SIGKILL); its last lines:" in err
    logs = shell.paths("e2e-crash").logs
    last = (logs / "scheduler.log").read_bytes().splitlines()[-1]
    assert b"  " + last + b"\n" in err, "its last log lines follow"
    assert f"logs are kept in {logs}".encode() in err
    assert shell.left("e2e-crash") == [str(logs.parent)], "the logs and nothing else"
    assert list(logs.parent.iterdir()) == [logs]
