"""A job on the real control plane and process nodes, each bind counted by the API server; then a killed tool."""

import asyncio
import os
import pathlib
import signal

import pytest

from carico_core.runtime.kube import api_client, paged_lists
from carico_core.runtime.process import clock as clocks
from carico_local.cluster import folders, state
from tests.e2e import carico_command
from tests.tools import kubernetes
from tests.tools.api import audit_log

NAME = "e2e-real"
PODS = 30

pytestmark = pytest.mark.real_programs


async def test_each_pod_of_a_job_is_bound_once_and_a_killed_tool_leaves_nothing(tmp_path: pathlib.Path) -> None:
    # Built beforehand where they are missing: `carico up` would do it too, but not in the time it is given here.
    programs = await asyncio.to_thread(kubernetes.control_plane_programs)
    shell = carico_command.Shell(tmp_path)
    flags = ("--control-plane", "real", "--nodes", "2")
    async with carico_command.cluster(shell, NAME, *flags) as paths:
        submit = ("submit", "pi", "--name", NAME, "--pods", str(PODS), "--seconds", "0.5", "--job", "pi", "--wait")
        code, out, err = await shell.run(*submit)
        assert code == 0, out + err
        await _check_binds(paths)
        seen = await shell.until(
            "status", "--name", NAME, "--json", holds=lambda seen: [job["succeeded"] for job in seen["jobs"]] == [PODS]
        )
        assert {service["name"] for service in seen["services"]} >= {"etcd", "api", "kube-controller-manager"}
        await _kubectl(shell, str(programs["kubectl"].path), paths)
        _, out, _ = await shell.run("logs", "kube-controller-manager", "--name", NAME, "--tail", "5")
        assert out
        found = state.read(paths)
        assert found is not None
        os.kill(found.supervisor.pid, signal.SIGKILL)


async def _check_binds(paths: folders.Paths) -> None:
    """Return the API server's own log of bindings."""
    settings = api_client.KubeSettings(kubeconfig=str(paths.kubeconfig))
    client = await api_client.connect(settings, clock=clocks.SystemClock(), user_agent="test")
    try:
        pods = (await paged_lists.list_all(client, "/api/v1/namespaces/default/pods", params={})).objects
    finally:
        await client.close()
    bound = audit_log.bindings(paths.data / "control-plane" / "bindings.log")
    assert len(pods) == PODS
    assert bound == {f"default/{pod['metadata']['name']}": [pod["spec"]["nodeName"]] for pod in pods}
    assert {pod["metadata"]["ownerReferences"][0]["kind"] for pod in pods} == {"Job"}
    assert {node for nodes in bound.values() for node in nodes} == {"node-1", "node-2"}


async def _kubectl(shell: carico_command.Shell, kubectl: str, paths: folders.Paths) -> None:
    """Logs go through the API server to the node, by TLS both ways."""
    process = await asyncio.create_subprocess_exec(
        kubectl, "--kubeconfig", str(paths.kubeconfig), "logs", "job/pi",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, env=shell.environ,
    )  # fmt: skip
    async with asyncio.timeout(carico_command.WITHIN_S):
        out, _ = await process.communicate()
    assert process.returncode == 0, out
    assert b'"workload": "pi"' in out
