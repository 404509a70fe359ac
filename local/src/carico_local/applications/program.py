"""What a Pod of an application runs: `carico-workload app NAME`, until SIGTERM."""

import asyncio
import dataclasses
import math
import signal
from collections.abc import Awaitable
from typing import Any

from carico_core.domain import errors
from carico_local.applications import catalog, directory, frames, network, roles, work
from carico_local.workloads import pacing

# Set by the manifests in every container.
DIRECTORY_VARIABLE = "CARICO_APP_DIRECTORY"
DELAY_VARIABLE = "CARICO_APP_DELAY_MS"
RATE_VARIABLE = "CARICO_APP_RATE_MBIT"
# How long a Pod that ends waits until the directory no longer has it; with the last requests, less than its grace.
LEFT_MOST_S = 10.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PodOptions:
    """How a Pod runs. `address`: its own. `directory`: HOST:PORT; empty: services are found by DNS."""

    service: str
    address: str
    scale: float
    directory: str = ""
    delay_ms: float = 0.0
    rate_mbit: float = 0.0

    def link(self) -> network.Link:
        """Return the network between nodes; a rate of 0 is no limit. Raises `SettingsError`."""
        for flag, value, most in (("--delay-ms", self.delay_ms, 1e3), ("--rate-mbit", self.rate_mbit, 1e6)):
            if not 0.0 <= value <= most:
                raise errors.SettingsError(f"app: {flag}: got {value:g}, expected 0 to {most:g}")
        bytes_per_s = self.rate_mbit * 1e6 / 8 if self.rate_mbit else math.inf
        return network.Link(delay_s=self.delay_ms / 1e3, bytes_per_s=bytes_per_s)


def run(options: PodOptions) -> dict[str, Any]:
    """Run the Pod until SIGTERM or SIGINT; return what it did. Raises `SettingsError`, also where it cannot listen."""
    service, link = catalog.service(options.service), options.link()
    at = directory.address(options.directory) if options.directory else None
    with asyncio.Runner(loop_factory=network.event_loop) as runner:
        return runner.run(_run(options, service, link, at))


async def _run(
    options: PodOptions, service: catalog.Service, link: network.Link, at: tuple[str, int] | None
) -> dict[str, Any]:  # fmt: skip
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    known = directory.Directory(None if at is None else {})
    following = asyncio.create_task(_forever() if at is None else known.follow(*at))
    # On a network of its own, a Pod listens at every address, and nothing is near or far.
    own = options.address if options.address.startswith("127.") else ""
    client = network.Client(own=own, link=link, directory=known)
    pod = AppServer(service, client, work.Cores(scale=options.scale, timer=pacing.ThreadTimer()))
    try:
        # A Pod that listens is ready: it has to know the others.
        await _either(known.known, stopping)
        await _listen(pod, own or "0.0.0.0")
        await stopping.wait()
        # On a busy machine, clients may learn seconds later that the Pod ends.
        await known.until_left(own, most_s=LEFT_MOST_S)
        await pod.finish()
    finally:
        following.cancel()
        client.close()
        await asyncio.gather(following, return_exceptions=True)
    return {"service": service.name, "answered": pod.answered, **dataclasses.asdict(client.counts)}


async def _either(*events: asyncio.Event) -> None:
    """Wait until one of the events is set."""
    waits = [asyncio.create_task(each.wait()) for each in events]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for each in waits:
        each.cancel()


async def _listen(pod: "AppServer", host: str) -> None:
    try:
        await pod.start(host)
    except OSError as error:
        raise errors.SettingsError(f"app: cannot listen at {host}:{network.PORT}: {error.strerror or error}") from None


async def _forever() -> None:
    await asyncio.Event().wait()


class AppServer:
    """The server of a service, and its reader if it is one."""

    def __init__(self, service: catalog.Service, client: network.Client, cores: work.Cores) -> None:
        self.answered = 0
        self._client = client
        self._server = network.Server(self._handle)
        is_reader = service.kind is catalog.Kind.READER
        self._reader = roles.TopicReader(service, client, cores) if is_reader else None
        self._role: roles.Broker | roles.Work = (
            roles.Broker() if service.kind is catalog.Kind.BROKER else roles.Work(service, client, cores)
        )
        self._reading: Awaitable[None] | None = None

    async def start(self, host: str) -> None:
        """Listen, and read if this is a reader. Raises OSError."""
        await self._server.start(host)
        if self._reader is not None:
            self._reading = asyncio.create_task(self._reader.run())

    async def finish(self, *, linger_s: float = network.LINGER_S) -> None:
        """End what is under way, and no more; see `network.Server.finish`."""
        if self._reader is not None and self._reading is not None:
            self._reader.stop()
            await self._reading
        await self._server.finish(linger_s=linger_s)

    async def _handle(self, request: frames.Message) -> frames.Message:
        if request.head.get("route") == roles.STATS:
            return frames.Message(head=dataclasses.asdict(self._client.counts))
        answer = await self._role.handle(request)
        self.answered += 1
        return answer
