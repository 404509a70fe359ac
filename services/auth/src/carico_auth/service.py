"""Run the auth callout as a service: connect, answer, stop in order."""

import contextlib
import pathlib
from collections.abc import Awaitable, Mapping

from carico_auth import app, connections, ended_pods, floods, instruments, reviews
from carico_auth import settings as setting
from carico_core.domain import errors
from carico_core.runtime.bus import nats_bus
from carico_core.runtime.bus.security import nkeys
from carico_core.runtime.kube import api_client
from carico_core.runtime.observe import client_metrics, health, logs, metrics
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import tasks
from carico_core.wire import roles


async def serve(
    chosen: setting.AuthSettings, stop: tasks.Stop, *, clock: clocks.Clock, environ: Mapping[str, str]
) -> None:
    """Answer requests, if there is an issuer, and disconnect who must not go on, until `stop`.

    Raises `BusUnavailable` once the bus is closed for good.
    """
    keys = None if chosen.issuer == setting.NO_ISSUER else read_keys(chosen)
    series = metrics.Metrics("auth")
    bus_series = client_metrics.BusMetrics(series)
    counted = instruments.Instruments(series, clock=clock)
    flooding = floods.Floods(clock=clock)
    rules: dict[connections.Fault, connections.Rule] = {connections.Fault.FLOOD: flooding.flooding}
    works: dict[str, Awaitable[object]] = {}
    callout = None
    async with contextlib.AsyncExitStack() as stack:
        checks = health.Health({"bus": bus_series.why_not, "api": counted.trouble})
        server = await health.serve(checks, series, host=chosen.http.host, port=chosen.http.port)
        stack.push_async_callback(server.close)
        issuer = setting.NO_ISSUER if keys is None else keys.issuer.public
        logs.get("service").info("started", http_port=server.port, issuer=issuer, audience=chosen.audience)
        if keys is not None:
            api = await api_client.connect(
                chosen.kube, clock=clock, user_agent=setting.PROGRAM, environ=environ,
                observe=client_metrics.KubeMetrics(series).asked,
            )  # fmt: skip
            stack.push_async_callback(api.close)
            callout = _make_callout(chosen, keys, api, counted, flooding, clock=clock)
            namespaces = {account.namespace for account in chosen.accounts()}
            ended = ended_pods.EndedPods(api, namespaces=namespaces, clock=clock)
            rules[connections.Fault.POD_GONE] = ended.ended
            works["pods"] = ended.follow_forever()
        looking = connections.Connections(counted, rules=rules, clock=clock)
        works["connections"] = looking.run_forever()
        works["bus"] = _run(chosen, callout, counted, looking, bus_series, clock=clock)
        await tasks.until(stop, **works)


def _make_callout(
    chosen: setting.AuthSettings, keys: app.Keys, api: reviews.Api, counted: instruments.Instruments,
    flooding: floods.Floods, *, clock: clocks.Clock,
) -> app.Callout:  # fmt: skip
    reviewer = reviews.Reviewer(api, audience=chosen.audience, remember_s=chosen.remember_s, clock=clock)
    return app.Callout(
        reviewer, keys, counted, accounts=chosen.accounts(), clock=clock, refuse=flooding.refuse
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
    chosen: setting.AuthSettings, callout: app.Callout | None, counted: instruments.Instruments,
    looking: connections.Connections, bus_series: client_metrics.BusMetrics, *, clock: clocks.Clock,
) -> None:  # fmt: skip
    # Connecting waits for the server without limit; the health endpoint answers meanwhile.
    bus = await nats_bus.connect(
        chosen.bus,
        name=setting.PROGRAM,
        clock=clock,
        owns_streams=False,
        inbox=roles.inbox(roles.Role.AUTH),
        on_trouble=bus_series.trouble,
    )
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(bus.close)
        if callout is not None:
            responder = await bus.respond(
                roles.AUTHORIZATION_SUBJECT, callout.answer, group=app.GROUP, on_dropped=counted.dropped.inc
            )
            stack.push_async_callback(responder.close)
        looking.bus = bus
        bus_series.watch(bus)
        await bus.wait_closed()
