"""`python -m carico_local.played_nodes`."""

import sys

from carico_core.runtime.process import clock, tasks
from carico_local.played_nodes import service


def main() -> int:
    """Return the exit code: 0 stopped, 1 failed, 2 for a wrong setting or environment."""
    return tasks.run_service(
        service.PlayedNodesSettings,
        lambda chosen, stop: service.serve(chosen, stop, clock=clock.SystemClock()),
        prefix=service.PREFIX,
        program=service.PROGRAM,
    )


if __name__ == "__main__":
    sys.exit(main())
