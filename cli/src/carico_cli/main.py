"""Entry point of the `carico` command, and of `python -m carico_cli`.

It is a module of its own because it imports next to nothing: the rest takes most of a second to import, and Ctrl-C is
handled before that. Only while Python itself starts, Ctrl-C is Python's, and it may print a traceback.
"""

import signal
import sys


def main() -> None:
    """Run the command and exit: 0 done, 1 failed, 2 a user's mistake, 130 Ctrl-C."""
    # Until there is a handler that prints a line: it is imported in a few milliseconds, in which Ctrl-C may come too.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from carico_cli.shell import exits

    exits.end_at_once()
    try:
        try:
            code = _run()
        finally:
            # A Ctrl-C that came while C code ran (a loop closes, and makes Ctrl-C an exception again) is raised by
            # the next call: by this one, if by none before.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
    except KeyboardInterrupt:
        # Everything has ended by now: another Ctrl-C must not interrupt the last line and the exit code.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        print(exits.INTERRUPTED_LINE, file=sys.stderr)
        code = exits.INTERRUPTED
    sys.exit(code)


def _run() -> int:
    # Imported here, so that Ctrl-C while Python still imports modules ends in one line and not in a traceback.
    from carico_core.runtime.process import memory_use

    memory_use.skip_last_collection()
    # Imports create a hundred thousand objects that stay; searching them for garbage takes a tenth of their time.
    with memory_use.rare_collections():
        from carico_cli import application

        return application.run()
