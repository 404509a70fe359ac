"""Entry point of the scheduler."""

from carico_core.runtime.process import clock, entry, memory_use
from carico_scheduler import service
from carico_scheduler import settings as setting


def main() -> int:
    """The exit code: 0 stopped, 1 failed, 2 a setting or the surroundings have to be mended."""
    with memory_use.seldom_looked_for():
        return entry.run(
            setting.SchedulerSettings,
            lambda chosen, stop: service.serve(chosen, stop, clock.BootClock()),
            prefix=setting.PREFIX,
            program=setting.PROGRAM,
        )
