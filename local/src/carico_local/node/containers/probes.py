"""Probes of a container: startup, then readiness and liveness concurrently.

Source: kubernetes/pkg/kubelet/prober/worker.go.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from carico_local.node.spec import container as container_spec

Check = Callable[[container_spec.Probe], Awaitable[str | None]]


class Listener(Protocol):
    """Receives the results of the probes."""

    def started(self) -> None:
        """The startup probe has passed: readiness and liveness probes begin."""
        ...

    def ready(self, ready: bool) -> None:
        """The readiness has changed."""
        ...

    def unhealthy(self, kind: str, reason: str) -> None:
        """A probe has failed once."""
        ...

    async def dead(self, kind: str, reason: str) -> None:
        """A probe has reached its failure threshold: the container is to be ended."""
        ...


async def run(spec: container_spec.ContainerSpec, check: Check, listener: Listener) -> None:
    """Run the probes until one declares the container dead; return at once where there are none."""
    if spec.startup is not None:
        if not await _until_passed(spec.startup, check, listener):
            return
        listener.started()
    async with asyncio.TaskGroup() as group:
        if spec.readiness is not None:
            group.create_task(_follow_readiness(spec.readiness, check, listener))
        elif spec.startup is not None:
            listener.ready(True)
        if spec.liveness is not None:
            group.create_task(_follow_liveness(spec.liveness, check, listener))


async def _until_passed(probe: container_spec.Probe, check: Check, listener: Listener) -> bool:
    """Return True once the startup probe has passed; False where it reached its failure threshold."""
    failures = 0
    await asyncio.sleep(probe.initial_delay_s)
    while (why := await check(probe)) is not None:
        failures += 1
        listener.unhealthy("Startup", why)
        if failures >= probe.failures:
            await listener.dead("Startup", why)
            return False
        await asyncio.sleep(probe.period_s)
    return True


async def _follow_readiness(probe: container_spec.Probe, check: Check, listener: Listener) -> None:
    ready, successes, failures = False, 0, 0
    await asyncio.sleep(probe.initial_delay_s)
    while True:
        why = await check(probe)
        successes, failures = (successes + 1, 0) if why is None else (0, failures + 1)
        if why is not None:
            listener.unhealthy("Readiness", why)
        if not ready and successes >= probe.successes:
            ready = True
            listener.ready(True)
        elif ready and failures >= probe.failures:
            ready = False
            listener.ready(False)
        await asyncio.sleep(probe.period_s)


async def _follow_liveness(probe: container_spec.Probe, check: Check, listener: Listener) -> None:
    failures = 0
    await asyncio.sleep(probe.initial_delay_s)
    while True:
        why = await check(probe)
        failures = 0 if why is None else failures + 1
        if why is not None:
            listener.unhealthy("Liveness", why)
            if failures >= probe.failures:
                await listener.dead("Liveness", why)
                return
        await asyncio.sleep(probe.period_s)
