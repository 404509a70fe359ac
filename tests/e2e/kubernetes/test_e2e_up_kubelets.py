"""`carico up --nodes kubelet`: a cluster of real kubelets by the tool, a job on it, and nothing left of it."""

import asyncio
import json
import os
import pathlib
import signal
import subprocess

import pytest

from carico_local.cluster import state
from carico_local.kubelets import engine as engines
from tests.e2e import carico_command
from tests.e2e.kubernetes import kubelet_site
from tests.tools import debian, docker_engine, kubernetes

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(kubelet_site.COLD_TIMEOUT_S),
    pytest.mark.skipif(debian.allowed() is not None, reason=str(debian.allowed())),
]
NAME = "kubelets"
UP_WITHIN_S = 150.0
JOB_WITHIN_S = 150.0


@pytest.fixture
def shell(site_images: kubelet_site.Images, tmp_path: pathlib.Path) -> carico_command.Shell:
    """A shell that reaches the tests' engine."""
    found = carico_command.Shell(tmp_path)
    found.environ |= site_images.running.environ
    return found


def left_in(engine: engines.Engine) -> list[str]:
    """Containers and networks of the cluster."""
    return [*engine.ours("container", NAME), *engine.ours("network", NAME)]


async def test_a_job_runs_on_kubelets_and_a_killed_tool_leaves_nothing(
    shell: carico_command.Shell, site_images: kubelet_site.Images
) -> None:
    flags = ("--nodes", "kubelet=2", "--cores", "2", "--scale", "0.5", "--node-base", site_images.node_base)
    code, out, err = await shell.run("up", "--name", NAME, *flags, within_s=UP_WITHIN_S)
    assert code == 0, out + err
    try:
        await asyncio.to_thread(_run_job, shell)
        await _run_workloads(shell)
        found = state.read(shell.paths(NAME))
        assert found is not None
        os.kill(found.supervisor.pid, signal.SIGKILL)
    finally:
        code, out, err = await shell.run("down", "--name", NAME)
    assert code == 0, out + err
    assert shell.left(NAME) == []
    assert left_in(site_images.running.engine) == []


async def test_without_an_engine_it_says_what_works(tmp_path: pathlib.Path) -> None:
    shell = carico_command.Shell(tmp_path)
    shell.environ["DOCKER_HOST"] = f"unix://{tmp_path}/none.sock"
    shell.environ["PATH"] = f"{docker_engine.commands()}:{shell.environ['PATH']}"
    code, _, err = await shell.run("up", "--name", NAME, "--nodes", "kubelet=2")
    assert code == 2
    assert "no Docker engine answers" in err
    assert "--nodes process" in err
    assert len(err.strip().splitlines()) == 1


async def _run_workloads(shell: carico_command.Shell) -> None:
    """A job of each workload by `carico submit`, which runs to its end and is seen by `carico status`."""
    for workload, pods, seconds in (("pi", 6, "0.5"), ("train", 1, "1"), ("server", 1, "1")):
        job = ("--pods", str(pods), "--seconds", seconds, "--job", workload)
        code, out, err = await shell.run("submit", workload, "--name", NAME, *job, "--wait", within_s=JOB_WITHIN_S)
        assert code == 0, out + err
        assert f"job {workload}: {pods} of {pods} done" in out
    code, out, err = await shell.run("status", "--name", NAME, "--json")
    assert code == 0, out + err
    shown = json.loads(out)
    seen = {job["name"]: (job["pods"], job["succeeded"]) for job in shown["jobs"]}
    assert (seen["pi"], seen["train"], seen["server"]) == ((6, 6), (1, 1), (1, 1))


def _run_job(shell: carico_command.Shell) -> None:
    """A job of ten Pods that CARICO places, to its end."""
    kubectl = str(kubernetes.programs("kubectl")["kubectl"].path)
    environ = {**shell.environ, "KUBECONFIG": str(shell.paths(NAME).kubeconfig)}

    def ask(*arguments: str, given: str = "") -> str:
        done = subprocess.run(
            [kubectl, *arguments], env=environ, input=given, capture_output=True, text=True, check=False
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    ask("apply", "--filename", "-", given=json.dumps(kubelet_site.job("ten", 10)))
    ask("wait", "--for=condition=complete", "job/ten", "--timeout=120s")
    assert ask("get", "pods", "--output", "jsonpath={.items[*].status.phase}").split() == ["Succeeded"] * 10
