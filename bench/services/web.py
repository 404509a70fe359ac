"""The live page at 1,000 nodes: script time a frame in a real browser, and what a viewer costs the bus.

Script time is what the page's callbacks take (messages, timers, frames) between one frame of the screen and the next,
measured from outside: the callbacks are wrapped before the page's own code runs. On a machine that does much besides, a
callback's time includes that of other processes, and frames are fewer and longer; the mean of the thread's own CPU
time is then what can be trusted. Empty without Debian's Chromium.
"""

import asyncio
import pathlib
import tempfile
import time

import numpy as np
import playwright.async_api as browsers

from bench import _process
from carico_core.domain import errors
from tests.tools import chromium
from tests.tools.sites import web_site

Row = tuple[str, float, str, str]
NODES = 1000
WARM_S = 5.0
# In the page: each callback's time goes to the frame of the screen that follows it.
WATCH = """(() => {
  let spent = 0;
  const frames = [];
  const timed = (callback) => typeof callback !== "function" ? callback : function (...given) {
    const began = performance.now();
    try { return callback.apply(this, given); } finally { spent += performance.now() - began; }
  };
  const ask = requestAnimationFrame.bind(globalThis);
  for (const name of ["requestAnimationFrame", "setTimeout", "setInterval"]) {
    const own = globalThis[name].bind(globalThis);
    globalThis[name] = (callback, ...rest) => own(timed(callback), ...rest);
  }
  const slot = Object.getOwnPropertyDescriptor(WebSocket.prototype, "onmessage");
  Object.defineProperty(WebSocket.prototype, "onmessage", {
    ...slot, set(callback) { slot.set.call(this, timed(callback)); },
  });
  const frame = () => { frames.push(spent); spent = 0; ask(frame); };
  ask(frame);
  globalThis.benchFrames = frames;
})()"""

# The history is the last that arrives: the aggregator is asked for it.
SHOWN = """(nodes) => document.getElementById("sum-nodes").textContent === nodes
  && document.getElementById("history-card").textContent.includes("Pods wait for a node")"""


def run(quick: bool) -> list[Row]:
    """Percentiles of script time a frame, time to the whole picture, and the server's CPU time a viewer."""
    try:
        command = chromium.command()
    except errors.EnvironmentUnfit:
        return []
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_measure(pathlib.Path(folder), command, seconds=10.0 if quick else 60.0))


async def _measure(folder: pathlib.Path, command: pathlib.Path, *, seconds: float) -> list[Row]:
    async with (
        web_site.stage(folder, nodes=NODES, decisions_each_s=20.0) as stage,
        browsers.async_playwright() as driver,
    ):
        await asyncio.sleep(WARM_S)
        alone = await _server_cpu(stage.server.pid, seconds)
        browser = await driver.chromium.launch(executable_path=str(command), args=["--no-sandbox"])
        page = await browser.new_page(viewport={"width": 1440, "height": 900})
        await page.add_init_script(WATCH)
        began_s = time.monotonic()
        await page.goto(f"{stage.url}/#node/node-500")
        # Looked at in each frame: what a test expects is tried at ever longer intervals, up to a second.
        await page.wait_for_function(SHOWN, arg=f"{NODES:,}", timeout=60_000)
        shown_s = time.monotonic() - began_s
        await asyncio.sleep(WARM_S)
        await page.evaluate("benchFrames.length = 0")
        devtools = await page.context.new_cdp_session(page)
        await devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
        script_s = await _script_cpu_s(devtools)
        watched = await _server_cpu(stage.server.pid, seconds)
        script_s = await _script_cpu_s(devtools) - script_s
        frames = np.array(await page.evaluate("benchFrames"))
        await browser.close()
    return [
        (f"script time a frame at {NODES} nodes, p50", float(np.percentile(frames, 50)), "ms", ""),
        (f"script time a frame at {NODES} nodes, p95", float(np.percentile(frames, 95)), "ms", "at most 8"),
        (f"script time a frame at {NODES} nodes, p99", float(np.percentile(frames, 99)), "ms", ""),
        ("script's CPU time a frame of 1/60 s, mean", 1e3 * script_s / seconds / 60, "ms", "at most 8"),
        ("frames of the screen a second", len(frames) / seconds, "1/s", ""),
        ("page opened to all nodes and the history shown", shown_s, "s", "at most 2"),
        (f"NATS server without a viewer, {NODES} nodes", 100 * alone, "% of a core", ""),
        ("NATS server's cost of a viewer", 100 * max(0.0, watched - alone), "% of a core", "at most 2"),
    ]


async def _script_cpu_s(devtools: browsers.CDPSession) -> float:
    """CPU seconds of the page's main thread in scripts so far."""
    said = await devtools.send("Performance.getMetrics")
    return next(float(each["value"]) for each in said["metrics"] if each["name"] == "ScriptDuration")


async def _server_cpu(pid: int, seconds: float) -> float:
    """CPU seconds a second of a process."""
    began, began_s = _process.cpu_s(pid), time.monotonic()
    await asyncio.sleep(seconds)
    return (_process.cpu_s(pid) - began) / (time.monotonic() - began_s)
