"""The extender at work beside the engine of one scheduler: its binder, its server, its housekeeping."""

import asyncio
import dataclasses
import random
from collections.abc import Callable

from carico_core.runtime import clock as clocks
from carico_core.runtime import kube_actions, logs
from carico_scheduler import binder as binders
from carico_scheduler import decisions, instruments
from carico_scheduler import policy as policies
from carico_scheduler import state as states
from carico_scheduler.extender import server, service
from carico_scheduler.extender import settings as setting

TIDY_EVERY_S = 0.5


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a unit is put together from; `leads` says whether it may answer, `wake` lets our own queue look again."""

    state: states.State
    policy: policies.Policy
    kube: kube_actions.BindApi
    clock: clocks.Clock
    rng: random.Random
    log: decisions.Log
    metrics: instruments.Instruments
    bind_timeout_s: float
    leads: Callable[[], bool]
    wake: Callable[[], None]


class Unit:
    """An extender that is served by `serve_forever`."""

    def __init__(self, wanted: setting.ExtenderSettings, parts: Parts) -> None:
        self._wanted = wanted
        self._clock = parts.clock
        self._metrics = parts.metrics
        self.extender = service.Extender(
            wanted, state=parts.state, policy=parts.policy, api=parts.kube, clock=parts.clock, log=parts.log,
            leads=parts.leads, wake=parts.wake, on_bind=lambda fate: parts.metrics.extender_binds.labels(fate).inc(),
        )  # fmt: skip
        # kube-scheduler sets how many binds run at a time.
        self.binder = binders.Binder(
            parts.kube, witness=parts.state, clock=parts.clock, rng=parts.rng, most=2**31,
            timeout_s=parts.bind_timeout_s, on_result=self.extender.binds.on_result, may_bind=parts.leads,
        )  # fmt: skip
        self.extender.binds.use(self.binder)

    async def serve_forever(self) -> None:
        """Never; answers kube-scheduler, and ends what is held for nothing."""
        running = await server.serve(self.extender, self._wanted, clock=self._clock, on_answer=self._count)
        logs.get("extender").info("serving kube-scheduler", host=self._wanted.host, port=running.port)
        try:
            while True:
                self.extender.tidy()
                self._metrics.extender_holds.set(len(self.extender.holds))
                await asyncio.sleep(TIDY_EVERY_S)
                if self.binder.fault is not None:
                    raise self.binder.fault
        finally:
            await running.close()

    def _count(self, verb: str, status: int, took_s: float) -> None:
        self._metrics.extender_requests.labels(verb, str(status)).inc()
        self._metrics.extender_s.labels(verb).observe(took_s)
