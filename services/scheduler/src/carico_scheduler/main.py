"""Entry point of the scheduler: settings, logs, clock, then `app.serve`."""

import sys

from carico_core.domain import errors
from carico_core.runtime import clock, logs, settings, tasks
from carico_scheduler import app, collector
from carico_scheduler import settings as setting

PROGRAM = "carico-scheduler"


def main() -> int:
    """The exit code: 0 stopped, 1 failed, 2 a setting or the surroundings have to be mended."""
    try:
        loaded = settings.load(setting.SchedulerSettings, prefix="scheduler", program=PROGRAM)
    except errors.SettingsError as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return tasks.EXIT_USER_ERROR
    logs.setup(service=PROGRAM, json=loaded.log_json, level=loaded.log_level)
    with collector.relaxed():
        return tasks.run(lambda stop: app.serve(loaded, stop, clock.BootClock()), program=PROGRAM)
