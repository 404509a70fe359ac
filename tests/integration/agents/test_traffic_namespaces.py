"""Pods as real kubelets have them, with namespaces and cgroups of their own: bytes against what they counted."""

import contextlib
import functools
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from carico_agent.telemetry.cgroups import hierarchy
from carico_agent.traffic import owners, sockets
from carico_core.domain import pod_telemetry
from carico_core.numerics.rescheduling import pod_traffic
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from tests.tools import debian, waiting
from tests.tools.sites import talking_pods

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(debian.allowed() is not None, reason=str(debian.allowed())),
]
SERVER, CLIENT = "1c9c1f31-3a0e-4b7c-9f0e-2f6a0d5f4c11", "2c9c1f31-3a0e-4b7c-9f0e-2f6a0d5f4c22"
SERVER_IP, CLIENT_IP = "10.83.7.1", "10.83.7.2"
# Enters a new network namespace, and continues when it has its address.
ENTER = """
import ctypes, os, socket, sys, threading
if ctypes.CDLL(None, use_errno=True).unshare(0x40000000):
    sys.exit(os.strerror(ctypes.get_errno()))
print("entered", flush=True)
sys.stdin.readline()
"""
SERVE = f"""{ENTER}
listener = socket.create_server(("0.0.0.0", 8080), backlog=128)
print("listening", flush=True)
while True:
    peer, _ = listener.accept()
    with peer:
        while data := peer.recv(1000):
            peer.sendall(b"a" * (len(data) // 2))
"""
# Each line: how many connections to make, of one request each.
ASK = f"""{ENTER}
sent = 0
for line in sys.stdin:
    for _ in range(int(line)):
        with socket.create_connection(("{SERVER_IP}", 8080)) as peer:
            peer.sendall(b"q" * 1000)
            left = 500
            while left:
                left -= len(peer.recv(left))
        sent += 1000
    print(sent, flush=True)
"""


