"""Memory of a leader and a standby after a million Pods have passed through them, against the first 10^4.

Two whole schedulers on the in-memory API and bus in this process, without kubelets, in virtual time; the API keeps no
Pod that was removed. `python -m bench churn` takes about half an hour of CPU time; `--quick` takes 60,000 Pods.
"""

import gc
import os
import sys
import time

from bench import _process
from carico_core.runtime.observe import logs
from tests.chaos import churn
from tests.unit.scheduler import objects

Row = tuple[str, float, str, str]
PODS, PODS_QUICK = 1_000_000, 60_000
FIRST = 10_000
# The leader remembers so many decisions (`REMEMBERED_MAX`): from here on every bounded cache is full.
FULL = 30_000


def run(quick: bool) -> list[Row]:
    """Return the memory of this process after the first Pods, with full caches, and after the last."""
    return objects.run_fast(_measure(PODS_QUICK if quick else PODS))


async def _measure(pods: int) -> list[Row]:
    logs.setup(service="bench", level="warning")
    made = churn.Churn()
    after_bytes: dict[int, int] = {}
    began_s = time.process_time()
    async with made.running():
        while made.passed < pods:
            await made.pass_pods(FIRST)
            gc.collect()
            after_bytes[made.passed] = _process.memory_bytes(os.getpid(), "VmRSS")
            if made.passed in (FIRST, FULL) or made.passed % (10 * FIRST) == 0:
                print(f"{made.passed} Pods: {after_bytes[made.passed] / 1e6:.1f} MB", file=sys.stderr, flush=True)
    each_us = (time.process_time() - began_s) / pods * 1e6
    first, full, last = after_bytes[FIRST], after_bytes[FULL], after_bytes[pods]
    return [
        (f"memory after {FIRST} Pods", first / 1e6, "MB", ""),
        (f"memory after {FULL} Pods, when every bounded cache is full", full / 1e6, "MB", ""),
        (f"memory after {pods} Pods", last / 1e6, "MB", ""),
        (f"... in relation to {FIRST} Pods", last / first, "x", ""),
        (f"... in relation to {FULL} Pods", last / full, "x", "at most 1.05"),
        ("CPU time per Pod, of both schedulers and the API", each_us, "us", ""),
    ]
