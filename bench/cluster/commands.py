"""How long commands take, and their CPU time, from a shell's start of them to their end.

`python -m bench commands`: `carico --help`, and what people ask of a cluster of 1,000 nodes, which kwok plays on a real
control plane of this machine. Such a cluster takes part of two CPUs itself.
"""

import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

Row = tuple[str, float, str, str]
NODES = 1000
NAME = "bench-commands"
JOB = "computes"
# POD: one of the job's.
COMMANDS = {
    "status": "at most 0.4",
    "explain node node-1": "at most 0.4",
    "explain POD": "at most 0.4",
    f"explain job {JOB}": "at most 0.4",
    "capacity": "",
    "top --once": "",
    "doctor": "",
}


class Took(NamedTuple):
    """What a run of a command took in seconds, and printed."""

    wall_s: float
    cpu_s: float
    said: str


def run(quick: bool) -> list[Row]:
    """Medians of several runs of each command."""
    runs = 3 if quick else 9
    with tempfile.TemporaryDirectory() as folder:
        # With the byte code that Python keeps, as in a user's shell: compiling each time doubles what a command takes.
        environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environ["XDG_STATE_HOME"] = folder
        rows = _rows("carico --help", "at most 0.15", [_carico("--help", environ) for _ in range(runs)])
        with _cluster(environ):
            pod = _pod(environ)
            for words, target in COMMANDS.items():
                took = [_carico(words.replace("POD", pod), environ) for _ in range(runs)]
                rows += _rows(f"{NODES:,} nodes: carico {words}", target, took)
    return rows


def _rows(what: str, target: str, took: list[Took]) -> list[Row]:
    return [
        (what, statistics.median(each.wall_s for each in took), "s", target),
        (f"{what}: CPU time", statistics.median(each.cpu_s for each in took), "s", ""),
    ]


@contextlib.contextmanager
def _cluster(environ: Mapping[str, str]) -> Iterator[None]:
    try:
        _carico(f"up --name {NAME} --control-plane real --nodes kwok={NODES}", environ)
        _carico(f"submit pi --pods 200 --job {JOB} --seconds 3600", environ)
        # Until what the start and the job cause has settled.
        time.sleep(15.0)
        yield
    finally:
        _carico(f"down --name {NAME}", environ)


def _pod(environ: Mapping[str, str]) -> str:
    """Return the name of the Pod that was placed last."""
    seen = json.loads(_carico("top --once -o json", environ).said)
    name: str = seen["decisions"][0]["pod"]
    return name


def _carico(words: str, environ: Mapping[str, str]) -> Took:
    """Run the command to its end."""
    program = pathlib.Path(sys.executable).with_name("carico")
    with tempfile.TemporaryFile("w+") as output:
        began_s = time.monotonic()
        process = subprocess.Popen([str(program), *words.split()], env=environ, stdout=output, stderr=output)
        _, status, usage = os.wait4(process.pid, 0)
        took_s = time.monotonic() - began_s
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        said = output.read()
    # Findings of doctor end with 1, or 3 for warnings.
    if process.returncode not in (0, 1, 3):
        raise RuntimeError(f"carico {words}: exit code {process.returncode}\n{said}")
    return Took(took_s, usage.ru_utime + usage.ru_stime, said)
