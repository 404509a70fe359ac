"""Every command of the tours runs against a live cluster and shows what the pages say it shows."""

import asyncio
import os
import pathlib
import re
import shlex
import sys
import time
from collections.abc import AsyncIterator, Mapping

import pytest
import pytest_asyncio

from carico_core.domain import errors
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import settings
from carico_local.binaries import tools
from tests.e2e import carico_command

DOCS = pathlib.Path(__file__).parents[3] / "docs"
PAGES = ("nats.md", "explain.md", "getting-started.md")
# As the pages name their cluster, and as it is named here: no cluster of a user is touched.
WRITTEN, NAME = "tour", "docs-tour"
# By the fixture, once for all pages.
AROUND = ("carico up", "carico down", "eval ")
# What is done once; other commands look.
DOING = ("carico submit", "context select", "printf")
WITHIN_S = 120.0
# What a command's output must hold, by a part of the command; the first part that fits counts.
EXPECTED: Mapping[str, tuple[str, ...]] = {
    "sub 'carico.v1.decision.>' --count 2 &": ('"pod":"live-', '"candidates":['),
    "carico submit": ("Pods created",),
    "context select": ("carico-docs-tour",),
    "sub 'carico.v1.capacity.>'": ('"capacity":', '"capacity_sd":', '"covers":['),
    "sub 'carico.v1.pods.>'": ('"pods":{', '"left_out":'),
    "sub carico.v1.summary": ('"nodes":{', '"oldest_s":'),
    "--stream CARICO_DECISIONS": ('"outcome":', '"candidates":['),
    "--translate 'carico decode'": ('"gram":{', '"contributors":'),
    "aggregator.model.get": ('"contributors":2', '"gram":'),
    "kv ls": ("carico_model",),
    "--raw | carico decode": ('"gram":{',),
    "kv get": ("carico_model > global revision",),
    "service ls": ("carico-aggregator", "carico-scheduler"),
    "service ping": ("carico-agent", "rtt="),
    "service info": ("decision-get", "carico.v1.query.scheduler.pod.explain"),
    "service stats": ("capacity-list", "capacity-fit", "waiting-list"),
    "service request": ('"nodes":[',),
    "scheduler.capacity.list": ('"node":"node-1"', '"freshness":'),
    "scheduler.reservations.list": ('"reservations":',),
    "scheduler.decision.get": ('"found":true', '"outcome":"bound"'),
    "scheduler.pod.explain": ('"state":"ended"', '"acted_on":{'),
    "scheduler.node.explain": ('"dimensions":[', '"reserved_by":['),
    "scheduler.waiting.list": ('"pods":', '"reasons":['),
    "scheduler.capacity.fit": ('"total":', '"stopped_by":{'),
    "agent.node-1.state.get": ('"estimator":"footprint"',),
    "agent.node-1.loads.get": ('"node":"node-1"', '"pods":{'),
    "aggregator.nodes.list": ('"node":"node-2"',),
    "stream ls": ("CARICO_CLAIMS", "CARICO_CAPACITY", "CARICO_SUBSPACES", "CARICO_DECISIONS", "CARICO_HISTORY"),
    "stream info": ("carico.v1.decision.*.*", "1d0h0m0s"),
    "stream subjects": ("carico.v1.capacity.node-1",),
    "stream view": ("Subject: carico.v1.capacity.node-", "Reached apparent end of data"),
    "stream get": ('"pod":"hello-0"', '"outcome":"bound"'),
    "nats latency": ("Median Latency",),
    "explain crowd-23": ("Pod default/crowd-23 ", "class app/default/pi"),
    "explain crowd-00": ("Pod default/crowd-00 ", "it used advertisement"),
    "explain job crowd": ("job crowd: 24 Pods", "waiting for a node", "TIMES ITS WORK"),
    "explain node node-1": ("DIMENSION", "kubelet's Pod limit", "(not measured yet)"),
    "capacity --like crowd-23": ("more fit, on", "node-1"),
    "capacity --class pi": ("Pod of class app/default/pi",),
    "capacity --file": ("node_selector: label disk=ssd wanted", "no node has measured its class"),
    "carico capacity --name": ("A typical Pod: ", "app/default/pi", "(not measured yet)"),
    "printf": (),
    "carico top --once": ("node-1", "DECISIONS"),
    "explain first-119": ("Pod default/first-119 ", "class app/default/pi"),
    "carico capacity": ("A typical Pod: ", "(not measured yet)"),
    "explain heavy-0": ("Pod default/heavy-0 ", "class app/default/train"),
    "carico status": ("scheduler", "node-1"),
    "carico logs": ("scheduler",),
}
# Without these, a page would not show what it is for.
LEAST = {"nats.md": 25, "explain.md": 8, "getting-started.md": 12}


