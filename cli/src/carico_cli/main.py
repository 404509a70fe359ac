"""The `carico` command. Next to nothing is imported here at first: what follows takes most of a second."""

import signal
import sys

from carico_cli.shell import exits


def main() -> None:
    """Run the command and exits: 0 done, 1 failed, 2 a user's mistake, 130 Ctrl-C."""
    exits.end_at_once()
    try:
        # Imported here, so that Ctrl-C while Python still reads modules ends in one line and not in a traceback.
        from carico_cli import application

        code = application.run()
    except KeyboardInterrupt:
        # Everything has ended by now: one more Ctrl-C must not break off the last line and the exit code.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        print(exits.INTERRUPTED_LINE, file=sys.stderr)
        code = exits.INTERRUPTED
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)
