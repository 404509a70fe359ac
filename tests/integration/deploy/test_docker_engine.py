"""The tests' own Docker engine: what a killed run left behind is no hindrance to the next."""

import io
import os
import pathlib
import signal
import tarfile

import pytest

from carico_core.domain import errors
from tests.tools import debian
from tests.tools.docker import docker_engine

# The first run fetches the packages.
pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

LEFT = "carico-tests-left"


def test_containers_of_a_killed_run_are_gone_with_the_next_engine() -> None:
    why_not = debian.allowed()
    if why_not is not None:
        pytest.skip(why_not)
    try:
        with docker_engine.running() as first:
            first.engine.run("import", "-", f"{LEFT}:1", given=_empty_tree())
            first.engine.run("create", "--name", LEFT, f"{LEFT}:1", "/nothing")
            first.engine.run("network", "create", LEFT)
            first.engine.run("volume", "create", LEFT)
            # What the kernel does to a run that is killed: the engine goes, and cleans up nothing.
            os.kill(_engine_pid(first), signal.SIGKILL)
    except errors.EnvironmentUnfit as error:
        pytest.skip(f"not available here: {error}")
    with docker_engine.running() as second:
        assert LEFT not in second.engine.run("ps", "--all", "--format", "{{.Names}}")
        assert LEFT not in second.engine.run("network", "ls", "--format", "{{.Name}}")
        assert second.engine.run("volume", "ls", "--quiet") == ""
        second.engine.run("image", "rm", f"{LEFT}:1")
    assert "docker-engine/data" not in pathlib.Path("/proc/self/mounts").read_text()


def _engine_pid(running: docker_engine.Running) -> int:
    socket = pathlib.Path(running.environ["DOCKER_HOST"].removeprefix("unix://"))
    return int(socket.with_name("dockerd.pid").read_text())


def _empty_tree() -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w"):
        pass
    return archive.getvalue()
