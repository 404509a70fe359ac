"""`python -m carico_local.played_nodes`."""

import sys

from carico_core.runtime.process import clock, entry
from carico_local.played_nodes import service


def main() -> int:
    """Return the exit code: 0 stopped, 1 failed, 2 a setting or the surroundings have to be fixed."""
    return entry.run(
        service.PlayedNodesSettings,
        lambda chosen, stop: service.serve(chosen, stop, clock=clock.SystemClock()),
        prefix=service.PREFIX,
        program=service.PROGRAM,
    )


if __name__ == "__main__":
    sys.exit(main())
