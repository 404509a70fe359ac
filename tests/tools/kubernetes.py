"""Programs of Kubernetes for tests: found on this machine, else built once (about 6 minutes on 2 cores)."""

import pathlib
import subprocess
import sys

import pytest

from carico_core.domain import errors
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import settings
from carico_local.binaries import cache, tools
from carico_local.control_plane import standalone

# For a first build of everything on a machine half as fast.
BUILD_TIMEOUT_S = 1800
# Variables of Go programs that end at once: without collecting garbage they need a quarter less CPU time.
BRIEF = {"GOGC": "off"}
# A server's memory is let grow to five times what is in use: a tenth less CPU time.
LASTING = {"GOGC": "400"}


def programs(*names: str) -> dict[str, tools.Found]:
    """Return the programs by name; skip the test where they can neither be found nor built."""
    try:
        return tools.obtain(names, environ=settings.environment(), clock=clocks.SystemClock(), report=_print)
    except errors.EnvironmentUnfit as error:
        pytest.skip(f"not available here: {error}")


def control_plane_programs() -> dict[str, tools.Found]:
    """Return the control plane's programs, kwok and kubectl; one call, so that they are built together."""
    return programs(*standalone.ALL, "kubectl")


def kubectl(*arguments: str, given: str | None = None, kubeconfig: pathlib.Path | None = None) -> str:
    """Run kubectl with `given` as its input, and return its output. Fails where kubectl does."""
    path = programs("kubectl")["kubectl"].path
    environ = {**settings.environment(), **BRIEF, **({} if kubeconfig is None else {"KUBECONFIG": str(kubeconfig)})}
    done = subprocess.run([path, *arguments], env=environ, input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _print(line: cache.Progress) -> None:
    # The build takes minutes: show why at once, on the real stderr.
    if not line.passing and line.text.startswith(("building", "built", "waiting")):
        print(f"\n{line.text}", file=sys.__stderr__, flush=True)
