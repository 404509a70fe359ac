"""`python -m carico_local.cgroups sweep --cluster NAME`: removes what a killed cluster left behind."""

import argparse
import pathlib
import sys

from carico_local.cgroups import sweep


def main() -> int:
    """Return the exit code: 0 where nothing of the cluster is left, 1 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m carico_local.cgroups")
    parser.add_argument("command", choices=["sweep"])
    parser.add_argument("--cluster", required=True, help="the cluster's name")
    parser.add_argument("--state-dir", action="append", default=[], help="--root of one of its nodes (repeatable)")
    arguments = parser.parse_args()
    swept = sweep.sweep(arguments.cluster, state_dirs=[pathlib.Path(entry) for entry in arguments.state_dir])
    print(f"processes killed: {swept.killed}; cgroups left: {', '.join(swept.remaining) or 'none'}")
    return 1 if swept.remaining else 0


if __name__ == "__main__":
    sys.exit(main())
