"""The extender of one scheduler: its binder, its server and its housekeeping, run next to the engine."""

import asyncio

from carico_core.runtime.observe import logs
from carico_scheduler.bind import binder as binders
from carico_scheduler.extender import server, service
from carico_scheduler.extender import settings as setting

TIDY_EVERY_S = 0.5


class Unit:
    """An extender that is served by `serve_forever`."""

    def __init__(self, wanted: setting.ExtenderSettings, parts: service.Parts) -> None:
        self._wanted = wanted
        self._clock = parts.clock
        self._metrics = parts.metrics
        # kube-scheduler sets how many binds run at a time.
        self.binder = binders.Binder(
            parts.kube, pods=parts.state, clock=parts.clock, rng=parts.rng, most=2**31,
            timeout_s=parts.bind_timeout_s, term=parts.term,
        )  # fmt: skip
        self.extender = service.Extender(wanted, parts, self.binder)

    async def serve_forever(self) -> None:
        """Answer kube-scheduler and end holds that are no longer needed, until cancelled."""
        running = await server.serve(self.extender, self._wanted, clock=self._clock, on_answer=self._count)
        logs.get("extender").info("serving kube-scheduler", host=self._wanted.host, port=running.port)
        try:
            while True:
                self.extender.tidy()
                self.extender.forget()
                await self.extender.verify_unshown()
                self._metrics.extender_holds.set(len(self.extender.holds))
                await asyncio.sleep(TIDY_EVERY_S)
                if self.binder.fault is not None:
                    raise self.binder.fault
        finally:
            await running.close()

    def _count(self, verb: str, status: int, took_s: float) -> None:
        self._metrics.extender_requests.labels(verb, str(status)).inc()
        self._metrics.extender_s.labels(verb).observe(took_s)
