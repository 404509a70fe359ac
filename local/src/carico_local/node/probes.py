"""httpGet probes of a container: readiness and liveness."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from carico_local.node import podspec


async def run(
    spec: podspec.ContainerSpec,
    *,
    host: str,
    on_ready: Callable[[bool], None],
    on_dead: Callable[[str], Awaitable[None]],
) -> None:
    """Nothing, at once where there are no probes, else when the container is found dead; cancelled when it ends."""
    async with asyncio.TaskGroup() as group:
        if spec.readiness is not None:
            group.create_task(_follow_readiness(spec.readiness, host, on_ready))
        if spec.liveness is not None:
            group.create_task(_follow_liveness(spec.liveness, host, on_dead))


async def _follow_readiness(probe: podspec.Probe, host: str, on_ready: Callable[[bool], None]) -> None:
    ready, successes, failures = False, 0, 0
    await asyncio.sleep(probe.initial_delay_s)
    while True:
        why = await _get(probe, host)
        successes, failures = (successes + 1, 0) if why is None else (0, failures + 1)
        if not ready and successes >= probe.successes:
            ready = True
            on_ready(True)
        elif ready and failures >= probe.failures:
            ready = False
            on_ready(False)
        await asyncio.sleep(probe.period_s)


async def _follow_liveness(probe: podspec.Probe, host: str, on_dead: Callable[[str], Awaitable[None]]) -> None:
    failures = 0
    await asyncio.sleep(probe.initial_delay_s)
    while True:
        why = await _get(probe, host)
        failures = 0 if why is None else failures + 1
        if failures >= probe.failures and why is not None:
            await on_dead(why)
            return
        await asyncio.sleep(probe.period_s)


async def _get(probe: podspec.Probe, host: str) -> str | None:
    """None where the answer's status is 200 to 399, else why not."""
    writer = None
    try:
        async with asyncio.timeout(probe.timeout_s):
            reader, writer = await asyncio.open_connection(host, probe.port)
            writer.write(f"GET {probe.path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            words = (await reader.readline()).split()
    except (OSError, TimeoutError, ValueError) as error:  # ValueError: a first line without end
        return f"Get http://{host}:{probe.port}{probe.path}: {error or 'no answer in time'}"
    finally:
        if writer is not None:
            with contextlib.suppress(OSError):
                writer.close()
    code = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
    return None if 200 <= code < 400 else f"HTTP probe failed with statuscode: {code}"
