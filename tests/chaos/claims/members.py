"""Schedulers that share the work as processes, each with its own ways to the API and to one or three NATS servers."""

import asyncio
import contextlib
import pathlib
import signal
import subprocess
from collections.abc import AsyncIterator, Sequence

from carico_local.cluster import free_ports
from tests.chaos.claims import model
from tests.tools import service_process, tcp_proxy
from tests.tools.sites import nats_site

# As in the tests of a few schedulers: what they wait for is a Lease of 6 s.
FLAGS = (
    "--sharing", "shared", "--bind-timeout-s", "2", "--leader-lease-s", "6", "--leader-renew-s", "4",
    "--leader-retry-s", "0.5", "--events-per-s", "0.1", "--http-port", "-1",
)  # fmt: skip


class Member:
    """One scheduler. It can be killed, stopped, started again and cut off."""

    def __init__(
        self, folder: pathlib.Path, name: str, *, wires: Sequence[tcp_proxy.Proxy], api: tcp_proxy.Proxy,
        made: model.Model,
    ) -> None:  # fmt: skip
        self.name = name
        self.log = folder / f"{name}.log"
        self.wires = wires
        self.api = api
        self._kubeconfig = folder / f"{name}.kubeconfig"
        made.write_kubeconfig(self._kubeconfig, port=api.port)
        self._process: subprocess.Popen[bytes] | None = None
        self._starts = 0

    def start(self) -> None:
        """Start a new process; a name of its own in the Lease, as by default."""
        self._starts += 1
        urls = ",".join(f"nats://127.0.0.1:{wire.port}" for wire in self.wires)
        flags = ["--bus-url", urls, "--kubeconfig", str(self._kubeconfig), "--bus-copies", str(len(self.wires))]
        flags += ["--leader-identity", f"{self.name}.{self._starts}", *FLAGS]
        self._process = service_process.start(self.log, "carico_scheduler", *flags)

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if the process runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    async def end(self, number: signal.Signals) -> None:
        """Send a signal that ends the process, and wait until it has ended."""
        self.send(number)
        if self._process is not None:
            await asyncio.to_thread(self._process.wait)

    @property
    def orphans(self) -> int:
        """The claims that its processes have ended as the janitor."""
        return self.log.read_bytes().count(b"a claim ended without a bind") if self.log.exists() else 0


def servers(folder: pathlib.Path, count: int) -> list[nats_site.NatsServer]:
    """Return one NATS server, or a cluster of them; not started."""
    if count == 1:
        return [nats_site.NatsServer(folder / "nats")]
    peers = [free_ports.choose_one() for _ in range(count)]
    routes = [f"nats://127.0.0.1:{port}" for port in peers]
    return [
        nats_site.NatsServer(
            folder / f"nats-{number}",
            extra={
                "server_name": f"n{number}",
                "cluster": {"name": "claims", "listen": f"127.0.0.1:{port}", "routes": routes, "no_advertise": True},
            },
        )
        for number, port in enumerate(peers)
    ]


@contextlib.asynccontextmanager
async def running(
    folder: pathlib.Path, count: int, served: model.Model, nats: list[nats_site.NatsServer]
) -> AsyncIterator[list[Member]]:
    """Run so many schedulers for as long as the block."""
    async with contextlib.AsyncExitStack() as stack:
        made = []
        for index in range(count):
            api, *wires = [
                await stack.enter_async_context(tcp_proxy.Proxy(port).running())
                for port in (served.port, *(server.port for server in nats))
            ]
            member = Member(folder, f"member-{index}", wires=wires, api=api, made=served)
            stack.push_async_callback(member.end, signal.SIGKILL)
            member.start()
            made.append(member)
        yield made
