"""Entry point of the aggregator."""

from carico_aggregator import service
from carico_aggregator import settings as setting
from carico_core.runtime.process import clock, entry, memory_use


def main() -> int:
    """Return the exit code: 0 stopped, 1 failed, 2 a setting or the environment needs fixing."""
    with memory_use.seldom_looked_for():
        return entry.run(
            setting.AggregatorSettings,
            lambda chosen, stop: service.serve(chosen, stop, clock=clock.SystemClock()),
            prefix=setting.PREFIX,
            program=setting.PROGRAM,
        )
