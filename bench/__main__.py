"""`python -m bench [NAME ...] [--quick] [--json FILE]`: runs the benchmarks and prints one table.

A benchmark is a module of this folder, or of a folder in it, with `run(quick: bool) -> list[Row]`, where a row is
(what, value, unit, target); the target is words ("at most 50") or empty. Values are medians of several runs unless the
row says else.
"""

import argparse
import importlib
import json
import os
import pathlib
import platform
import sys
import time

Row = tuple[str, float, str, str]
HERE = pathlib.Path(__file__).parent


def available() -> dict[str, str]:
    """Return the modules of all benchmarks by their names, sorted."""
    found = [path.relative_to(HERE) for path in HERE.rglob("*.py") if not path.stem.startswith("_")]
    found.sort(key=lambda path: path.stem)
    return {path.stem: ".".join(("bench", *path.with_suffix("").parts)) for path in found}


def verdict(value: float, target: str) -> str:
    """Return "met" or "MISSED" for a value and its target; empty without a plain bound."""
    words = target.split()
    if words[:2] == ["at", "most"]:
        return "met" if value <= float(words[2]) else "MISSED"
    if words[:2] == ["at", "least"]:
        return "met" if value >= float(words[2]) else "MISSED"
    return ""


def table(results: dict[str, list[Row]]) -> str:
    """Format all rows as aligned text."""
    lines = [("benchmark", "what", "value", "unit", "target", "")]
    for name, rows in results.items():
        lines += [
            (name, what, f"{value:,.4g}", unit, target, verdict(value, target)) for what, value, unit, target in rows
        ]
    widths = [max(len(line[i]) for line in lines) for i in range(6)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def main() -> int:
    """Run the benchmarks and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Run CARICO's benchmarks and print a table.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which: {', '.join(available())} (default: all)")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter runs; figures are rougher")
    parser.add_argument("--json", type=pathlib.Path, help="also write the rows to this file")
    args = parser.parse_args()
    modules = available()
    unknown = sorted(set(args.names) - modules.keys())
    if unknown:
        parser.error(f"no benchmark named {', '.join(unknown)}; there are {', '.join(modules)}")
    print(f"{os.cpu_count()} CPUs, Linux {platform.release()}, Python {platform.python_version()}", flush=True)
    results: dict[str, list[Row]] = {}
    for name in args.names or modules:
        started = time.monotonic()
        results[name] = importlib.import_module(modules[name]).run(quick=args.quick)
        print(f"{name}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    print(table(results))
    if args.json:
        args.json.write_text(json.dumps(results, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