def commands(page: str) -> list[str]:
    """The commands of a page, in order."""
    return re.findall(r"^\$ (.*)$", (DOCS / page).read_text(encoding="utf-8"), flags=re.MULTILINE)


def expected(command: str) -> tuple[str, ...]:
    """What its output must hold."""
    return next(texts for part, texts in EXPECTED.items() if part in command)


class Tour:
    """A live cluster, and a shell that knows it."""

    def __init__(self, directory: pathlib.Path, nats: pathlib.Path | None) -> None:
        self.directory = directory
        self.has_nats = nats is not None
        self.exports = ""
        self.shell = carico_command.Shell(directory)
        folders = [str(pathlib.Path(sys.executable).parent), *([] if nats is None else [str(nats.parent)])]
        self.environ = self.shell.environ | {
            "PATH": os.pathsep.join([*folders, self.shell.environ["PATH"]]),
            "XDG_CONFIG_HOME": str(directory / "config"),
        }
        self.shell.environ = self.environ

    async def run(self, command: str) -> tuple[int, str]:
        """The exit code and the output of a command of a page."""
        command = command.replace(f"--name {WRITTEN}", f"--name {NAME}").replace(f"carico-{WRITTEN}", f"carico-{NAME}")
        if command.startswith("carico ") and NAME not in command:
            # The page leaves its cluster's name at the default.
            command += f" --name {NAME}"
        if "stream view" in command:
            # It insists on a terminal.
            command = f"script -qec {shlex.quote(command)} /dev/null"
        process = await asyncio.create_subprocess_exec(
            "bash", "-c", f"{self.exports}\n{command}", cwd=self.directory, env=self.environ,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        async with asyncio.timeout(WITHIN_S):
            said, _ = await process.communicate()
        assert process.returncode is not None
        return process.returncode, said.decode()

    async def shown(self, command: str) -> tuple[str, list[str]]:
        """Return a command's output and the expected texts that it lacks, and how it ended where that was not well.

        A command that only reads is repeated: on a slow machine the data arrives late.
        """
        end_s = time.monotonic() + (0.0 if any(part in command for part in DOING) else WITHIN_S)
        while True:
            code, said = await self.run(command)
            missing = [text for text in expected(command) if text not in said]
            missing += [f"exit code 0: it is {code}"] if code else []
            if not missing or time.monotonic() > end_s:
                return said, missing
            await asyncio.sleep(carico_command.LOOK_EVERY_S)


def test_every_command_of_the_pages_has_an_expectation() -> None:
    for page in PAGES:
        found = [each for each in commands(page) if not each.startswith(AROUND)]
        assert len(found) >= LEAST[page], page
        for command in found:
            assert any(part in command for part in EXPECTED), command


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tour(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Tour]:
    try:
        found = await asyncio.to_thread(
            tools.obtain, ["nats"], environ=settings.environment(), clock=clocks.SystemClock(), report=lambda _: None
        )
        nats = found["nats"].path
    except errors.EnvironmentUnfit:
        nats = None
    made = Tour(tmp_path_factory.mktemp("tour"), nats)
    async with carico_command.cluster(made.shell, NAME, "--nodes", "2"):
        code, made.exports, err = await made.shell.run("env", "--name", NAME, "--nats-context")
        assert code == 0 and "nats context select carico-docs-tour" in made.exports, err
        yield made
    assert not list((made.directory / "config" / "nats" / "context").iterdir()), "carico down removes the context"


# The nats CLI's first build takes minutes on two cores.
@pytest.mark.timeout(900)
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("page", PAGES)
async def test_commands_of_the_docs_print_what_the_docs_show(tour: Tour, page: str) -> None:
    if page == "nats.md" and not tour.has_nats:
        pytest.skip("the nats CLI is not here and cannot be built")
    for command in commands(page):
        if not command.startswith(AROUND):
            said, missing = await tour.shown(command)
            assert not missing, f"{command} does not show {missing}\n{said}"
