"""Entry point of the fleet."""

from carico_core.runtime.process import clock, entry
from carico_local.fleet import service
from carico_local.fleet import settings as setting


def main() -> int:
    """The exit code: 0 stopped, 1 failed, 2 a setting or the surroundings have to be mended."""
    return entry.run(
        setting.FleetSettings,
        lambda chosen, stop: service.serve(chosen, stop, clock=clock.SystemClock()),
        prefix=setting.PREFIX,
        program=setting.PROGRAM,
    )
