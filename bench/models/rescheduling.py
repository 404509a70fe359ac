"""`carico reschedule` on RASA M3: local traffic for growing limits of moves, by the time of the search.

The problem is dataset/M3.json of github.com/bytedance/research-cluster-dataset, at var/rasa_M3.json or the path
in RASA_M3; without it there are no rows. Each figure is the median of five seeds, one after the other; with
--quick of one, and only within 5 s.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

from carico_cli.evaluation import rasa

Row = tuple[str, float, str, str]


def run(quick: bool) -> list[Row]:
    """Rows of local traffic, and of the longest overrun of the time."""
    problem = pathlib.Path(os.environ.get("RASA_M3", "var/rasa_M3.json"))
    if not problem.is_file():
        print(f"rescheduling: no problem at {problem}: no rows", file=sys.stderr)
        return []
    containers = sum(len(each["ContainerList"]) for each in json.loads(problem.read_bytes())["ServiceList"])
    # The first run compiles.
    _found(problem, "--proposals", "1000")
    rows: list[Row] = []
    overrun = 0.0
    for point in rasa.POINTS:
        seconds, share = point.seconds, point.share
        if quick and seconds > 5:
            continue
        limit = [] if share is None else ["--max-moves", str(int(share * containers))]
        local = []
        for seed in range(1, 2 if quick else 6):
            began_s = time.monotonic()
            found = _found(problem, "--seconds", str(seconds), "--seed", str(seed), *limit)
            overrun = max(overrun, (time.monotonic() - began_s) / seconds - 1.0)
            local.append(100.0 * found["local_after"])
        what = "no limit" if share is None else f"at most {share:.0%} moved"
        least = f"at least {100.0 * point.wanted:.3g}"
        rows.append((f"{seconds:g} s, {what}: local", statistics.median(local), "%", least))
    return [*rows, ("longest overrun of the time, with the start of Python", 100.0 * overrun, "%", "at most 5")]


def _found(problem: pathlib.Path, *flags: str) -> dict[str, float]:
    command = [sys.executable, "-m", "carico_cli", "reschedule", "--problem", str(problem), "--json", *flags]
    ended = subprocess.run(command, capture_output=True, check=True)
    found: dict[str, float] = json.loads(ended.stdout)
    return found
