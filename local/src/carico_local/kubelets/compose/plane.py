"""`python -m carico_local.kubelets.compose.plane`: the real control plane of `docker compose`, in one container."""

import asyncio
import ipaddress
import os
import pathlib
import signal
import sys

from carico_core.domain import errors
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import settings, tasks
from carico_local.binaries import tools
from carico_local.control_plane import commands, identity, standalone
from carico_local.kubelets import configuration, instructions, relay

# The control plane's own directory, from which each node reads its token.
PLANE = pathlib.Path("/plane")
# kubeconfigs for all other containers.
SHARED = pathlib.Path("/kube")
NAME, HOST, PORT = "compose", "api", 6443
# The directory of the network plugins in the image, which is Debian's.
PLUGINS = "/usr/lib/cni"
# Every address of a /24, so that any container can be any node.
_LAST = 254
_PREFIX = 24
# The service's port as this machine publishes it; only for the kubeconfig.
PORT_VARIABLE = "CARICO_KUBE_PUBLISHED_PORT"
_PARTS = (*standalone.DEFAULT, commands.SCHEDULER)


def main() -> int:
    """Run until the container is asked to stop; return the exit code, 2 where the control plane does not start."""
    environ = settings.environment()
    try:
        return asyncio.run(_run(_plane(), environ.get(PORT_VARIABLE, str(PORT))))
    except errors.UserError as error:
        return tasks.report(error, program="carico-compose-plane")


def _plane() -> standalone.Standalone:
    environ, clock = settings.environment(), clocks.SystemClock()
    found = tools.obtain(_PARTS, environ=environ, clock=clock, report=lambda line: print(line.text, flush=True))
    # A token for every possible node: the API server reads them when it starts.
    nodes = [configuration.Node(name=name, number=1, cpus=1, memory_bytes=0) for name in names()]
    return standalone.Standalone(
        PLANE, environ=environ, clock=clock, found=found, name=NAME, parts=_PARTS,
        users=instructions.users(nodes), hosts=(HOST,),
    )  # fmt: skip


async def _run(plane: standalone.Standalone, published: str) -> int:
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    outside, inside = SHARED / "host.yaml", SHARED / "inside.yaml"
    # This file exists only while the API answers.
    inside.unlink(missing_ok=True)
    await asyncio.to_thread(plane.start)
    try:
        server = await relay.serve("0.0.0.0", PORT, plane.network.ports[commands.API])
        _write(plane, outside, f"https://127.0.0.1:{published}")
        _write(plane, inside, f"https://{HOST}:{PORT}")
        async with server:
            await ended.wait()
    finally:
        await asyncio.to_thread(plane.stop)
    return 0


def _write(plane: standalone.Standalone, path: pathlib.Path, url: str) -> None:
    admin = identity.COMPONENTS[identity.ADMIN]
    plane.identities.write_kubeconfig(path, cluster=NAME, url=url, user=admin)
    # The users of the containers differ, and access to the engine already gives access to everything here.
    os.chmod(path, 0o644)


def network(address: str) -> ipaddress.IPv4Network:
    """Return the part of the containers' network that contains the nodes."""
    return ipaddress.IPv4Interface(f"{address}/{_PREFIX}").network


def node(address: str, *, name: str = "", cpus: float = 1.0, memory_bytes: int = 0) -> configuration.Node:
    """Return the node at an address. Its Pod range follows from the address, so every other node knows it too."""
    number = int(ipaddress.IPv4Address(address)) - int(network(address).network_address)
    return configuration.Node(
        name=name or f"at-{number}", number=number, cpus=cpus, memory_bytes=memory_bytes, first=1,
        provider_id=f"{configuration.COMPOSE_PROVIDER}{name}",
    )  # fmt: skip


def others(own: configuration.Node, address: str) -> tuple[configuration.Node, ...]:
    """Return every other possible node; routes to absent ones do no harm."""
    base = network(address)
    return tuple(node(str(base[number])) for number in range(1, _LAST + 1) if number != own.number)


def names() -> tuple[str, ...]:
    """Return the names that nodes may have: the engine numbers the containers of the service `node`."""
    return tuple(f"node-{number}" for number in range(1, _LAST + 1))


if __name__ == "__main__":
    sys.exit(main())
