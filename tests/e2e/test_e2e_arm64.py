"""arm64: what the images contain exists for it, by the same hashes, and runs; emulated, as CI has amd64 only."""

import asyncio
import contextlib
import pathlib
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import IO

import nats
import pytest

from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_local.cluster import free_ports, processes
from tests.e2e import arm64_site
from tests.tools import debian
from tests.tools.docker import images

pytestmark = [
    pytest.mark.upstream,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(debian.allowed() is not None, reason=str(debian.allowed())),
]
COMMANDS = [member.replace("services/", "carico-") for member in images.MEMBERS if member.startswith("services/")]
NODE = "node-arm64"
# Emulation takes 20 s for what takes one second here.
WITHIN_S = 240.0


@pytest.fixture(scope="module")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> arm64_site.Emulated:
    """The contents of the images for arm64."""
    return arm64_site.made(tmp_path_factory.mktemp("arm64"))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_service_starts(emulated: arm64_site.Emulated, command: str) -> None:
    script = (
        "import importlib.metadata, platform, sys; print(platform.machine()); sys.argv = ['x', '--help']; "
        f"importlib.metadata.entry_points(group='console_scripts')['{command}'].load()()"
    )
    done = subprocess.run(
        emulated.python("-c", script), env=dict(emulated.environ), capture_output=True, text=True, check=False,
        timeout=WITHIN_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("aarch64\nusage: ")


async def test_an_agent_advertises_over_nats(emulated: arm64_site.Emulated, tmp_path: pathlib.Path) -> None:
    port = free_ports.choose_one()
    url = f"nats://127.0.0.1:{port}"
    server = emulated.nats_server("-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(tmp_path))
    agent = emulated.python("-m", "carico_agent")
    environ = {
        **emulated.environ,
        "CARICO_AGENT_NODE": NODE,
        "CARICO_BUS_URL": url,
        "CARICO_AGENT_POD_EVENTS": "cgroup",
    }
    with (tmp_path / "log").open("wb") as log, _running(server, log), _running(agent, log, environ):
        message = await _first(url, subjects.capacity(NODE))
    advertised = wire.decode_advertisement(message, subject=subjects.capacity(NODE))
    assert advertised.node == NODE
    assert "cpu" in advertised.baseline


@contextlib.contextmanager
def _running(command: Sequence[str], log: IO[bytes], environ: Mapping[str, str] | None = None) -> Iterator[None]:
    with subprocess.Popen(
        command, env=None if environ is None else dict(environ), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        preexec_fn=processes.end_with_parent(),
    ) as process:  # fmt: skip
        try:
            yield
        finally:
            process.terminate()


async def _first(url: str, subject: str) -> bytes:
    """The first message on a subject, of a server that is about to start."""
    async with asyncio.timeout(WITHIN_S):
        client = await nats.connect(url, max_reconnect_attempts=-1, reconnect_time_wait=0.5, error_cb=_ignored)
        try:
            subscription = await client.subscribe(subject)
            message = await subscription.next_msg(timeout=WITHIN_S)
            return bytes(message.data)
        finally:
            await client.close()


async def _ignored(_: Exception) -> None:
    """Not listening yet."""
