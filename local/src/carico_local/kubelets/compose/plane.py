"""`python -m carico_local.kubelets.compose.plane`: the real control plane of `docker compose`, in one container."""

import asyncio
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
from carico_local.kubelets.compose import addresses

# The service's port as this machine publishes it; for the kubeconfig alone.
PORT_VARIABLE = "CARICO_KUBE_PUBLISHED_PORT"
_PARTS = (*standalone.DEFAULT, commands.SCHEDULER)


def main() -> int:
    """Return the exit code, once the container is asked to end; 2 where the control plane does not come up."""
    environ = settings.environment()
    try:
        return asyncio.run(_run(_plane(), environ.get(PORT_VARIABLE, str(addresses.PORT))))
    except errors.UserError as error:
        return tasks.report(error, program="carico-compose-plane")


def _plane() -> standalone.Standalone:
    environ, clock = settings.environment(), clocks.SystemClock()
    found = tools.obtain(_PARTS, environ=environ, clock=clock, tell=lambda told: print(told.text, flush=True))
    # A token for each node that may come: the API server reads them at its start.
    nodes = [configuration.Node(name=name, number=1, cpus=1, memory_bytes=0) for name in addresses.names()]
    return standalone.Standalone(
        addresses.PLANE, environ=environ, clock=clock, found=found, name=addresses.NAME, parts=_PARTS,
        users=instructions.users(nodes), hosts=(addresses.HOST,),
    )  # fmt: skip


async def _run(plane: standalone.Standalone, published: str) -> int:
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    outside, inside = addresses.SHARED / "host.yaml", addresses.SHARED / "inside.yaml"
    # By it one knows that the API answers.
    inside.unlink(missing_ok=True)
    await asyncio.to_thread(plane.start)
    try:
        server = await relay.serve("0.0.0.0", addresses.PORT, plane.network.ports[commands.API])
        _write(plane, outside, f"https://127.0.0.1:{published}")
        _write(plane, inside, f"https://{addresses.HOST}:{addresses.PORT}")
        async with server:
            await ended.wait()
    finally:
        await asyncio.to_thread(plane.stop)
    return 0


def _write(plane: standalone.Standalone, path: pathlib.Path, url: str) -> None:
    admin = identity.COMPONENTS[identity.ADMIN]
    plane.identities.write_kubeconfig(path, cluster=addresses.NAME, url=url, user=admin)
    # Access to the engine is access to everything here; the containers' users differ.
    os.chmod(path, 0o644)


if __name__ == "__main__":
    sys.exit(main())
