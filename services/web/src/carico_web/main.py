"""Entry point of the web page's server: settings, logs, then the service."""

import sys

from carico_core.domain import errors
from carico_core.runtime import clock, logs, settings, tasks
from carico_web import service
from carico_web import settings as setting


def main() -> int:
    """The exit code: 0 stopped, 1 failed, 2 a setting or the surroundings have to be mended."""
    try:
        chosen = settings.load(setting.WebSettings, prefix=setting.PREFIX, program=setting.PROGRAM)
    except errors.SettingsError as error:
        print(f"{setting.PROGRAM}: {error}", file=sys.stderr)
        return tasks.EXIT_USER_ERROR
    logs.setup(service=setting.PROGRAM, json=chosen.log_json, level=chosen.log_level)
    return tasks.run(lambda stop: service.serve(chosen, stop, clock=clock.SystemClock()), program=setting.PROGRAM)
