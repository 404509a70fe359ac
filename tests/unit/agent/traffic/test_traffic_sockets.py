"""Bytes of real TCP sockets on loopback, against what the two processes counted themselves."""

import asyncio
import contextlib
import pathlib
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from carico_agent.telemetry.cgroups import hierarchy
from carico_agent.traffic import diagnostics, owners, sockets
from carico_core.domain import pod_telemetry
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from tests.tools import waiting

SERVER, CLIENT = "1c9c1f31-3a0e-4b7c-9f0e-2f6a0d5f4c11", "2c9c1f31-3a0e-4b7c-9f0e-2f6a0d5f4c22"
# A loopback address that only the client has.
OWN = "127.83.7.1"
REQUEST, ANSWER = 1500, 700
# Each line: how many connections to make at a time that stay (+), that are closed (c), or requests on those that stay.
PROGRAM = f"""
import socket, sys
port, kept, count = int(sys.argv[1]), [], 0

def ask(peer):
    peer.sendall(b"q" * {REQUEST})
    left = {ANSWER}
    while left:
        left -= len(peer.recv(left))

def dial():
    return socket.create_connection(("127.0.0.1", port), source_address=("{OWN}", 0))

for line in sys.stdin:
    kind, number = line[0], int(line[1:])
    if kind == "+":
        kept += [dial() for _ in range(number)]
    for _ in range(number if kind == "c" else 0):
        with dial() as peer:
            ask(peer)
            count += 1
    for peer in kept * (number if kind == "q" else 0):
        ask(peer)
        count += 1
    print(count, flush=True)
"""


class Server:
    """Answers requests, each connection in a thread, and counts them."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=self.listener.accept()[:1], daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        with peer, contextlib.suppress(OSError):
            left = REQUEST
            while data := peer.recv(left):
                left -= len(data)
                if not left:
                    left = REQUEST
                    peer.sendall(b"a" * ANSWER)


class Site:
    """A node with two Pods: this process is the server, another one the client."""

    def __init__(self, folder: pathlib.Path, client: subprocess.Popen[str], server: Server) -> None:
        self.client, self.server = client, server
        self.skipped: dict[str, int] = {}
        for uid, pid in ((SERVER, "self"), (CLIENT, str(client.pid))):
            (folder / f"pod{uid}").mkdir()
            number = pathlib.Path("/proc", pid).resolve().name
            (folder / f"pod{uid}" / "cgroup.procs").write_text(f"{number}\n")
        group = hierarchy.Group(layout=hierarchy.Layout.V1, v1={"cpuacct": folder}, unified=None)
        self.source = sockets.Sockets(
            owners.Owners(group, proc=pathlib.Path("/proc")), proc=pathlib.Path("/proc"), skipped=self._skip,
            log=logs.RateLimited(logs.get("test"), clock=clocks.FakeClock()),
        )  # fmt: skip
        # (Pod, whether it is the server's end) -> bytes sent and received.
        self.totals: dict[tuple[str | None, bool], list[int]] = {}

    def _skip(self, reason: str, count: int) -> None:
        self.skipped[reason] = self.skipped.get(reason, 0) + count

    def ask(self, line: str) -> int:
        """Have the client do something; returns how many requests it has made in all."""
        assert self.client.stdin is not None and self.client.stdout is not None
        self.client.stdin.write(line + "\n")
        self.client.stdin.flush()
        return int(self.client.stdout.readline())

    def poll(self) -> None:
        """Add up the flows between the two; the machine has others."""
        for flow in self.source.poll():
            if self.server.port in (flow.local.port, flow.remote.port):
                total = self.totals.setdefault((flow.pod, flow.local.port == self.server.port), [0, 0])
                total[0] += flow.sent_bytes
                total[1] += flow.received_bytes

    def has_all(self, requests: int) -> bool:
        """Poll, and return whether both ends have the bytes of all requests."""
        self.poll()
        sent, answered = requests * REQUEST, requests * ANSWER
        return self.totals == {(SERVER, True): [answered, sent], (CLIENT, False): [sent, answered]}


@pytest.fixture
def site(tmp_path: pathlib.Path) -> Iterator[Site]:
    try:
        diagnostics.Diagnostics().close()
    except OSError as error:
        pytest.skip(f"this kernel does not list sockets: {error}")
    server = Server()
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(server.port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as client:
        assert client.stdin is not None
        made = Site(tmp_path, client, server)
        yield made
        made.source.close()
        client.stdin.close()
    server.listener.close()


def until(condition: Callable[[], bool], site: Site) -> None:
    waiting.until_now(condition, what=lambda: f"got {site.totals}, skipped {site.skipped}")


def test_connections_that_stay_are_counted_to_the_byte(site: Site) -> None:
    site.poll()
    site.ask("+20")
    for _ in range(3):
        site.poll()
        requests = site.ask("q5")
    assert requests == 300
    until(lambda: site.has_all(300), site)
    assert site.skipped == {}


def test_connections_shorter_than_a_poll_are_counted_to_the_byte(site: Site) -> None:
    site.poll()
    site.ask("+1")
    site.poll()
    requests = site.ask("c60")
    until(lambda: site.has_all(requests), site)
    site.poll()
    site.ask("c60")
    requests = site.ask("q1")
    until(lambda: site.has_all(requests), site)
    assert site.skipped == {}


def test_events_that_the_kernel_has_no_room_for_are_counted(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnostics, "_EVENTS_BYTES", 1)
    site.poll()
    site.ask("c60")

    def is_lost() -> bool:
        site.poll()
        return site.skipped.get("events_lost", 0) > 0

    until(is_lost, site)
    requests = site.ask("c1")
    assert requests == 61, "the rest goes on"
    assert isinstance(site.source.poll(), list)


def test_a_namespace_that_cannot_be_read_is_counted_and_the_rest_is_read(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    namespaces = {str(site.client.pid): 4711}
    read = owners.namespace_of
    monkeypatch.setattr(owners, "namespace_of", lambda process: namespaces.get(process.name, read(process)))

    def refused(_: pathlib.Path) -> diagnostics.Diagnostics:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(diagnostics, "open_in", refused)
    site.poll()
    site.poll()
    assert site.skipped == {"unreadable": 1}
    assert isinstance(site.source.poll(), list)


def flows_of(found: list[pod_telemetry.PodFlow], port: int) -> list[pod_telemetry.PodFlow]:
    return [each for each in found if port in (each.local.port, each.remote.port)]


async def test_the_adapter_passes_on_each_poll_and_closes_its_sockets(site: Site) -> None:
    got: list[pod_telemetry.PodFlow] = []
    source = sockets.Sockets(
        site.source._owners, proc=pathlib.Path("/proc"), skipped=site._skip, poll_s=0.02,
        log=logs.RateLimited(logs.get("test"), clock=clocks.FakeClock()),
    )  # fmt: skip
    task = asyncio.create_task(source.run(got.extend))
    await waiting.until(lambda: source._namespaces)
    await asyncio.to_thread(site.ask, "+1")
    await asyncio.to_thread(site.ask, "q10")
    await waiting.until(
        lambda: sum(each.received_bytes for each in flows_of(got, site.server.port)) == 10 * (REQUEST + ANSWER)
    )
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not source._namespaces
