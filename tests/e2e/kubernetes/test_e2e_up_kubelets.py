"""`carico up --nodes kubelet`: kubelets in namespaces of this machine, jobs on them, and nothing left of them."""

import asyncio
import json
import os
import pathlib
import signal
import subprocess

import pytest

from carico_local.cluster import folders, processes, state
from carico_local.kubelets import network, node_cgroups
from tests.e2e import carico_command
from tests.e2e.kubernetes import kubelet_site
from tests.tools import debian, kubernetes, waiting

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(kubernetes.BUILD_TIMEOUT_S),
    pytest.mark.skipif(debian.allowed() is not None, reason=str(debian.allowed())),
]
NAME = "kubelets"
FLAGS = ("--nodes", "kubelet=2", "--cores", "2", "--scale", "0.5")
UP_WITHIN_S = JOB_WITHIN_S = 150.0
# Settings of the whole machine, which a kubelet sets where it may.
MACHINE = ("vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops")


@pytest.fixture
def shell(tmp_path: pathlib.Path) -> carico_command.Shell:
    """A shell on a machine that has the programs."""
    kubernetes.programs("kubelet", "kube-proxy", "coredns", "metrics-server", "kubectl")
    found = carico_command.Shell(tmp_path)
    found.environ |= debian.node_environ(tmp_path / "bin")
    return found


def left_of(shell: carico_command.Shell) -> list[str]:
    """What is left on the machine: processes, cgroups in any tree, interfaces, mounts, state."""
    found = shell.left(NAME)
    found += [each for each in node_cgroups.trees() if (pathlib.Path(each) / f"carico-{NAME}").exists()]
    # Other clusters of this machine have theirs.
    found += network.of(pathlib.Path("ip"), NAME)
    mounts = pathlib.Path("/proc/self/mounts").read_text(encoding="utf-8")
    return found + [line for line in mounts.splitlines() if str(shell.directory) in line]


def settings_of_the_machine() -> dict[str, str]:
    """Return the settings of the machine's kernel, by name."""
    return {name: pathlib.Path("/proc/sys", name).read_text(encoding="ascii") for name in MACHINE}


async def test_a_job_runs_and_down_leaves_nothing_even_after_a_kill(shell: carico_command.Shell) -> None:
    before = settings_of_the_machine()
    code, out, err = await shell.run("up", "--name", NAME, *FLAGS, within_s=UP_WITHIN_S)
    assert code == 0, out + err
    try:
        job = ("--pods", "8", "--seconds", "0.5", "--job", "eight", "--wait")
        code, out, err = await shell.run("submit", "pi", "--name", NAME, *job, within_s=JOB_WITHIN_S)
        assert code == 0, out + err
        _look(shell)
        await _run_workloads(shell)
        await asyncio.to_thread(_run_job, shell)
        # Pods are running when all that could end them is killed.
        code, out, err = await shell.run("submit", "server", "--name", NAME, "--pods", "2", "--seconds", "600")
        assert code == 0, out + err
        await waiting.until(lambda: _running(shell) >= 2, within_s=JOB_WITHIN_S)
        await asyncio.to_thread(_exec, shell)
        await waiting.until(lambda: _measured(shell), within_s=JOB_WITHIN_S)
        found = state.read(shell.paths(NAME))
        assert found is not None
        os.kill(found.supervisor.pid, signal.SIGKILL)
    finally:
        code, out, err = await shell.run("down", "--name", NAME)
    assert code == 0, out + err
    await waiting.until(lambda: not left_of(shell), within_s=30.0)
    assert settings_of_the_machine() == before


async def test_a_node_that_is_killed_comes_back(shell: carico_command.Shell) -> None:
    async with carico_command.cluster(shell, NAME, *FLAGS) as paths:
        found = _node_process(paths)
        os.kill(found.pid, signal.SIGKILL)
        await waiting.until(lambda: _came_back(paths, found), within_s=60.0)
        job = ("--pods", "4", "--seconds", "0.2", "--job", "four", "--wait")
        code, out, err = await shell.run("submit", "pi", "--name", NAME, *job, within_s=JOB_WITHIN_S)
        assert code == 0, out + err
    await waiting.until(lambda: not left_of(shell), within_s=30.0)


async def test_what_is_missing_is_named_with_the_nearest_kind_that_works(tmp_path: pathlib.Path) -> None:
    shell = carico_command.Shell(tmp_path)
    shell.environ |= {"PATH": str(tmp_path), "CNI_PATH": ""}
    code, _, err = await shell.run("up", "--name", NAME, *FLAGS)
    assert code == 2
    assert "containerd, containerd-shim-runc-v2" in err
    assert "--nodes process" in err
    assert len(err.strip().splitlines()) == 1


