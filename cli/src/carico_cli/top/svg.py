"""The screen as a picture, for a page or a report: drawn as on a terminal of that size, without one."""

import re

from carico_cli.live import reader as readers
from carico_cli.top import screen
from carico_core.runtime import clock as clocks

SIZE = (100, 30)
# Answers about a node, and the next picture, are there by then.
SETTLE_S = 1.5
EVERY_S = 0.5


async def draw(reader: readers.Reader, *, name: str, clock: clocks.Clock, node: str | None) -> str:
    """SVG of the cluster, or of one node."""
    top = screen.Top(reader, name=name, clock=clock, every_s=EVERY_S, node=node)
    async with top.run_test(size=SIZE) as keys:
        await keys.pause(SETTLE_S)
        found = top.export_screenshot(title=f"carico top --name {name}" + (f" --node {node}" if node else ""))
    # The font is loaded from the web; a picture that is kept loads nothing.
    return re.sub(r"@font-face \{.*?\}", "", found, flags=re.DOTALL).replace("Fira Code", "ui-monospace")
