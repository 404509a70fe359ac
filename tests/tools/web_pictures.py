"""Pictures of the live page for docs/web.md: `python -m tests.tools.web_pictures URL|stage FOLDER`.

URL is where `carico web` says that it serves the page, beside a cluster that runs a job; `stage` is a thousand nodes of
words. Look at what it has made before it is committed.
"""

import asyncio
import pathlib
import sys
import tempfile

import playwright.async_api as browsers

from tests.tools import chromium, web_site

NODES = 1000
# History to show.
LIVE_S = 75.0
SIZES = {"dark": (1360, 900), "light": (1360, 900), "phone": (390, 844)}


async def take(url: str, folder: pathlib.Path, names: dict[str, tuple[str, str]]) -> None:
    """Writes the pictures: file name -> (kind of screen, what is opened)."""
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
        await asyncio.sleep(LIVE_S)
        for name, page in pages.items():
            # What is drawn is drawn for a page that is looked at.
            await page.bring_to_front()
            await asyncio.sleep(2.0)
            await page.screenshot(path=folder / name, full_page=True)
        await browser.close()


async def _main(where: str, folder: pathlib.Path) -> None:
    if where != "stage":
        names = {
            "web-dark.png": ("dark", ""),
            "web-light.png": ("light", "#node/node-2"),
            "web-phone.png": ("phone", ""),
        }
        await take(where, folder, names)
        return
    with tempfile.TemporaryDirectory() as made:
        async with web_site.stage(pathlib.Path(made), nodes=NODES, decisions_each_s=12.0) as stage:
            await take(stage.url, folder, {"web-thousand.png": ("dark", "#node/node-377")})


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], pathlib.Path(sys.argv[2])))
