"""A cluster by hand: up, env, submit, status, logs, record, down; two side by side; what is killed; wrong words."""

import asyncio
import contextlib
import json
import os
import pathlib
import shutil
import signal
import urllib.parse
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from carico_cli.recordings import reading
from carico_local.cluster import state
from tests.e2e import carico_command
from tests.tools import carico_cli, waiting


@pytest.fixture
def shell(tmp_path: pathlib.Path) -> carico_command.Shell:
    return carico_command.Shell(tmp_path)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kept(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[carico_command.Shell]:
    """The cluster e2e-b, which is of all tests that name it."""
    shell = carico_command.Shell(tmp_path_factory.mktemp("kept"))
    async with carico_command.cluster(shell, "e2e-b", "--nodes", "2"):
        yield shell


@pytest.mark.asyncio(loop_scope="module")
async def test_two_clusters_run_side_by_side_and_are_used_from_other_shells(kept: carico_command.Shell) -> None:
    flags = ("--nodes", "2", "--aggregators", "2", "--schedulers", "2")
    async with carico_command.cluster(kept, "e2e-a", *flags):
        await _use_two(kept)


async def _use_two(shell: carico_command.Shell) -> None:
    environments = {}
    for name in ("e2e-a", "e2e-b"):
        code, out, err = await shell.run("env", "--name", name)
        assert code == 0, err
        environments[name] = out
        lines = out.splitlines()
        assert lines[0] == f"export CARICO_CLUSTER={name}"
        assert lines[1].startswith("export NATS_URL=nats://local:")
        assert lines[2].startswith("export KUBECONFIG=")
    assert environments["e2e-a"] != environments["e2e-b"]
    code, out, err = await shell.run(
        "submit", "pi", "--name", "e2e-a", "--pods", "6", "--seconds", "0.5", "--job", "six", "--wait"
    )
    assert code == 0, out + err
    assert "6 of 6 done" in out
    code, out, err = await shell.run("submit", "pi", "--name", "e2e-a", "--pods", "6", "--job", "six")
    assert code == 2, out + err
    assert "six" in err
    seen = await shell.until("status", "--name", "e2e-a", "--json", holds=_is_well)
    assert sum(service["name"].startswith("aggregator") for service in seen["services"]) == 2
    code, out, _ = await shell.run("logs", "scheduler", "--name", "e2e-a")
    assert code == 0
    assert '"started"' in out
    await _kubectl(shell, environments["e2e-a"])
    await _bus_is_closed(shell, "e2e-a", environments["e2e-a"])


def _is_well(seen: Any) -> bool:
    """Whether the job has ended and every node is heard."""
    fresh = {node["freshness"] for node in seen["nodes"]} == {"fresh"}
    return fresh and [job["succeeded"] for job in seen["jobs"]] == [6]


def _runs_two(seen: Any) -> bool:
    return [job["running"] for job in seen["jobs"]] == [2]


def _runs_none(seen: Any) -> bool:
    return all(job["running"] == job["pending"] == 0 for job in seen["jobs"])


async def _bus_is_closed(shell: carico_command.Shell, name: str, environment: str) -> None:
    """Other users of the machine find neither the bus's password nor a way in without it."""
    url = urllib.parse.urlsplit(environment.splitlines()[1].partition("=")[2])
    assert url.password is not None
    folder = pathlib.Path(environment.splitlines()[2].partition("=")[2]).parent
    assert not _seen_by_others(folder, url.password.encode())
    code, out, err = await shell.run("status", "--name", name, "--json")
    assert code == 0, err
    assert url.password not in out
    for shown in ({}, {"user": "local", "pass": "unnamed"}, {"user": "agent", "pass": "unnamed"}, {"user": "local"}):
        reader, writer = await asyncio.open_connection(url.hostname, url.port)
        try:
            writer.write(b"CONNECT %s\r\nPING\r\n" % json.dumps({"verbose": False, **shown}).encode())
            assert b"Authorization Violation" in await asyncio.wait_for(reader.read(), waiting.WAIT_S)
        finally:
            writer.close()
            await writer.wait_closed()


def _seen_by_others(folder: pathlib.Path, secret: bytes) -> list[pathlib.Path]:
    """The command lines of processes, and the readable files of a cluster, that contain the secret."""
    found = []
    for path in [*pathlib.Path("/proc").glob("[0-9]*/cmdline"), *folder.rglob("*")]:
        with contextlib.suppress(OSError):
            if path.is_file() and path.stat().st_mode & 0o077 and secret in path.read_bytes():
                found.append(path)
    return found


async def _kubectl(shell: carico_command.Shell, environment: str) -> None:
    """kubectl works on the cluster, where it is installed."""
    if shutil.which("kubectl") is None:
        return
    process = await asyncio.create_subprocess_shell(
        f"{environment}\nkubectl get pods -o wide && kubectl logs six-0",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, env=shell.environ,
    )  # fmt: skip
    out, _ = await process.communicate()
    assert process.returncode == 0, out
    assert out.count(b"Completed") == 6
    assert b'"workload": "pi"' in out


async def test_after_the_supervisor_is_killed_down_leaves_nothing(shell: carico_command.Shell) -> None:
    code, out, err = await shell.run("up", "--name", "e2e-orphan", "--nodes", "2")
    assert code == 0, out + err
    found = state.read(shell.paths("e2e-orphan"))
    assert found is not None
    submit = ("submit", "pi", "--name", "e2e-orphan", "--pods", "2", "--job", "long", "--seconds", "600")
    code, out, err = await shell.run(*submit)
    assert code == 0, out + err
    await shell.until("status", "--name", "e2e-orphan", "--json", holds=_runs_two)
    os.kill(found.supervisor.pid, signal.SIGKILL)
    code, out, _ = await shell.run("status", "--name", "e2e-orphan")
    assert code == 1
    assert "not running" in out
    code, out, err = await shell.run("up", "--name", "e2e-orphan", "--nodes", "1")
    assert code == 0, out + err
    assert "had ended without `carico down`: 0 Pods continue" in out
    assert "removed node-2, not in this plan" in out
    await shell.until("status", "--name", "e2e-orphan", "--json", holds=_runs_none)
    code, out, err = await shell.run("down", "--name", "e2e-orphan")
    assert code == 0, out + err
    assert shell.left("e2e-orphan") == []


@pytest.mark.asyncio(loop_scope="module")
async def test_a_node_is_recorded_while_pods_run(kept: carico_command.Shell) -> None:
    shell, path = kept, kept.directory / "node-1.rec"
    words = ("record", "--name", "e2e-b", "--node", "node-1", "--out", path.name, "--for", "600")
    async with shell.running(*words) as recording:
        # The first block of samples: before it a Pod could come and go unseen.
        await waiting.until(lambda: path.exists() and path.stat().st_size, within_s=carico_command.WITHIN_S)
        code, out, err = await shell.run("submit", "pi", "--name", "e2e-b", "--pods", "6", "--seconds", "1", "--wait")
        assert code == 0, out + err
        # The API may show the last Pod's end before the recording has it.
        await waiting.until(lambda: _balanced(path), within_s=carico_command.WITHIN_S)
        # Ctrl-C ends a recording and keeps it.
        recording.terminate()
        async with asyncio.timeout(carico_command.WITHIN_S):
            said, notes = await recording.communicate()
    assert recording.returncode == 0, notes
    assert b"node-1.rec: " in said
    assert b"interrupted" in notes
    code, _, err = await shell.run("record", "--name", "e2e-b", "--node", "node-9", "--out", "x.rec")
    assert code == 2
    assert "expected one of node-1, node-2" in err
    found = reading.read(path).recording
    assert found.ended
    assert found.facts.node == "node-1"
    assert found.facts.cores == 4.0
    kinds = [event.kind.value for event in found.events]
    assert 1 <= kinds.count("ended") == kinds.count("started") <= 6
    assert max(found.samples.values[:, 0]) > 0.1
    for estimator in ("dual", "footprint"):
        code, out, err = await shell.run("replay", path.name, "--estimator", estimator, "--json")
        assert code == 0, err
        assert json.loads(out)["most_pods"] >= 1


def _balanced(path: pathlib.Path) -> bool:
    """Whether Pods have started by what is in the file so far, and each has ended."""
    kinds = [event.kind.value for event in reading.read(path, partial=True).recording.events]
    return 0 < kinds.count("started") == kinds.count("ended")


@pytest.mark.asyncio(loop_scope="module")
async def test_a_crashed_service_is_started_again_and_the_cluster_goes_on(kept: carico_command.Shell) -> None:
    shell, paths = kept, kept.paths("e2e-b")
    found = state.read(paths)
    assert found is not None
    for name in ("scheduler", "aggregator", "agent/node-1"):
        (victim,) = [service for service in found.services if service.name == name]
        assert victim.process is not None
        os.kill(victim.process.pid, signal.SIGKILL)

    def healed() -> bool:
        now = state.read(paths)
        return now is not None and all(service.ready for service in now.services) and len(now.crashes) == 3

    await waiting.until(healed, within_s=carico_command.WITHIN_S)
    code, out, err = await shell.run(
        "submit", "pi", "--name", "e2e-b", "--pods", "4", "--seconds", "0.5", "--wait"
    )  # fmt: skip
    assert code == 0, out + err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("demo", "--pods", "0"), "--pods: got 0, expected 1 to"),
        (("demo", "--pods", "many"), "'many' is not a valid integer"),
        (("demo", "--ceiling", "7"), "--ceiling: got 7, expected 0.05 to 1"),
        (("demo", "--workload", "pie"), "'pie' is not one of 'pi', 'train', 'mixed'"),
        (("up", "--name", "Not_Valid"), "expected a name of lower-case letters"),
        (("up", "--nodes", "100", "--scale", "1"), "do not fit into the free memory"),
        (("up", "--nodes", "kwok=3", "--control-plane", "embedded"), "needs --control-plane real"),
        (("demo", "--nodes", "kwok"), "there is nothing to measure"),
        (("status", "--name", "nobody"), "no cluster named 'nobody'"),
        (("env",), "no cluster runs on this machine"),
        (("down", "--name", "nobody"), "start it with `carico up --name nobody`"),
    ],
)
def test_wrong_arguments_give_one_line_and_exit_code_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], shell: carico_command.Shell,
    words: tuple[str, ...], expected: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(os, "environ", shell.environ)
    monkeypatch.chdir(shell.directory)
    code = carico_cli.run(monkeypatch, *words)
    out, err = capsys.readouterr()
    assert code == 2, out + err
    assert expected in err
    assert err.count("\n") == 1
    assert out == ""


async def test_a_wrong_command_gives_one_line_and_exit_code_2(shell: carico_command.Shell) -> None:
    code, out, err = await shell.run("dmo")
    assert code == 2, out + err
    assert "Did you mean 'demo'" in err
    assert err.count("\n") == 1
    assert out == ""
