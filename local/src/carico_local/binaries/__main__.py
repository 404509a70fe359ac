"""`python -m carico_local.binaries [COMMAND...]`: finds or builds the commands and prints the path of each."""

import argparse
import sys

from carico_core.domain import errors
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import settings
from carico_local.binaries import cache, catalog, tools


def main() -> int:
    """Return the exit code: 0 done, 2 where a command can be neither found nor built."""
    parser = argparse.ArgumentParser(prog="python -m carico_local.binaries")
    parser.add_argument("commands", nargs="*", metavar="COMMAND", help=f"all of {', '.join(catalog.TOOLS)} by default")
    names = parser.parse_args().commands or list(catalog.TOOLS)
    try:
        found = tools.obtain(names, environ=settings.environment(), clock=clocks.SystemClock(), report=_print)
    except errors.UserError as error:
        print(f"carico-binaries: {error}", file=sys.stderr)
        return 2
    for name in names:
        print(found[name].path)
    return 0


def _print(line: cache.Progress) -> None:
    if not line.passing:
        print(line.text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