async def _run_workloads(shell: carico_command.Shell) -> None:
    """A job of each other workload, which runs to its end and is seen by `carico status`."""
    for workload, pods, seconds in (("train", 1, "1"), ("server", 1, "1")):
        job = ("--pods", str(pods), "--seconds", seconds, "--job", workload)
        code, out, err = await shell.run("submit", workload, "--name", NAME, *job, "--wait", within_s=JOB_WITHIN_S)
        assert code == 0, out + err
        assert f"job {workload}: {pods} of {pods} done" in out
    # Services that have just been busy may be slower to say so than it waits.
    _, out, _ = await waiting.answered(
        lambda: shell.run("status", "--name", NAME, "--json"), lambda done: done[0] == 0, within_s=JOB_WITHIN_S
    )
    shown = json.loads(out)
    seen = {job["name"]: (job["pods"], job["succeeded"]) for job in shown["jobs"]}
    assert (seen["eight"], seen["train"], seen["server"]) == ((8, 8), (1, 1), (1, 1))


def _run_job(shell: carico_command.Shell) -> None:
    """A Job of ten Pods in a shell's image, by kubectl alone."""
    _kubectl(shell, "apply", "--filename", "-", given=json.dumps(kubelet_site.job("ten", 10)))
    _kubectl(shell, "wait", "--for=condition=complete", "job/ten", "--timeout=120s")
    phases = _kubectl(
        shell, "get", "pods", "--selector", "job-name=ten", "--output", "jsonpath={.items[*].status.phase}"
    )
    assert phases.split() == ["Succeeded"] * 10


def _look(shell: carico_command.Shell) -> None:
    """Both nodes took Pods, each with addresses of its own, and none shows more than its share of the machine."""
    shown = json.loads(_kubectl(shell, "get", "nodes,pods", "--output", "json"))["items"]
    pods = [each for each in shown if each["kind"] == "Pod"]
    assert {pod["spec"]["nodeName"] for pod in pods} == {"node-1", "node-2"}
    assert len({pod["status"]["podIP"] for pod in pods}) == len(pods)
    for node in (each for each in shown if each["kind"] == "Node"):
        assert float(node["status"]["allocatable"]["cpu"].removesuffix("m")) <= 1000
        assert "containerd" in node["status"]["nodeInfo"]["containerRuntimeVersion"]
    # Logs come by the API server, through the relay's other side: it asks the kubelet at its own address.
    assert '"workload": "pi"' in _kubectl(shell, "logs", pods[0]["metadata"]["name"])


def _exec(shell: carico_command.Shell) -> None:
    """A command runs in a running Pod."""
    pod = _kubectl(shell, "get", "pods", "--field-selector", "status.phase=Running", "--output", "name").split()[0]
    assert '"workload": "pi"' in _kubectl(shell, "exec", pod, "--", "carico-workload", "pi", "--seconds", "0.05")


def _measured(shell: carico_command.Shell) -> bool:
    """Return whether `kubectl top` shows both nodes and the Pods that run."""
    tables = [
        _kubectl(shell, "get", "--raw", f"/apis/metrics.k8s.io/v1beta1/{kind}")
        for kind in ("nodes", "namespaces/default/pods")
    ]
    nodes, pods = (json.loads(table)["items"] for table in tables)
    if len(nodes) < 2 or len(pods) < 2:
        return False
    of_nodes, of_pods = (_kubectl(shell, "top", kind).splitlines()[1:] for kind in ("nodes", "pods"))
    return (
        len(of_nodes) == 2 and len(of_pods) >= 2 and all(line.split()[1].endswith("m") for line in of_nodes + of_pods)
    )


def _running(shell: carico_command.Shell) -> int:
    return _kubectl(shell, "get", "pods", "--output", "jsonpath={.items[*].status.phase}").split().count("Running")


def _kubectl(shell: carico_command.Shell, *arguments: str, given: str = "") -> str:
    command = str(kubernetes.programs("kubectl")["kubectl"].path)
    environ = {**shell.environ, "KUBECONFIG": str(shell.paths(NAME).kubeconfig)}
    done = subprocess.run(
        [command, *arguments], env=environ, input=given, capture_output=True, text=True, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def _node_process(paths: folders.Paths) -> processes.ProcessId:
    found = state.read(paths)
    assert found is not None
    process = next(each.process for each in found.services if each.name == "node/node-1")
    assert process is not None
    return process


def _came_back(paths: folders.Paths, before: processes.ProcessId) -> bool:
    found = state.read(paths)
    assert found is not None
    node = next(each for each in found.services if each.name == "node/node-1")
    return node.process is not None and node.process != before and node.ready
