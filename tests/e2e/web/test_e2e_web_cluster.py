"""`carico web` on a real local cluster: nodes, a job's Pods, the scheduler's answers, and the end of both."""

import asyncio
import pathlib
import re
import signal

import playwright.async_api as browsers
import pytest

from tests.e2e import carico_command

pytestmark = [pytest.mark.system, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]
expect = browsers.expect
WITHIN_MS = 90_000


async def test_a_cluster_on_the_page(page: browsers.Page, tmp_path: pathlib.Path) -> None:
    shell = carico_command.Shell(tmp_path)
    name = "webtest"
    try:
        code, _, err = await shell.run("up", "--name", name, "--nodes", "2")
        assert code == 0, err
        async with shell.running("web", "--name", name) as web:
            assert web.stdout is not None
            line = (await web.stdout.readline()).decode()
            assert line.endswith(f"the live page of cluster {name}; Ctrl-C ends it\n"), line
            url = line.split()[0]
            await page.goto(url)
            await expect(page.locator("#sum-nodes")).to_have_text("2", timeout=WITHIN_MS)
            code, _, err = await shell.run(
                "submit", "pi", "--pods", "4", "--seconds", "2", "--job", "hello", "--name", name
            )
            assert code == 0, err
            row = page.locator("#flow-list li", has_text="default/hello-0").locator('[class="where"]', has_text="node-")
            await expect(row.first).to_be_visible(timeout=WITHIN_MS)
            await page.locator("#flow-list button", has_text="default/hello-0").first.click()
            await expect(page.locator("#panel .asked b")).to_be_visible(timeout=WITHIN_MS)
            await page.goto(f"{url}/#node/node-1")
            await expect(page.locator("#panel .asked")).to_contain_text("free by its rules", timeout=WITHIN_MS)
            # Its Pods by name, each of which opens; also those that come later. A node takes two of a class that is not
            # measured yet, so two alone could both be on the other one.
            code, _, err = await shell.run("submit", "server", "--pods", "6", "--job", "stays", "--name", name)
            assert code == 0, err
            named = page.locator("#panel li button", has_text="app/default/server").filter(has_text="default/stays-")
            # What its agent measures, once it has reported.
            await expect(named.first).to_contain_text(re.compile(r"\d+m CPU, [\d.]+ [kM]B"), timeout=WITHIN_MS)
            await named.first.click(timeout=WITHIN_MS)
            await expect(page.locator("#panel")).to_contain_text("default/stays-", timeout=WITHIN_MS)
            await expect(page.locator("#panel")).to_contain_text(re.compile(r"It uses \d+m CPU, "), timeout=WITHIN_MS)
            await page.goto(f"{url}/#node/node-1")
            await expect(page.locator("#model-note")).to_contain_text("of 2 nodes", timeout=WITHIN_MS)
            second, _, said = await shell.run("web", "--name", name)
            assert (second, said) == (
                2, f"carico: the page's port is in use: is `carico web --name {name}` running already, at {url}?\n",
            )  # fmt: skip
            code, _, err = await shell.run("web", "--name", "nowhere")
            assert code == 2
            assert "no cluster named 'nowhere'" in err
            code, _, err = await shell.run("down", "--name", name)
            assert code == 0, err
            async with asyncio.timeout(WITHIN_MS / 1e3):
                line = (await web.stdout.readline()).decode()
            assert line == f"cluster {name} is gone: the page returns after `carico up --name {name}`; Ctrl-C ends it\n"
            await expect(page.get_by_role("alert")).to_contain_text("The bus does not answer", timeout=WITHIN_MS)
            web.send_signal(signal.SIGINT)
            assert await web.wait() == 0
            assert web.stderr is not None
            assert await web.stderr.read() == b""
    finally:
        await shell.run("down", "--name", name)
    assert shell.left(name) == []
    code, _, err = await shell.run("web", "--name", name)
    assert code == 2
