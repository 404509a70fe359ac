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

Row = tuple[str, float, str, str]
# (seconds, limit as a share of the containers or None, least local traffic in percent)
POINTS = (
    (5, 0.05, 49), (5, 0.2, 78), (5, None, 86),
    (60, 0.01, 25), (60, 0.05, 50), (60, 0.1, 65), (60, 0.2, 79), (60, None, 86),
)  # fmt: skip


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
    for seconds, share, least in POINTS:
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
        rows.append((f"{seconds} s, {what}: local", statistics.median(local), "%", f"at least {least}"))
    return [*rows, ("longest overrun of the time, with the start of Python", 100.0 * overrun, "%", "at most 5")]


def _found(problem: pathlib.Path, *flags: str) -> dict[str, float]:
    command = [sys.executable, "-m", "carico_cli", "reschedule", "--problem", str(problem), "--json", *flags]
    ended = subprocess.run(command, capture_output=True, check=True)
    found: dict[str, float] = json.loads(ended.stdout)
    return found
