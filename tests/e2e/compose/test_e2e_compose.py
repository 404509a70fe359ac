"""`docker compose up`, for real: an engine that the test starts, images built from this tree."""

import os
import pathlib
import re
import stat
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from tests.e2e.compose import compose_site
from tests.tools import debian
from tests.tools.docker import images

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(compose_site.COLD_TIMEOUT_S),
    pytest.mark.skipif(debian.allowed() is not None, reason=str(debian.allowed())),
]
SERVICES = {"nats-server": 1, "api": 1, "aggregator": 2, "scheduler": 2, "auth": 1, "node": compose_site.NODES}


def test_the_first_pod_is_placed_soon(first_pod_s: float) -> None:
    print(f"docker compose up to first Pod placed: {first_pod_s:.1f} s")
    assert first_pod_s < compose_site.FIRST_POD_MOST_S


def test_up_waits_until_everything_is_healthy(stack: compose_site.Stack) -> None:
    for service, count in SERVICES.items():
        found = stack.inspected(service)
        assert len(found) == count, service
        assert {each["State"]["Health"]["Status"] for each in found} == {"healthy"}
    assert set(stack.nodes()) == {f"node-{number}" for number in range(1, compose_site.NODES + 1)}


def test_one_of_two_schedulers_leads(stack: compose_site.Stack) -> None:
    stack.until("one leads", stack.leader)
    assert len(stack.leader()) == 1


def test_nothing_is_reachable_from_elsewhere_and_nothing_has_rights(stack: compose_site.Stack) -> None:
    for each in stack.inspected():
        published = [at for bound in each["NetworkSettings"]["Ports"].values() for at in bound or ()]
        assert {at["HostIp"] for at in published} <= {"127.0.0.1"}
        assert each["Config"]["User"] == "65532:65532"
        assert each["HostConfig"]["CapDrop"] == ["ALL"]
        assert not each["HostConfig"]["Privileged"]
        assert each["HostConfig"]["SecurityOpt"] == ["no-new-privileges:true"]


def test_a_node_is_its_container(stack: compose_site.Stack) -> None:
    for each in stack.inspected("node"):
        host = each["HostConfig"]
        assert (host["CpuQuota"], host["CpuPeriod"], host["Memory"]) == (5000, 10000, 2**30)
        # One setting is both: what Pods have, and what the engine waits beyond that.
        assert "CARICO_CONTAINER_DRAIN_S=30" in each["Config"]["Env"]
        assert each["Config"]["StopTimeout"] == 50
    status = stack.nodes()["node-1"]["status"]
    assert status["capacity"] == {"cpu": "4", "memory": "8388608Ki", "pods": "110"}
    assert status["addresses"][0]["address"].count(".") == 3
    assert status["addresses"][0]["address"] != "127.0.0.1"


def test_a_node_says_once_how_it_is_measured(stack: compose_site.Stack) -> None:
    said = stack.compose("logs", "--no-log-prefix", "--index", "1", "node")
    lines = [line for line in said.splitlines() if '"fallback"' in line]
    look = "cat /sys/fs/cgroup/cpu.pressure 2>/dev/null || true"
    sees = stack.compose("exec", "-T", "--index", "1", "node", "sh", "-c", look)
    of_container = [line for line in lines if "contained" in line]
    assert len(of_container) == (0 if sees else 1)


def test_each_image_is_small_and_has_no_user(built_stack: compose_site.Stack) -> None:
    images.check(built_stack.running.engine, [images.COMPOSE, images.COMPOSE_NATS])


def test_a_node_compiles_nothing_when_it_starts(stack: compose_site.Stack) -> None:
    """A module whose bytecode is not in the image is compiled at every start, on half a CPU."""
    look = "import carico_local.contained.main, carico_local.contained.programs, carico_agent.__main__, encodings.idna"
    words = ("python", "-OO", "-v", "-c", look)
    done = stack.attempt("exec", "-T", "--index", "1", "node", *words)
    assert done.returncode == 0
    assert "# code object from '/opt/carico/bytecode" in done.stderr
    assert re.findall(r"# code object from \S+\.py$", done.stderr, re.MULTILINE) == []


def test_what_runs_in_a_node_are_forks_of_the_first_process(stack: compose_site.Stack) -> None:
    look = "for each in /proc/[0-9]*; do tr '\\0' ' ' < $each/cmdline; echo; done"
    said = stack.compose("exec", "-T", "--index", "1", "node", "sh", "-c", look)
    # It, kubelet, agent, and the parent of the node's containers; no Pod runs by now.
    assert [line.strip() for line in said.splitlines()].count("python -OO -m carico_local.contained") == 4
    assert "zygote" not in said


def test_a_job_runs_and_tells_its_progress(stack: compose_site.Stack) -> None:
    said = stack.compose("run", "--rm", "-T", "submit", "pi", "--pods", "200", "--seconds", "0.3", "--job", "many")
    told = [int(done) for done in re.findall(r"job many: (\d+) of 200 done", said)]
    assert told == sorted(set(told))
    assert len(told) >= 3
    assert told[-1] == 200
    pods = stack.pods("many")
    assert compose_site.phases(pods) == {"Succeeded": 200}
    assert {pod["spec"]["nodeName"] for pod in pods} == set(stack.nodes())


