"""Run the auth callout as a service: connect, answer, stop in order."""

import contextlib
import pathlib
from collections.abc import Callable, Mapping

from carico_auth import app, connections, ended_pods, floods, instruments, reviews
from carico_auth import settings as setting
from carico_core.domain import errors
from carico_core.runtime.bus import connection_options, nats_bus
from carico_core.runtime.bus.security import nkeys
from carico_core.runtime.kube import api_client
from carico_core.runtime.observe import client_metrics, health, logs, metrics
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import tasks
from carico_core.wire import roles


async def serve(
    chosen: setting.AuthSettings, stop: tasks.Stop, *, clock: clocks.Clock, environ: Mapping[str, str]
) -> None:
    """Answer requests until `stop`. Raises `BusUnavailable` once the bus is closed for good."""
    keys = read_keys(chosen)
    series = metrics.Metrics("auth")
    bus_series = client_metrics.BusMetrics(series)
    counted = instruments.Instruments(series, clock=clock)
    listening: list[nats_bus.NatsBus] = []

    def watch(bus: nats_bus.NatsBus) -> None:
        listening.append(bus)
        bus_series.watch(bus)

    api = await api_client.connect(
        chosen.kube, clock=clock, user_agent=setting.PROGRAM, environ=environ,
        observe=client_metrics.KubeMetrics(series).asked,
    )  # fmt: skip
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(api.close)
        checks = health.Health({"bus": bus_series.why_not, "api": counted.trouble})
        server = await health.serve(checks, series, host=chosen.http.host, port=chosen.http.port)
        stack.push_async_callback(server.close)
        logs.get("service").info("started", http_port=server.port, issuer=keys.issuer.public, audience=chosen.audience)
        reviewer = reviews.Reviewer(api, audience=chosen.audience, remember_s=chosen.remember_s, clock=clock)
        accounts = chosen.accounts()
        ended = ended_pods.EndedPods(api, namespaces={account.namespace for account in accounts}, clock=clock)
        flooding = floods.Floods(clock=clock)
        looking = connections.Connections(
            lambda: listening[0] if listening else None, counted, clock=clock,
            rules={connections.Fault.POD_GONE: ended.ended, connections.Fault.FLOOD: flooding.flooding},
        )  # fmt: skip
        callout = app.Callout(reviewer, keys, counted, accounts=accounts, clock=clock, refuse=flooding.refuse)
        answering = _run(chosen, callout, counted, watch, bus_series.trouble, clock=clock)
        await tasks.until(
            stop, callout=answering, pods=ended.follow_forever(), connections=looking.run_forever()
        )  # fmt: skip


def read_keys(chosen: setting.AuthSettings) -> app.Keys:
    """Read the keys that the settings name. Raises `SettingsError`, which reveals nothing of them."""
    try:
        issuer = nkeys.read(pathlib.Path(chosen.issuer))
        if issuer.kind is not nkeys.Kind.ACCOUNT:
            raise ValueError(f"a seed of kind {issuer.kind.name.lower()}")
    except (OSError, ValueError) as error:
        raise errors.SettingsError(
            f"--issuer: got {chosen.issuer}, expected an account seed (SA...) in it: {error}"
        ) from error
    if not chosen.xkey:
        return app.Keys(issuer=issuer, sealer=None)
    try:
        sealer = nkeys.Sealer(pathlib.Path(chosen.xkey).read_text(encoding="ascii").strip())
    except (OSError, ValueError) as error:
        raise errors.SettingsError(
            f"--xkey: got {chosen.xkey}, expected a curve seed (SX...) in it: {error}"
        ) from error
    return app.Keys(issuer=issuer, sealer=sealer)


async def _run(
    chosen: setting.AuthSettings, callout: app.Callout, counted: instruments.Instruments,
    watch: Callable[[nats_bus.NatsBus], None], on_trouble: connection_options.OnTrouble, *, clock: clocks.Clock,
) -> None:  # fmt: skip
    # Connecting waits for the server without limit; the health endpoint answers meanwhile.
    bus = await nats_bus.connect(
        chosen.bus,
        name=setting.PROGRAM,
        clock=clock,
        owns_streams=False,
        inbox=roles.inbox(roles.Role.AUTH),
        on_trouble=on_trouble,
    )
    try:
        responder = await bus.respond(
            roles.AUTHORIZATION_SUBJECT, callout.answer, group=app.GROUP, on_dropped=counted.dropped.inc
        )
        watch(bus)
        try:
            await bus.wait_closed()
            raise errors.BusUnavailable("the connection to NATS is closed for good")
        finally:
            await responder.close()
    finally:
        await bus.close()
