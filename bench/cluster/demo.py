"""The demo's job as `carico demo` runs it: Pod time against the time alone, job time against the bound, start time."""

import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
from typing import Any

Row = tuple[str, float, str, str]


def run(quick: bool) -> list[Row]:
    """Medians over the runs; every run is a cluster of its own."""
    reports, starts_s = [], []
    for number in range(1 if quick else 3):
        with tempfile.TemporaryDirectory() as folder:
            report, start_s = _demo(pathlib.Path(folder), f"bench-{number}", pods=40 if quick else None)
        reports.append(report)
        starts_s.append(start_s)

    def median(*path: str) -> float:
        found = []
        for report in reports:
            value: Any = report
            for key in path:
                value = value[key]
            found.append(float(value))
        return statistics.median(found)

    return [
        ("mean Pod time / alone", median("targets", "pod_ratio", "value"), "", "at most 1.35"),
        ("job time / bound", median("targets", "job_ratio", "value"), "", "at most 1.12"),
        ("mean Pod time", median("pod_s", "mean"), "s", ""),
        ("job time", median("job_s"), "s", ""),
        ("most Pods on one node", median("max_running_per_node"), "Pods", ""),
        ("placements without room", median("capacity_overrun"), "", "at most 0"),
        ("command to cluster ready", statistics.median(starts_s), "s", "at most 10"),
    ]


def _demo(folder: pathlib.Path, name: str, *, pods: int | None) -> tuple[dict[str, Any], float]:
    words = ["demo", "--name", name, "--out", str(folder / "out"), *(["--pods", str(pods)] if pods else [])]
    environ = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
    done = subprocess.run(
        [sys.executable, "-m", "carico_cli", *words], env=environ, capture_output=True, text=True, check=True
    )
    ready = re.search(r"is ready after ([\d.]+) s", done.stdout)
    assert ready is not None, done.stdout
    report: dict[str, Any] = json.loads((folder / "out/report.json").read_bytes())
    return report, float(ready[1])
