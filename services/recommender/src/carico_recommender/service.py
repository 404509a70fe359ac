"""Run the recommender as a service: connect, follow, write, stop in order."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Mapping

from carico_core.runtime.bus import nats_bus
from carico_core.runtime.kube import api_client
from carico_core.runtime.leadership import elector, status
from carico_core.runtime.observe import client_metrics, health, logs, metrics
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import tasks
from carico_core.wire import roles
from carico_recommender import classes, instruments, namespaces
from carico_recommender import settings as setting
from carico_recommender.admission import certificates, registration, webhook
from carico_recommender.vpa import keeper


async def serve(
    chosen: setting.RecommenderSettings, stop: tasks.Stop, *, clock: clocks.Clock, environ: Mapping[str, str]
) -> None:
    """Run a replica until `stop`; NATS and the API may start later. Raises `BusUnavailable` if the bus is closed."""
    async with contextlib.AsyncExitStack() as stack:
        series = metrics.Metrics("recommender")
        asked = client_metrics.KubeMetrics(series).asked
        connecting = api_client.connect_to_lead(
            chosen.kube, clock=clock, program=setting.PROGRAM, environ=environ, observe=asked
        )
        api, lease_api = await stack.enter_async_context(connecting)
        replica = Replica(chosen, api, lease_api, series, clock=clock)
        server = await health.serve(replica.health, series, host=chosen.http.host, port=chosen.http.port)
        stack.push_async_callback(server.close)
        # First what may refuse to start.
        works: dict[str, Awaitable[object]] = {}
        if chosen.admission.port != setting.OFF:
            works["admission"] = await stack.enter_async_context(replica.reviews(api))
        works |= replica.works()
        logs.get("service").info("started", http_port=server.port, name=chosen.name)
        try:
            await tasks.until(stop, **works)
        finally:
            await replica.leadership.release()


class Replica:
    """One replica: all of them ask and follow, the leader writes."""

    def __init__(
        self, chosen: setting.RecommenderSettings, api: keeper.Api, lease_api: keeper.Api, series: metrics.Metrics, *,
        clock: clocks.Clock,
    ) -> None:  # fmt: skip
        self._chosen = chosen
        self._clock = clock
        self._bus_series = client_metrics.BusMetrics(series)
        self._registration: registration.Registration | None = None
        self._certificate: certificates.Certificate | None = None
        self._counted = counted = instruments.Instruments(series)
        rule = {"percentile": chosen.percentile, "margin": chosen.margin}
        self.classes = classes.Classes(rule, counted, clock=clock)
        self.leadership = status.Leadership(
            chosen.leader, program=setting.PROGRAM, boot=clocks.boot_id(clock), api=lease_api, clock=clock,
            duties=elector.Duties(
                is_fit=lambda: True, prepare=_nothing, on_change=counted.leading.set,
                # A replica that is cut off from the aggregators offers the Lease to one that is not.
                is_reached=lambda: self.classes.is_current,
            ),
        )  # fmt: skip
        self.namespaces = namespaces.Namespaces(api, clock=clock)
        self.keeper = keeper.Keeper(
            chosen, api, self.classes, rules=self.namespaces.rules, counted=counted, leads=self.leadership.leads,
            clock=clock,
        )  # fmt: skip
        self.health = health.Health(
            {
                "bus": self._bus_series.why_not,
                "aggregator": self.classes.trouble,
                "leadership": self.leadership.trouble,
            },
            notes={
                "leader": self.leadership.leader,
                "webhook": self._webhook_state,
                "namespaces' rules": self.namespaces.state,
            },
        )

    def works(self) -> dict[str, Awaitable[object]]:
        """Return what must run for as long as the service does."""
        return {
            "ask": self._ask(),
            "follow": self.keeper.follow_forever(),
            "rules": self.namespaces.follow_forever(),
            "write": self.keeper.write_forever(),
            **self.leadership.works(),
        }

    @contextlib.asynccontextmanager
    async def reviews(self, api: api_client.KubeClient) -> AsyncIterator[Awaitable[object]]:
        """Listen for reviews of Pods; yield what must run meanwhile. Raises `SettingsError`, `EnvironmentUnfit`."""
        chosen = self._chosen.admission
        certificate = self._certificate = certificates.Certificate(
            cert=chosen.cert, key=chosen.key, ca=chosen.ca, name=chosen.name, clock=self._clock
        )
        certificate.read()
        self._counted.read_certificate(certificate.left_s)
        handler = webhook.Webhook(
            self.classes.get, self._counted, rules=self.namespaces.rules, clock=self._clock,
            dimensions=chosen.dimensions(),
        )  # fmt: skip
        kept = self._registration = registration.Registration(api, name=chosen.webhook)
        line = logs.RateLimited(logs.get("admission"), clock=self._clock)
        async with webhook.listening(handler, certificate, host=chosen.host, port=chosen.port) as port:
            logs.get("admission").info("listening", port=port)
            yield webhook.look_forever(certificate, kept, leads=self.leadership.leads, line=line)

    def _webhook_state(self) -> str:
        if self._registration is None or self._certificate is None:
            return "off"
        return self._certificate.trouble or self._registration.trouble or "trusted by the API server"

    async def _ask(self) -> None:
        # Connecting waits for the server without limit; the health endpoint answers meanwhile.
        inbox = roles.inbox(roles.Role.RECOMMENDER)
        bus = await nats_bus.connect(
            self._chosen.bus, name=setting.PROGRAM, clock=self._clock, owns_streams=False, inbox=inbox,
            on_trouble=self._bus_series.trouble,
        )  # fmt: skip
        self._bus_series.watch(bus)
        try:
            async with asyncio.TaskGroup() as group:
                asking = self.classes.ask_forever(bus, interval_s=self._chosen.interval_s)
                group.create_task(tasks.forever("asking", asking), name="asking")
                await bus.wait_closed()
        finally:
            await bus.close()


async def _nothing() -> None:
    """Prepare no term: statuses are computed from what is read."""
