"""Make the pictures and transcripts of the docs again: `make pictures`, on an otherwise idle machine (about 8 minutes).

It runs `carico demo`, then a cluster with the jobs of docs/getting-started.md, whose commands it repeats at the same
moments, and at last a page with a thousand nodes whose messages one process sends. Look at the result before a commit.
"""

import asyncio
import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence

import playwright.async_api as browsers

from tests.tools import chromium
from tests.tools.sites import web_site

DOCS = pathlib.Path(__file__).parents[3] / "docs"
PICTURES = DOCS / "pictures"
PAGE = DOCS / "getting-started.md"
# Its transcript is of the same cluster, once the jobs of the other page have been measured.
RECOMMENDATIONS = DOCS / "recommendations.md"
# Seconds before a command, for the cluster to be where the page says it is.
PAUSES_S = {"carico explain node": 2.0, "carico explain first-119": 8.0, "carico recommend": 20.0}
# What changes the cluster; of other commands only those with output on the page are run.
CHANGES = ("carico up", "carico submit")
# Runnable tasks per CPU above which a node's telemetry would show this machine's other work.
IDLE_LOAD = 0.25
NODES = 1000
# History for the page to show.
LIVE_S = 60.0
SIZES = {"dark": (1360, 900), "light": (1360, 900), "phone": (390, 844)}
WEB = {"web-dark.png": ("dark", ""), "web-light.png": ("light", "#node/node-2"), "web-phone.png": ("phone", "")}


def main() -> int:
    """Return the exit code: 2 where the machine is busy or the docs cannot be written."""
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    if load > IDLE_LOAD:
        print(f"this machine is busy: {load:.2f} tasks per CPU, expected at most {IDLE_LOAD}; wait until it is idle")
        return 2
    with tempfile.TemporaryDirectory(prefix="carico-pictures-") as made:
        folder = pathlib.Path(made)
        shell = _Shell(folder)
        # The report shows the command: without a path of this machine.
        shell.run(f"cd {folder} && carico demo --out report --snapshot demo.svg")
        shutil.copy(folder / "demo.svg", PICTURES)
        try:
            for page in (PAGE, RECOMMENDATIONS):
                text = page.read_text(encoding="utf-8")
                page.write_text(rewritten(text, _outputs(shell, text)), encoding="utf-8")
            _web_of_cluster(shell)
        finally:
            shell.run("carico down")
        asyncio.run(_take((folder / "report" / "report.html").as_uri(), {"report.png": ("light", "")}, live_s=0.0))
        asyncio.run(_web_of_thousand_nodes(folder))
    return 0


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """Yield each command of a page's console blocks with the output that follows it.

    >>> list(blocks("```console\\n$ a b\\none\\ntwo\\n$ c\\n```\\n"))
    [('a b', 'one\\ntwo\\n'), ('c', '')]
    """
    for block in re.findall(r"^```console\n(.*?)^```$", text, flags=re.M | re.S):
        yield from re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, flags=re.M)


def rewritten(text: str, outputs: Sequence[str]) -> str:
    """Return the page with these outputs, one for each command in order.

    >>> rewritten("```console\\n$ a b\\none\\n$ c\\n```\\n", ["two\\n", ""])
    '```console\\n$ a b\\ntwo\\n$ c\\n```\\n'
    """
    done = 0
    for (command, before), output in zip(blocks(text), outputs, strict=True):
        place = text.index(f"$ {command}\n{before}", done) + len(f"$ {command}\n")
        text = text[:place] + output + text[place + len(before) :]
        done = place + len(output)
    return text


class _Shell:
    """Runs the commands of a page, with state of its own."""

    def __init__(self, folder: pathlib.Path) -> None:
        path = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        changed = {"PATH": path, "XDG_STATE_HOME": str(folder / "state"), "COLUMNS": "80"}
        self.environ = {**os.environ, **changed}
        for name in ("NATS_URL", "KUBECONFIG", "CARICO_CLUSTER"):
            self.environ.pop(name, None)

    def run(self, command: str) -> str:
        """Run to the end and return what it printed. Raises `CalledProcessError`."""
        print(f"$ {command}", flush=True)
        done = subprocess.run(
            ["bash", "-c", command], env=self.environ, stdout=subprocess.PIPE, stderr=sys.stderr, text=True, check=True
        )
        return done.stdout

    @contextlib.contextmanager
    def first_word(self, command: str) -> Iterator[str]:
        """Run for as long as the block, and yield the first word that it prints."""
        with subprocess.Popen(command.split(), env=self.environ, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                yield process.stdout.readline().split()[0]
            finally:
                process.terminate()


def _outputs(shell: _Shell, text: str) -> list[str]:
    found = []
    for command, shown in blocks(text):
        if not shown and not command.startswith(CHANGES):
            found.append("")
            continue
        time.sleep(next((pause_s for part, pause_s in PAUSES_S.items() if command.startswith(part)), 0.0))
        output = "\n".join(line.rstrip() for line in shell.run(command).splitlines())
        found.append(f"{output}\n" if shown else "")
        if command.startswith("carico explain first"):
            shell.run(f"carico top --once --svg {PICTURES / 'top.svg'}")
            shell.run(f"carico top --once --node node-1 --svg {PICTURES / 'top-node.svg'}")
    return found


def _web_of_cluster(shell: _Shell) -> None:
    shell.run("carico submit pi --pods 200 --seconds 6 --job page")
    with shell.first_word("carico web") as url:
        asyncio.run(_take(url, WEB))


async def _web_of_thousand_nodes(folder: pathlib.Path) -> None:
    async with web_site.stage(folder, nodes=NODES, decisions_each_s=12.0) as stage:
        await _take(stage.url, {"web-thousand.png": ("dark", "#node/node-377")})


async def _take(url: str, names: Mapping[str, tuple[str, str]], *, live_s: float = LIVE_S) -> None:
    """Write pictures of the page: file name -> (kind of screen, what is opened)."""
    async with browsers.async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=str(chromium.command()), args=["--no-sandbox"])
        pages = {}
        for name, (kind, fragment) in names.items():
            width, height = SIZES[kind]
            context = await browser.new_context(
                viewport={"width": width, "height": height}, color_scheme="light" if kind == "light" else "dark",
                device_scale_factor=1 if kind != "phone" else 2,
            )  # fmt: skip
            pages[name] = await context.new_page()
            await pages[name].goto(url + fragment)
        await asyncio.sleep(live_s)
        for name, page in pages.items():
            # The page draws only while it is visible.
            await page.bring_to_front()
            await asyncio.sleep(2.0)
            await page.screenshot(path=PICTURES / name, full_page=True)
        await browser.close()


if __name__ == "__main__":
    sys.exit(main())
