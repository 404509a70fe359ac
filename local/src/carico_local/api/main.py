"""The process: settings, one cluster, one port, until it is asked to stop."""

import dataclasses
import json
import os
import pathlib
import socket
from collections.abc import Sequence

from aiohttp import web

from carico_core.domain import cluster as domain
from carico_core.domain import errors
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import settings, tasks
from carico_local.api import access, cluster
from carico_local.api.http import server
from carico_local.api.lifecycle import events, nodes
from carico_local.api.storage import store

_PROGRAM = "carico-api"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of the embedded API: flags, or CARICO_API_... in the environment."""

    data: pathlib.Path = settings.setting(help="directory for the objects")
    host: str = settings.setting("127.0.0.1", help="address to listen on", why="only this machine may reach it")
    port: int = settings.setting(0, help="port to listen on, 0 for a free one", minimum=0, maximum=65535)
    port_file: pathlib.Path | None = settings.setting(None, help="file that gets the port once requests are answered")
    token_file: pathlib.Path | None = settings.setting(
        None, help="file with the bearer token that every request needs, created if missing; empty: `token` in the data"
    )
    kubeconfig: pathlib.Path | None = settings.setting(None, help="file that gets a kubeconfig with the token")
    public_url: str = settings.setting("", help="address in that kubeconfig; empty: where the API listens")
    host_names: tuple[str, ...] = settings.setting(
        (),
        help="names by which clients address this API, in addition to 127.0.0.1, localhost and [::1]",
        why="a web page can make its own name resolve to this address",
    )
    scheduler_names: tuple[str, ...] = settings.setting(
        (domain.SCHEDULER_NAME,), help="schedulerNames with a scheduler; Pods with another one get a warning"
    )
    node_grace_s: float = settings.setting(
        40.0,
        help="age of a Node's Lease at which the Node counts as unreachable",
        unit="s",
        why="kube-controller-manager's --node-monitor-grace-period until 1.31",
        minimum=1.0,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the API and return the exit code."""
    try:
        chosen = settings.load(Settings, prefix="API", argv=argv, program=_PROGRAM)
    except errors.UserError as error:
        return tasks.report(error, program=_PROGRAM)
    logs.setup(service="api")
    return tasks.run(lambda stop: serve(chosen, clocks.SystemClock(), stop), program=_PROGRAM)


async def serve(chosen: Settings, clock: clocks.Clock, stop: tasks.Stop) -> None:
    """Serve until the process is asked to stop and every request has ended."""
    kept = store.Store(chosen.data)
    try:
        state = cluster.assemble(kept, clock, scheduler_names=chosen.scheduler_names)
        token = access.obtain_token(chosen.token_file or chosen.data / "token")
        # handler_cancellation: a watch whose client has disconnected must not stay open until its next event.
        runner = web.AppRunner(
            server.build(state, token=token, hosts=chosen.host_names),
            access_log=None, handler_cancellation=True, shutdown_timeout=2.0,
        )  # fmt: skip
        await runner.setup()
        listener = _listen(chosen)
        try:
            await web.SockSite(runner, listener, backlog=1024).start()
            _announce(chosen, listener, token)
            await tasks.until(
                stop,
                checkpoint=cluster.checkpoint_forever(kept),
                nodes=nodes.NodeLifecycle(kept, clock, grace_s=chosen.node_grace_s).run(),
                events=events.EventExpiry(kept, clock).run(),
            )
        finally:
            await runner.cleanup()
    finally:
        kept.close()


def _listen(chosen: Settings) -> socket.socket:
    try:
        return socket.create_server((chosen.host, chosen.port), backlog=1024)
    except OSError as error:
        raise errors.EnvironmentUnfit(
            f"cannot listen on {chosen.host}:{chosen.port} ({error.strerror}): "
            "stop the program that uses the port, or use --port 0 for a free one"
        ) from error


def _announce(chosen: Settings, listener: socket.socket, token: str) -> None:
    port = listener.getsockname()[1]
    print(json.dumps({"event": "ready", "url": f"http://{chosen.host}:{port}", "port": port}), flush=True)
    if chosen.kubeconfig is not None:
        access.write_kubeconfig(
            chosen.kubeconfig, name="carico", url=chosen.public_url or f"http://{chosen.host}:{port}", token=token
        )
    if chosen.port_file is not None:
        # Renamed into place, so that a waiting reader never sees half a number.
        partial = chosen.port_file.with_suffix(f".{os.getpid()}")
        partial.write_text(f"{port}\n")
        partial.replace(chosen.port_file)
