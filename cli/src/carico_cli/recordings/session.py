"""Records without an agent: the same telemetry and Pod events, without model and bus."""

import asyncio
import random

from carico_agent import recording, sampler, service, settings
from carico_agent.learning import pipeline
from carico_agent.telemetry import panel, port, sources
from carico_agent.telemetry.cgroups import own_node
from carico_core.domain import errors
from carico_core.runtime.process import clock as clocks

# A disk that failed ends a session within this time.
LOOK_S = 0.5


class Session:
    """Samples a node into a file until it is closed."""

    def __init__(self, chosen: settings.AgentSettings, *, clock: clocks.Clock) -> None:
        """Raise `EnvironmentUnfit` where the node cannot be measured, `SettingsError` for a bad path."""
        chosen = own_node.resolved(chosen)
        self._clock = clock
        self._panel = _open_panel(chosen, clock)
        self._pods = service.open_pods(chosen, clock=clock)
        self._recorder = recording.open_recorder(chosen, self._panel.facts, self._pods)
        self._pods.on_change(self._panel.pods_changed)
        self.broken = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """What the telemetry lacks."""
        return self._panel.facts.notes

    @property
    def written(self) -> recording.Written:
        """What has reached the file."""
        return self._recorder.written

    async def run(self, seconds: float) -> None:
        """Record for `seconds`, or until the disk fails; call `close` afterwards, even if this raised."""
        samples = sampler.Sampler(
            self._tick,
            period_s=pipeline.SAMPLE_S,
            clock=self._clock,
            rng=random.Random(clocks.boot_id(self._clock)),
        )
        works = [
            asyncio.create_task(samples.run(), name="sampler"),
            asyncio.create_task(self._pods.run(), name="pods"),
        ]
        try:
            await self._watch(works, until_s=self._clock.monotonic_s() + seconds)
        finally:
            for work in works:
                work.cancel()
            await asyncio.gather(*works, return_exceptions=True)

    async def _watch(self, works: list[asyncio.Task[None]], *, until_s: float) -> None:
        while self.written.failure is None:
            left_s = until_s - self._clock.monotonic_s()
            if left_s <= 0.0:
                return
            done, _ = await asyncio.wait(works, timeout=min(left_s, LOOK_S), return_when=asyncio.FIRST_COMPLETED)
            for work in done:
                work.result()

    def close(self) -> recording.Written:
        """Write the end of the file; return what was written."""
        return self._recorder.close()

    def _tick(self, _late_s: float, _missed: int) -> None:
        try:
            reading = self._panel.read()
        except port.Broken:
            # Reported at the end: a broken source fails ten times a second.
            self.broken += 1
            return
        if reading is not None:
            self._recorder.sample(self._sample(reading))

    def _sample(self, reading: panel.Reading) -> pipeline.Sample:
        return pipeline.Sample(
            values=reading.values,
            parts=dict(reading.parts),
            pods=len(self._pods.current().running),
            dt_s=pipeline.SAMPLE_S,
            at_ns=self._clock.wall_ns(),
            at_s=self._clock.monotonic_s(),
        )


def _open_panel(chosen: settings.AgentSettings, clock: clocks.Clock) -> panel.Panel:
    try:
        return sources.open_panel(chosen.wanted(), clock=clock)
    except port.Absent as error:
        raise errors.EnvironmentUnfit(
            f"node {chosen.node} cannot be measured as scope {chosen.scope.value}: {error}"
        ) from error
