"""Memory of a leader and a standby after a million Pods have passed through them, against the first 10^4.

Two whole schedulers on the in-memory API and bus in this process, without kubelets, in virtual time; the API keeps no
Pod that was removed. `python -m bench churn` takes most of an hour, `--quick` takes 30,000 Pods, and
`python -m bench.churn --pods 50000` as many as are asked for.
"""

import argparse
import gc
import os
import sys
import time

from bench import __main__ as runner
from bench import _process
from carico_core.runtime.observe import logs
from carico_core.runtime.process import memory_use
from tests.chaos import churn
from tests.unit.scheduler import objects

Row = tuple[str, float, str, str]
PODS, PODS_QUICK = 1_000_000, 30_000
# From here on the leader remembers as many decisions as it ever does (8192, `decisions.REMEMBERED_MAX`).
FIRST = 10_000


def run(quick: bool) -> list[Row]:
    """Return the memory of this process after the first Pods and after the last."""
    return rows(PODS_QUICK if quick else PODS)


def rows(pods: int) -> list[Row]:
    """Return the memory of this process after the first Pods and after that many, rounded up to a multiple of FIRST."""
    memory_use.return_large_blocks()
    with memory_use.rare_collections():  # as the service runs
        return objects.run_fast(_measure(pods))


async def _measure(pods: int) -> list[Row]:
    logs.setup(service="bench", level="warning")
    made = churn.Churn()
    after_bytes: list[int] = []
    began_s, cpu_s = time.monotonic(), time.process_time()
    async with made.running():
        while made.passed < pods:
            await made.pass_pods(FIRST)
            gc.collect()
            after_bytes.append(_process.memory_bytes(os.getpid(), "VmRSS"))
            print(
                f"{made.passed} Pods, {time.monotonic() - began_s:.0f} s: {after_bytes[-1] / 1e6:.1f} MB",
                file=sys.stderr,
                flush=True,
            )
    took_s, cpu_s = time.monotonic() - began_s, time.process_time() - cpu_s
    first, last = after_bytes[0], after_bytes[-1]
    return [
        (f"memory after {FIRST} Pods", first / 1e6, "MB", ""),
        (f"memory after {made.passed} Pods", last / 1e6, "MB", ""),
        (f"... in relation to {FIRST} Pods", last / first, "x", "at most 1.05"),
        ("... the most in between, in relation to these", max(after_bytes) / first, "x", ""),
        ("Pods passed in a second, by both schedulers and the API", made.passed / took_s, "/s", ""),
        ("CPU time per Pod, of both schedulers and the API", cpu_s / made.passed * 1e6, "us", ""),
    ]


def main() -> int:
    """Pass as many Pods as asked, print the table, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.churn", description="Memory after many Pods have passed.")
    parser.add_argument("--pods", type=int, default=PODS, help=f"how many (default: {PODS})")
    print(runner.table({"churn": rows(parser.parse_args().pods)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