class Pod:
    """A process in a network namespace of its own."""

    def __init__(self, program: str, folder: pathlib.Path, uid: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.read() == "entered"
        (folder / f"pod{uid}").mkdir()
        (folder / f"pod{uid}" / "cgroup.procs").write_text(f"{self.process.pid}\n")

    def read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def write(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()


@pytest.fixture
def pods(tmp_path: pathlib.Path) -> Iterator[tuple[Pod, Pod]]:
    made: list[Pod] = []
    try:
        made += [Pod(SERVE, tmp_path, SERVER), Pod(ASK, tmp_path, CLIENT)]
        name = f"ct{os.getpid() % 100_000}"
        ends = [(made[0], f"{name}s", SERVER_IP), (made[1], f"{name}c", CLIENT_IP)]
        ip("link", "add", ends[0][1], "type", "veth", "peer", "name", ends[1][1])
        for pod, end, address in ends:
            pid = str(pod.process.pid)
            ip("link", "set", end, "netns", pid)
            inside = ("nsenter", "--net", "--target", pid, "ip")
            for words in (("addr", "add", f"{address}/24", "dev", end), ("link", "set", end, "up")):
                subprocess.run([*inside, *words], check=True, capture_output=True)
            pod.write("")
        assert made[0].read() == "listening"
        yield made[0], made[1]
    finally:
        for pod in made:
            with contextlib.suppress(ProcessLookupError):
                pod.process.kill()
            with pod.process:
                pass


def ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"this machine has no pairs of network devices: {done.stderr.strip()}")


@pytest.mark.skipif(shutil.which("ip") is None, reason="needs the command ip")
def test_pods_of_two_network_namespaces_are_counted_and_joined(tmp_path: pathlib.Path, pods: tuple[Pod, Pod]) -> None:
    _, client = pods
    skipped: dict[str, int] = {}
    source = sockets.Sockets(
        owners.Owners(
            hierarchy.Group(layout=hierarchy.Layout.V1, v1={"cpuacct": tmp_path}, unified=None),
            proc=pathlib.Path("/proc"),
        ),
        proc=pathlib.Path("/proc"), skipped=lambda reason, count: skipped.update({reason: count}),
        log=logs.RateLimited(logs.get("test"), clock=clocks.FakeClock()),
    )  # fmt: skip
    flows: list[pod_telemetry.PodFlow] = []
    try:
        source.poll()
        # Before the first poll of a namespace, nothing would count; after it, nothing is missed.
        client.write("40")
        counted = int(client.read())

        def joined() -> float:
            flows.extend(source.poll())
            report = pod_telemetry.PodTraffic(
                node="n", boot="0" * 16, seq=1, ts_ns=1, interval_s=1.0, network="", flows=tuple(flows)
            )
            both = pod_traffic.Addresses(
                nodes={SERVER: "n", CLIENT: "n"}, pods={SERVER_IP: SERVER, CLIENT_IP: CLIENT}
            )  # fmt: skip
            return pod_traffic.join([report], both).pairs.get((SERVER, CLIENT), 0.0)

        def ends() -> set[tuple[str | None, str]]:
            return {(each.pod, each.remote.address) for each in flows}

        # Either end is enough for the sum; each is seen by a poll of its own namespace.
        both = {(SERVER, CLIENT_IP), (CLIENT, SERVER_IP)}
        waiting.until_now(lambda: joined() >= counted * 1.5 and ends() >= both, what=lambda: (flows, skipped))
        assert joined() == pytest.approx(counted * 1.5, rel=0.02)
        assert ends() == both
        assert skipped == {}
    finally:
        source.close()


def is_removed(cgroup: pathlib.Path) -> bool:
    """Remove a cgroup; False while a process that has ended is still in it."""
    try:
        cgroup.rmdir()
    except OSError:
        return False
    return True


@pytest.fixture
def unified(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A cgroup of the unified tree, mounted here, and removed with what is in it."""
    mounted = tmp_path / "unified"
    mounted.mkdir()
    done = subprocess.run(["mount", "-t", "cgroup2", "none", str(mounted)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"this machine mounts no unified cgroups: {done.stderr.strip()}")
    own = mounted / f"carico-test-{os.getpid()}"
    try:
        own.mkdir()
        yield own
    finally:
        for folder in (*own.glob("*/container"), *own.glob("pod*"), own):
            waiting.until_now(functools.partial(is_removed, folder))
        subprocess.run(["umount", str(mounted)], check=True)


def test_the_kernel_states_the_cgroup_of_a_pods_socket(unified: pathlib.Path) -> None:
    server = talking_pods.Server()
    source = sockets.Sockets(
        owners.Owners(
            hierarchy.Group(layout=hierarchy.Layout.V2, v1={}, unified=unified), proc=pathlib.Path("/proc"),
        ),
        proc=pathlib.Path("/proc"), skipped=lambda reason, count: None,
        log=logs.RateLimited(logs.get("test"), clock=clocks.FakeClock()),
    )  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-c", talking_pods.PROGRAM, str(server.port)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        try:
            pod = unified / f"pod{CLIENT}"
            (pod / "container").mkdir(parents=True)
            (pod / "container" / "cgroup.procs").write_text(str(process.pid))
            client = talking_pods.Client(process)
            source.poll()
            client.ask("+2")
            requests = client.ask("q10")
            sent: list[int] = []

            def has_all() -> bool:
                found = [each for each in source.poll() if server.port in (each.local.port, each.remote.port)]
                sent.extend(each.sent_bytes for each in found if each.pod == CLIENT)
                return sum(sent) >= requests * talking_pods.REQUEST

            waiting.until_now(has_all, what=lambda: sent)
            assert not source._owners._by_inode, "cgroups alone"
            assert sum(sent) == requests * talking_pods.REQUEST
        finally:
            process.stdin.close()
            source.close()
            server.listener.close()
