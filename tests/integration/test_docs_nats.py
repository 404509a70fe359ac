"""Every nats command of docs/nats.md runs against a live cluster and shows what the page says it shows."""

import asyncio
import pathlib
import shlex

import pytest

from carico_core.domain import errors
from carico_core.runtime import clock as clocks
from carico_core.runtime import settings
from carico_local.binaries import tools
from tests.e2e import carico_command

PAGE = pathlib.Path(__file__).parents[2] / "docs/nats.md"
# What a command's output must hold, by a word of the command.
EXPECTED = {
    "sub 'carico.v1.capacity.>'": ('"capacity":', '"capacity_sd":', '"covers":['),
    "service ls": ("carico-agent", "carico-aggregator", "carico-scheduler"),
    "service ping": ("carico-agent", "rtt="),
    "service info": ("decision-get", "carico.v1.query.scheduler.decision.get"),
    "service stats": ("capacity-list",),
    "scheduler.capacity.list": ('"node":"node-1"', '"freshness":"fresh"'),
    "scheduler.reservations.list": ('"reservations":',),
    "scheduler.decision.get": ('"found":true', '"outcome":"bound"'),
    "agent.node-1.state.get": ('"estimator":"footprint"',),
    "aggregator.nodes.list": ('"node":"node-2"',),
    "aggregator.model.get": ('"contributors":2', '"gram":'),
    "stream ls": ("CARICO_CAPACITY", "CARICO_SUBSPACES", "CARICO_DECISIONS"),
    "stream subjects": ("carico.v1.capacity.node-1",),
    "kv ls": ("carico_model",),
    "carico.v1.decision.>": ('"outcome":"bound"', '"candidates":['),
}


def commands() -> list[str]:
    """The nats commands of the page."""
    return [line[2:] for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("$ nats ")]


def test_every_command_of_the_page_has_an_expectation() -> None:
    assert len(commands()) >= 15
    for command in commands():
        assert any(word in command for word in EXPECTED), command


# The CLI's first build takes minutes on two cores.
@pytest.mark.timeout(900)
async def test_the_pages_commands_show_live_signals(tmp_path: pathlib.Path) -> None:
    try:
        environ = settings.environment()
        found = await asyncio.to_thread(
            tools.obtain, ["nats"], environ=environ, clock=clocks.SystemClock(), tell=lambda _: None
        )
    except errors.EnvironmentUnfit as error:
        pytest.skip(f"the nats CLI cannot be built here: {error}")
    nats = shlex.quote(str(found["nats"].path))
    shell = carico_command.Shell(tmp_path)
    async with carico_command.cluster(shell, "docs-nats", "--nodes", "2"):
        job = ("submit", "pi", "--name", "docs-nats", "--pods", "4", "--seconds", "0.5", "--job", "hello", "--wait")
        code, out, err = await shell.run(*job)
        assert code == 0, out + err
        _, exports, _ = await shell.run("env", "--name", "docs-nats")
        for command in commands():
            words = shlex.join(shlex.split(command)[1:])
            process = await asyncio.create_subprocess_shell(
                f"{exports}\n{nats} {words}",
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, env=shell.environ,
            )  # fmt: skip
            async with asyncio.timeout(30):
                said, _ = await process.communicate()
            assert process.returncode == 0, f"{command}\n{said.decode()}"
            for word, expected in EXPECTED.items():
                if word in command:
                    for text in expected:
                        assert text in said.decode(), f"{command} shows no {text}\n{said.decode()}"
