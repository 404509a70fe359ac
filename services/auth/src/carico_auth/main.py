"""Entry point of the auth callout."""

from carico_auth import service
from carico_auth import settings as setting
from carico_core.runtime.process import clock, settings, tasks


def main() -> int:
    """Return the exit code: 0 stopped, 1 failed, 2 a setting or the environment needs fixing."""
    return tasks.run_service(
        setting.AuthSettings,
        lambda chosen, stop: service.serve(chosen, stop, clock=clock.SystemClock(), environ=settings.environment()),
        prefix=setting.PREFIX,
        program=setting.PROGRAM,
    )
