"""What it costs to measure the traffic between Pods from the kernel's sockets: 200 connections, polled at 1 Hz.

The connections stay and carry traffic. One Pod serves them and another one has the other ends, so that both ends of
each are in the dump, as on an emulated node; a node whose Pods talk to other nodes has half of these sockets. The
kernel lists the sockets of all processes of a shared network namespace, which a row counts: run it where there are few
(`unshare --net`, then `ip link set lo up`). Times are of the processor, since other work shares its cores.
"""

import contextlib
import os
import pathlib
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator

from bench.services import agent
from carico_agent.telemetry.cgroups import hierarchy
from carico_agent.traffic import diagnostics, owners, sockets
from carico_core.domain import pod_telemetry
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks

Row = tuple[str, float, str, str]
CONNECTIONS = 200
# Closed and opened again between two polls, in the row with short connections.
SHORT = 20
_UIDS = ("1c9c1f31-3a0e-4b7c-9f0e-2f6a0d5f4c11", "2c9c1f31-3a0e-4b7c-9f0e-2f6a0d5f4c22")


def run(quick: bool) -> list[Row]:
    """Rows of one poll, of the whole agent, and of its memory."""
    polls = 30 if quick else 150
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder, _connected() as (listener, peers):
        source = _source(pathlib.Path(folder))
        try:
            source.poll()
            rows.append(("TCP sockets of other processes", float(_others()), "", ""))
            for name, short in (("", 0), (f", and {SHORT} a second that are shorter", SHORT)):
                spent_s = _median_s(source, listener, peers, polls=polls, short=short)
                share = "share of a core at 1 Hz"
                rows.append((f"{CONNECTIONS} connections{name}: {share}", 100.0 * spent_s, "%", "at most 0.3"))
        finally:
            source.close()
    with tempfile.TemporaryDirectory() as folder, agent.server(pathlib.Path(folder)) as url, _connected():
        compiled = pathlib.Path(folder) / "bytecode"
        agent.compile_agent(compiled)
        for name, traffic in (("without", "none"), ("with", "sockets")):
            flags = ["--bus-url", url, "--scope", "host", "--pod-events", "none", "--traffic", traffic]
            used, resident_mb = agent.process_cost(flags, compiled=compiled, quick=quick)
            rows.append((f"an agent {name} sockets, no Pods: share of a core", used, "%", ""))
            rows.append((f"an agent {name} sockets: RSS", resident_mb, "MB", "at most 55" if name == "with" else ""))
    return rows


@contextlib.contextmanager
def _connected() -> Iterator[tuple[socket.socket, list[tuple[socket.socket, socket.socket]]]]:
    with contextlib.ExitStack() as opened:
        listener = opened.enter_context(socket.create_server(("127.0.0.1", 0), backlog=CONNECTIONS))
        peers = []
        for _ in range(CONNECTIONS):
            one = opened.enter_context(socket.create_connection(listener.getsockname()))
            peers.append((one, opened.enter_context(listener.accept()[0])))
        yield listener, peers


def _source(folder: pathlib.Path) -> sockets.Sockets:
    """The source of a node with two Pods: this process, and its parent."""
    for uid, pid in zip(_UIDS, (os.getpid(), os.getppid()), strict=True):
        (folder / f"pod{uid}").mkdir()
        (folder / f"pod{uid}" / "cgroup.procs").write_text(f"{pid}\n")
    proc = pathlib.Path("/proc")
    group = hierarchy.Group(layout=hierarchy.Layout.V1, v1={"cpuacct": folder}, unified=None)
    log = logs.RateLimited(logs.get("bench"), clock=clocks.SystemClock())
    return sockets.Sockets(owners.Owners(group, proc=proc), proc=proc, skipped=_skipped, log=log)


def _skipped(reason: str, count: int) -> None:
    print(f"skipped: {count} {reason}", file=sys.stderr)


def _median_s(
    source: sockets.Sockets, listener: socket.socket, peers: list[tuple[socket.socket, socket.socket]], *,
    polls: int, short: int,
) -> float:  # fmt: skip
    """Processor time of one poll."""
    spent = []
    port = listener.getsockname()[1]
    for _ in range(polls):
        for one, other in peers:
            one.sendall(b"q" * 100)
            other.recv(100)
        for _ in range(short):
            with socket.create_connection(listener.getsockname()) as one, listener.accept()[0] as other:
                one.sendall(b"q" * 100)
                other.recv(100)
        begun_s = time.process_time()
        flows = source.poll()
        spent.append(time.process_time() - begun_s)
        assert len(_of(flows, port)) >= 2 * CONNECTIONS, f"got {len(flows)} flows"
    return statistics.median(spent)


def _others() -> int:
    opened = diagnostics.Diagnostics()
    try:
        return len(opened.dump()) - 2 * CONNECTIONS
    finally:
        opened.close()


def _of(flows: list[pod_telemetry.PodFlow], port: int) -> list[pod_telemetry.PodFlow]:
    return [flow for flow in flows if port in (flow.local.port, flow.remote.port)]
