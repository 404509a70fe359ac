"""Traffic from a file, for tests and to repeat a run: one report of this node in each line, as the bus carries it.

`nats sub carico.v1.traffic.NODE --raw > FILE` records one. A line that cannot be used is skipped and counted.
"""

import asyncio
import pathlib

from carico_agent.traffic import sockets
from carico_core.domain import errors
from carico_core.runtime.observe import logs
from carico_core.wire import messages as wire
from carico_core.wire import subjects


class Recorded:
    """Implements `carico_agent.ports.TrafficSource`."""

    def __init__(self, file: pathlib.Path, *, node: str, skipped: sockets.Skipped, log: logs.RateLimited) -> None:
        """Raise `EnvironmentUnfit` if the file cannot be read."""
        try:
            self._lines = file.read_bytes().splitlines()
        except OSError as error:
            raise errors.EnvironmentUnfit(
                f"--traffic recorded:{file}: {error.strerror}; give a file with one report in each line, as of "
                f"`nats sub {subjects.traffic(node)} --raw`"
            ) from None
        self._subject = subjects.traffic(node)
        self._skipped = skipped
        self._log = log

    async def run(self, found: sockets.Found) -> None:
        """Pass on each report after its interval, then nothing more, until cancelled."""
        for number, line in enumerate(self._lines, start=1):
            try:
                report = wire.decode_traffic(line, subject=self._subject)
            except errors.MessageError as error:
                self._skipped("undecodable", 1)
                self._log.warning("recorded", "a line of recorded traffic is skipped", line=number, why=str(error))
                continue
            await asyncio.sleep(report.interval_s)
            found(report.flows)
        await asyncio.Event().wait()
