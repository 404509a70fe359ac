"""Start latency and back-off of a container, and its status after it ended. Pure, but for reading its files.

Source: kubernetes/pkg/kubelet/kuberuntime (convertToKubeContainerStatus, doBackOff).
"""

import contextlib
import math
import pathlib
import random

from carico_core.numerics import backoff
from carico_local.node.reporting import status
from carico_local.node.runtime import client as runtime
from carico_local.node.runtime import logs as container_logs

# kubelet: the first restart is immediate, then 10 s, doubling to 300 s; reset after 10 minutes of running.
BACKOFF_FIRST_S = 10.0
BACKOFF_MOST_S = 300.0
BACKOFF_RESET_S = 600.0
# https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/
MESSAGE_BYTES = 4096
MESSAGE_LOG_BYTES = 2048
# How long a container runtime takes to start a container: median 0.55 s, 90th percentile 0.98 s, drawn from the
# log-normal distribution through both. The same Pod gets the same latency in every run.
MEDIAN_S = 0.55
P90_S = 0.98
_NORMAL_P90 = 1.2815515655446004
_SIGMA = math.log(P90_S / MEDIAN_S) / _NORMAL_P90
# The tail is cut where a runtime would count as broken.
_MOST_S = 4.0
# From a container's exit until its sandbox is deleted and the status shows it.
EXIT_S = 0.12


def start_s(seed: str, *, factor: float) -> float:
    """Return seconds from the creation of a container to its start, times `factor`."""
    drawn = random.Random(seed).lognormvariate(math.log(MEDIAN_S), _SIGMA)
    return min(drawn, _MOST_S) * factor


def not_started(why: str, *, container_id: str, now_ns: int) -> status.Terminated:
    """Return the end of a container whose command could not be run."""
    return status.Terminated(
        exit_code=128, reason="StartError", started_ns=0, finished_ns=now_ns,
        message=f"unable to start container process: {why}", container_id=container_id,
    )  # fmt: skip


def of(ended: runtime.Exit, *, container_id: str, started_ns: int, message: str) -> status.Terminated:
    """Return the end of a container that ran."""
    return status.Terminated(
        exit_code=ended.code, reason=reason_of(ended), started_ns=started_ns, finished_ns=ended.finished_ns,
        signal=ended.signal, message=message, container_id=container_id,
    )  # fmt: skip


def message(file: pathlib.Path, log: pathlib.Path, *, log_instead: bool) -> str:
    """Return the termination message of a start; with `log_instead` and without a message, the end of its log."""
    with contextlib.suppress(OSError), container_logs.open_file(file) as content:
        if text := content.read(MESSAGE_BYTES).decode(errors="replace"):
            return text
    if log_instead:
        with contextlib.suppress(OSError):
            return container_logs.tail(log, limit_bytes=MESSAGE_LOG_BYTES)
    return ""


def reason_of(ended: runtime.Exit) -> str:
    """Return Completed, Error or OOMKilled."""
    if ended.oom_killed:
        return "OOMKilled"
    return "Completed" if ended.code == 0 else "Error"


def backoff_s(failures: int) -> float:
    """Return seconds before the restart that follows `failures` earlier ones; 0: at once.

    >>> [backoff_s(n) for n in (0, 1, 2, 3, 50)]
    [0.0, 10.0, 20.0, 40.0, 300.0]
    """
    if failures == 0:
        return 0.0
    return backoff.doubled_s(failures - 1, first_s=BACKOFF_FIRST_S, most_s=BACKOFF_MOST_S)