def test_logs_of_a_pod_come_from_its_node(stack: compose_site.Stack) -> None:
    stack.compose("run", "--rm", "-T", "submit", "pi", "--pods", "1", "--seconds", "0.1", "--job", "wordy")
    assert stack.get("/api/v1/namespaces/default/pods/wordy-0/log")["workload"] == "pi"


def test_the_token_is_its_users_alone(stack: compose_site.Stack) -> None:
    assert len(stack.token()) >= 32
    assert stat.S_IMODE(stack.kubeconfig.stat().st_mode) == 0o600
    look = ("sh", "-c", "stat -c %a /access /access/token; touch /access/other")
    for service, code in (("api", 0), ("scheduler", 1), ("node", 1)):
        done = stack.attempt("exec", "-T", "--index", "1", service, *look)
        assert done.stdout.split() == ["700", "600"]
        assert done.returncode == code, service
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"{stack.api_url}/api/v1/pods", timeout=10.0)


def test_each_service_can_read_its_own_key_of_the_bus_and_no_other(stack: compose_site.Stack) -> None:
    look = ("sh", "-c", "ls /bus/*/*.nk; stat -c %a /bus/*/*.nk; rm -f /bus/*/*.nk")
    for service, own in (
        ("aggregator", "aggregator"),
        ("scheduler", "scheduler"),
        ("auth", "auth"),
        ("node", "agent-node-1"),
    ):
        done = stack.attempt("exec", "-T", "--index", "1", service, *look)
        found = [line for line in done.stdout.split() if line.startswith("/")]
        assert any(path.endswith(f"/{own}.nk") for path in found)
        assert len(found) == 1 or all("/agent-node-" in path for path in found)
        assert set(done.stdout.split()) - set(found) == {"600"}
        assert done.returncode == 1, "its volume is read-only"


def test_the_commands_of_this_machine_reach_the_bus_with_a_copied_key(
    stack: compose_site.Stack, tmp_path: pathlib.Path
) -> None:
    key = tmp_path / "cli.nk"
    stack.compose("cp", "keys:/bus/cli/cli.nk", str(key))
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    url = f"nats://127.0.0.1:{stack.environ['CARICO_COMPOSE_NATS_PORT']}"
    nats = [str(stack.folder / "compose/nats-cli/nats"), "--server", url]
    named = ["--nkey", str(key), "--inbox-prefix", "_INBOX.cli"]
    listed = subprocess.run([*nats, *named, "stream", "ls", "--names"], capture_output=True, text=True, timeout=60.0)
    assert "CARICO_CAPACITY" in listed.stdout, listed.stderr
    without = subprocess.run([*nats, "stream", "ls", "--names"], capture_output=True, text=True, timeout=60.0)
    assert "authorization violation" in without.stderr.lower()
    environ = {"NATS_URL": url, "CARICO_BUS_NKEY": str(key), "KUBECONFIG": str(stack.kubeconfig), "PATH": os.defpath}
    stack.token()
    carico = pathlib.Path(sys.executable).with_name("carico")
    said = subprocess.run([carico, "capacity"], env=environ, capture_output=True, text=True, timeout=60.0)
    assert said.returncode == 0, said.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["nats", "stream", "ls", "--names"], "CARICO_CAPACITY"),
        (["nats", "context", "ls"], "carico"),
        (["nats", "sub", "--count", "1", "carico.v1.capacity.*"], '"capacity"'),
        (["nats", "service", "ls"], "carico-scheduler"),
        (["sh", "-c", "nats kv ls --names"], "carico_model"),
        (
            ["nats", "--context", "owner", "sub", "--stream", "CARICO_CAPACITY", "--count", "1", "carico.v1.>"],
            "received",
        ),
    ],
)
def test_the_nats_shell_knows_the_cluster(stack: compose_site.Stack, words: list[str], expected: str) -> None:
    stack.says(expected.lower(), "run", "--rm", "-T", "nats", *words)


def test_a_wrong_flag_is_reported_in_one_line(stack: compose_site.Stack) -> None:
    done = stack.attempt("run", "--rm", "-T", "submit", "pi", "--pods", "0")
    assert done.returncode == 2
    assert done.stderr.strip().splitlines()[-1] == "carico: --pods: got 0, expected 1 to 100000"


def test_the_command_says_what_it_can_do(stack: compose_site.Stack) -> None:
    assert "submit" in stack.compose("run", "--rm", "-T", "carico", "--help")


def test_a_node_that_is_too_small_says_so(built_stack: compose_site.Stack) -> None:
    done = subprocess.run(
        [built_stack.running.engine.command, "run", "--rm", "--memory", "64m", "--network", "none", "--hostname", "x",
         "--add-host", "x:127.0.0.1", "--env", "CARICO_CONTAINER_KUBECONFIG=/x", "carico-compose:0.1.0", "python", "-m",
         "carico_local.contained"],
        env=dict(built_stack.environ), capture_output=True, text=True, check=False, timeout=60.0,
    )  # fmt: skip
    assert done.returncode == 2
    assert "got a container of 64 MiB" in done.stderr
