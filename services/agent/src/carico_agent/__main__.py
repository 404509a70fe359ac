"""Start the agent: `carico-agent`, or `python -m carico_agent`."""

import asyncio
import os
import sys

from carico_core.runtime.process import memory_use


def main() -> int:
    """Read the settings, run the service, and return the exit code: 0 stopped, 1 failed, 2 for the user to fix."""
    # When numpy is imported, OpenBLAS starts a thread per CPU and keeps buffers for each; 2 x 2 matrices need neither.
    # So this comes before any import that loads numpy: it saves 1 MB in every agent of a fleet.
    os.putenv("OPENBLAS_NUM_THREADS", "1")
    with memory_use.rare_collections():
        from carico_agent import service
        from carico_agent import settings as setting
        from carico_core.runtime.process import clock, tasks

    return tasks.run_service(
        setting.AgentSettings,
        lambda chosen, stop: service.Service(chosen, clock=clock.SystemClock()).run(stop),
        prefix=setting.PREFIX,
        program=setting.PROGRAM,
        # A dozen wake-ups a second: uvloop would save .02 % of a core, and take 2.6 MB of every node.
        make_loop=asyncio.new_event_loop,
    )


if __name__ == "__main__":
    sys.exit(main())
