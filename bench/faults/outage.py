"""A full minute without NATS, and one without the API, in the midst of a job: what became of its Pods.

Tests freeze these for 12 s; this is the whole minute that the services are held to. The frozen process keeps its
connections, which is harder than one that is gone: no client is notified.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from typing import Any

from carico_local.api import access
from carico_local.cluster import folders, state

Row = tuple[str, float, str, str]
OUTAGE_S = 60.0
OUTAGE_QUICK_S = 12.0
# Long enough that many are still to be placed when the outage is over.
PODS = 48
PODS_QUICK = 40
SECONDS = 5
FROZEN_AFTER_S = 8.0
JOB_TIMEOUT_S = 600.0


def run(quick: bool) -> list[Row]:
    """What became of the Pods of a job during whose work NATS, and then in another the API, was frozen."""
    rows: list[Row] = []
    for service in ("nats", "api"):
        with tempfile.TemporaryDirectory() as folder:
            rows += _outage(pathlib.Path(folder), service, quick=quick)
    return rows


def _outage(folder: pathlib.Path, service: str, *, quick: bool) -> list[Row]:
    name, outage_s, pods = f"bench-{service}", OUTAGE_QUICK_S if quick else OUTAGE_S, PODS_QUICK if quick else PODS
    environ = {**os.environ, "XDG_STATE_HOME": str(folder)}
    paths = folders.Paths(folder / "carico" / name)
    _carico(environ, "up", "--name", name)
    try:
        words = ("submit", "pi", "--name", name, "--pods", str(pods), "--seconds", str(SECONDS), "--job", "j")
        _carico(environ, *words)
        time.sleep(FROZEN_AFTER_S)
        nodes_of: dict[str, set[str]] = {}
        _freeze(paths, service, outage_s, nodes_of)
        over = time.monotonic()
        while (left := _look(paths, nodes_of)) and time.monotonic() - over < JOB_TIMEOUT_S:
            time.sleep(0.2)
        return _rows(paths, service, nodes_of, pods=pods, left=left, after_s=time.monotonic() - over)
    finally:
        _carico(environ, "down", "--name", name)


def _freeze(paths: folders.Paths, service: str, outage_s: float, nodes_of: dict[str, set[str]]) -> None:
    found = _state(paths)
    (victim,) = [each for each in found.services if each.name == service]
    assert victim.process is not None
    _look(paths, nodes_of)
    os.kill(victim.process.pid, signal.SIGSTOP)
    try:
        until = time.monotonic() + outage_s
        while time.monotonic() < until:
            if service != "api":
                _look(paths, nodes_of)
            time.sleep(0.2)
    finally:
        os.kill(victim.process.pid, signal.SIGCONT)


def _rows(
    paths: folders.Paths, service: str, nodes_of: dict[str, set[str]], *, pods: int, left: int, after_s: float
) -> list[Row]:  # fmt: skip
    ended = [pod["status"]["phase"] for pod in _pods(paths)]
    services = _state(paths).services
    return [
        (f"{service}: Pods of the job at the API", float(len(nodes_of)), f"of {pods}", f"at least {pods}"),
        (f"{service}: Pods that succeeded", float(ended.count("Succeeded")), f"of {pods}", f"at least {pods}"),
        (
            f"{service}: Pods seen on two nodes",
            float(sum(len(each) > 1 for each in nodes_of.values())),
            "",
            "at most 0",
        ),
        (f"{service}: Pods that had not ended", float(left), "", "at most 0"),
        (f"{service}: restarts of services", float(sum(each.restarts for each in services)), "", "at most 0"),
        (f"{service}: restarts of containers", float(_restarts(paths)), "", "at most 0"),
        (f"{service}: end of the outage to end of the job", after_s, "s", ""),
    ]


def _look(paths: folders.Paths, nodes_of: dict[str, set[str]]) -> int:
    """How many Pods have not ended; where each was seen is noted by its UID."""
    left = 0
    for pod in _pods(paths):
        seen = nodes_of.setdefault(pod["metadata"]["uid"], set())
        if "nodeName" in pod["spec"]:
            seen.add(pod["spec"]["nodeName"])
        left += pod["status"]["phase"] not in ("Succeeded", "Failed")
    return left


def _restarts(paths: folders.Paths) -> int:
    return sum(each["restartCount"] for pod in _pods(paths) for each in pod["status"].get("containerStatuses", ()))


def _pods(paths: folders.Paths) -> list[dict[str, Any]]:
    token = access.obtain_token(paths.data / "api" / "token")
    asked = urllib.request.Request(
        f"{_state(paths).api_url}/api/v1/pods", headers={"Authorization": f"Bearer {token}"}
    )  # fmt: skip
    with urllib.request.urlopen(asked, timeout=10.0) as answer:
        items: list[dict[str, Any]] = json.load(answer)["items"]
    return items


def _state(paths: folders.Paths) -> state.ClusterState:
    found = state.read(paths)
    assert found is not None, "a cluster that is up has written its state"
    return found


def _carico(environ: dict[str, str], *words: str) -> None:
    done = subprocess.run([sys.executable, "-m", "carico_cli", *words], env=environ, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"carico {' '.join(words)}: {done.stdout}{done.stderr}")
