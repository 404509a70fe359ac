"""Probes of a container: startup, then readiness and liveness at the same time.

Source: kubernetes/pkg/kubelet/prober/worker.go.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from carico_local.node.spec import container as container_spec

Check = Callable[[container_spec.Probe], Awaitable[str | None]]


class Found(Protocol):
    """What acts on what the probes find."""

    def started(self) -> None:
        """The container is up: readiness and liveness count from here."""
        ...

    def ready(self, ready: bool) -> None:
        """It takes work, or takes it no more."""
        ...

    def unhealthy(self, kind: str, reason: str) -> None:
        """A probe has failed once."""
        ...

    async def dead(self, kind: str, reason: str) -> None:
        """It has failed as often as it may: the container is to be ended."""
        ...


async def run(spec: container_spec.ContainerSpec, check: Check, found: Found) -> None:
    """Run the probes until the container is found dead; return at once where there are none. Cancelled when it ends."""
    if spec.startup is not None:
        if not await _until_passed(spec.startup, check, found):
            return
        found.started()
    async with asyncio.TaskGroup() as group:
        if spec.readiness is not None:
            group.create_task(_follow_readiness(spec.readiness, check, found))
        elif spec.startup is not None:
            found.ready(True)
        if spec.liveness is not None:
            group.create_task(_follow_liveness("Liveness", spec.liveness, check, found))


async def _until_passed(probe: container_spec.Probe, check: Check, found: Found) -> bool:
    """Return True once the startup probe has passed; False where the container was given up."""
    failures = 0
    await asyncio.sleep(probe.initial_delay_s)
    while (why := await check(probe)) is not None:
        failures += 1
        found.unhealthy("Startup", why)
        if failures >= probe.failures:
            await found.dead("Startup", why)
            return False
        await asyncio.sleep(probe.period_s)
    return True


async def _follow_readiness(probe: container_spec.Probe, check: Check, found: Found) -> None:
    ready, successes, failures = False, 0, 0
    await asyncio.sleep(probe.initial_delay_s)
    while True:
        why = await check(probe)
        successes, failures = (successes + 1, 0) if why is None else (0, failures + 1)
        if why is not None:
            found.unhealthy("Readiness", why)
        if not ready and successes >= probe.successes:
            ready = True
            found.ready(True)
        elif ready and failures >= probe.failures:
            ready = False
            found.ready(False)
        await asyncio.sleep(probe.period_s)


async def _follow_liveness(kind: str, probe: container_spec.Probe, check: Check, found: Found) -> None:
    failures = 0
    await asyncio.sleep(probe.initial_delay_s)
    while True:
        why = await check(probe)
        failures = 0 if why is None else failures + 1
        if why is not None:
            found.unhealthy(kind, why)
            if failures >= probe.failures:
                await found.dead(kind, why)
                return
        await asyncio.sleep(probe.period_s)
