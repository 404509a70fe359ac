"""Entry point of the web page's server."""

from carico_core.runtime.process import clock, entry
from carico_web import service
from carico_web import settings as setting


def main() -> int:
    """Return the exit code: 0 stopped, 1 failed, 2 a setting or the environment needs fixing."""
    return entry.run(
        setting.WebSettings,
        lambda chosen, stop: service.serve(chosen, stop, clock=clock.SystemClock()),
        prefix=setting.PREFIX,
        program=setting.PROGRAM,
    )
