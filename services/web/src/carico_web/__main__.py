"""Start the web page's server: `carico-web`, or `python -m carico_web`."""

import sys

from carico_core.runtime.process import memory_use


def main() -> int:
    """Read the settings, run the service, and return the exit code: 0 stopped, 1 failed, 2 for the user to fix."""
    with memory_use.rare_collections():
        from carico_core.runtime.process import clock, tasks
        from carico_web import service
        from carico_web import settings as setting

        return tasks.run_service(
            setting.WebSettings,
            lambda chosen, stop: service.serve(chosen, stop, clock=clock.SystemClock()),
            prefix=setting.PREFIX,
            program=setting.PROGRAM,
        )


if __name__ == "__main__":
    sys.exit(main())
