"""The connections that a small server of ours has open: it ends them with itself."""

import asyncio
import contextlib
from collections.abc import Iterator


class Connections:
    """Those that are open now."""

    def __init__(self) -> None:
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    def __len__(self) -> int:
        return len(self._open)

    @contextlib.contextmanager
    def kept(self, writer: asyncio.StreamWriter) -> Iterator[None]:
        """One more for as long as the block runs, in the task that `asyncio.start_server` made for it; then closed."""
        task: asyncio.Task[None] | None = asyncio.current_task()
        assert task is not None
        self._open[task] = writer
        try:
            yield
        finally:
            del self._open[task]
            with contextlib.suppress(OSError):
                writer.close()

    async def end(self) -> None:
        """Nothing; all have ended: browsers and probes open some by which they ask nothing.

        `Server.wait_closed` would wait for them from Python 3.12 on: for as long as a request may take, and for ever
        where somebody that stands still does not take its answer. Cancelled, each would be a traceback in 3.11.
        """
        tasks = list(self._open)
        for writer in self._open.values():
            writer.transport.abort()
        await asyncio.gather(*tasks, return_exceptions=True)
