"""The process: settings, one cluster, one port, until it is asked to stop."""

import dataclasses
import json
import pathlib
import resource
import socket
from collections.abc import Mapping, Sequence
from typing import ClassVar

from carico_core.domain import errors, names
from carico_core.runtime.kube import http_client
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import connections, settings, tasks
from carico_local import atomic_files
from carico_local.api import access, cluster
from carico_local.api.http import server
from carico_local.api.lifecycle import events, nodes
from carico_local.api.storage import store

_PROGRAM = "carico-api"
# Everyone on this machine can connect. A scheduler has up to 128 connections, all other clients a few.
CONNECTIONS_MOST = 4096
# kube-apiserver's IdleTimeout; aiohttp would keep a connection without a request for an hour.
IDLE_S = 90.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of the embedded API: flags, or CARICO_API_... in the environment."""

    # Settings of earlier versions.
    removed: ClassVar[Mapping[str, str]] = {"token": "--token-file (CARICO_API_TOKEN_FILE) names a file with the token"}

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
        (names.SCHEDULER_NAME,), help="schedulerNames with a scheduler; Pods with another one get a warning"
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
        app, listener = server.build(state, token=token, hosts=chosen.host_names), _listen(chosen)
        # handler_cancellation: a watch whose client has disconnected must not stay open until its next event.
        async with connections.serving(app, listener, _limits(), context=None, handler_cancellation=True):
            _announce(chosen, listener, token)
            await tasks.until(
                stop,
                checkpoint=cluster.checkpoint_forever(kept),
                nodes=nodes.NodeLifecycle(kept, clock, grace_s=chosen.node_grace_s).run(),
                events=events.EventExpiry(kept, clock).run(),
            )
    finally:
        kept.close()


def _limits() -> connections.Limits:
    # The other half is for files of the store, and connections to nodes.
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = CONNECTIONS_MOST if files == resource.RLIM_INFINITY else min(CONNECTIONS_MOST, files // 2)
    return connections.Limits(most=most, handshake_s=IDLE_S, idle_s=IDLE_S, stop_s=2.0, knows_clients=True)


def _listen(chosen: Settings) -> socket.socket:
    listener = connections.listen(
        chosen.host, chosen.port, _limits(), purpose="the API",
        advice="stop the program that uses the port, or use --port 0 for a free one",
    )  # fmt: skip
    # Accepted sockets inherit it: a client whose machine has gone is noticed.
    http_client.keep_alive(listener)
    return listener


def _announce(chosen: Settings, listener: socket.socket, token: str) -> None:
    port = listener.getsockname()[1]
    print(json.dumps({"event": "ready", "url": f"http://{chosen.host}:{port}", "port": port}), flush=True)
    if chosen.kubeconfig is not None:
        access.write_kubeconfig(
            chosen.kubeconfig, name="carico", url=chosen.public_url or f"http://{chosen.host}:{port}", token=token
        )
    if chosen.port_file is not None:
        atomic_files.write(chosen.port_file, f"{port}\n".encode(), mode=0o666)
