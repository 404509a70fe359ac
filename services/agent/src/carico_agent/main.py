"""Entry point of the agent: settings, logs, clock, then the service."""

import os
import sys


def main() -> int:
    """The exit code: 0 stopped, 1 failed, 2 a setting or the surroundings have to be mended."""
    # OpenBLAS starts a thread per CPU and keeps buffers for each when numpy is imported; 2 x 2 matrices need none of
    # them. So this comes before any import that brings numpy: 1 MB less in every agent of a fleet.
    os.putenv("OPENBLAS_NUM_THREADS", "1")
    from carico_agent import service
    from carico_agent import settings as setting
    from carico_core.domain import errors
    from carico_core.runtime import clock, logs, settings, tasks

    try:
        chosen = settings.load(setting.AgentSettings, prefix=setting.PREFIX, program=setting.PROGRAM)
    except errors.SettingsError as error:
        print(f"{setting.PROGRAM}: {error}", file=sys.stderr)
        return tasks.EXIT_USER_ERROR
    logs.setup(service=setting.PROGRAM, json=chosen.log_json, level=chosen.log_level)
    agent = service.Service
    return tasks.run(lambda stop: agent(chosen, clock=clock.SystemClock()).run(stop), program=setting.PROGRAM)
