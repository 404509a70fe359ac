"""A browser and a stage for all tests of a file.

They end with it: their loop stands still while other tests run, and a bus gives up a client that says nothing.
"""

import pathlib
from collections.abc import AsyncIterator

import playwright.async_api as browsers
import pytest
import pytest_asyncio

from carico_core.domain import errors
from tests.tools import chromium, debian
from tests.tools.sites import web_site

NODES = 60
# The page may be slow to start, and to draw, on a loaded machine.
WITHIN_MS = 60_000
browsers.expect.set_options(timeout=WITHIN_MS)


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def browser() -> AsyncIterator[browsers.Browser]:
    """Debian's Chromium."""
    if why := debian.allowed():
        pytest.skip(why)
    try:
        command = chromium.command()
    except errors.EnvironmentUnfit as error:
        pytest.skip(str(error))
    async with browsers.async_playwright() as driver:
        # Root has no sandbox; nothing is opened but our own page.
        found = await driver.chromium.launch(executable_path=str(command), args=["--no-sandbox"])
        yield found
        await found.close()


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[web_site.Stage]:
    """A simulated fleet, and the page's server."""
    folder: pathlib.Path = tmp_path_factory.mktemp("stage")
    async with web_site.stage(folder, nodes=NODES) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="session")
async def page(browser: browsers.Browser) -> AsyncIterator[browsers.Page]:
    """A new page, in which no script may fail."""
    context = await browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="dark")
    context.set_default_timeout(WITHIN_MS)
    found = await context.new_page()
    failed: list[str] = []
    found.on("pageerror", lambda error: failed.append(str(error)))
    yield found
    await context.close()
    assert failed == []
