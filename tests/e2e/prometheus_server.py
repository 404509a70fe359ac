"""A Prometheus of the tests' own, on 127.0.0.1: Debian's, unpacked and installed nowhere."""

import asyncio
import contextlib
import json
import pathlib
import socket
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator
from typing import Any

from tests.tools import debian, observe

START_WITHIN_S = 60.0
STOP_WITHIN_S = 20.0


class Server:
    """A running Prometheus."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    async def get(self, path: str, **parameters: str | int) -> Any:
        """The data of an answer of its API. Raises `OSError` where it does not answer, or refuses."""
        return await asyncio.to_thread(self._get, f"{self._url}{path}?{urllib.parse.urlencode(parameters)}")

    async def query(self, promql: str) -> list[tuple[dict[str, str], float]]:
        """(labels, value) of each series of an instant query."""
        found = await self.get("/api/v1/query", query=promql)
        return [(each["metric"], float(each["value"][1])) for each in found["result"]]

    async def firing(self) -> set[str]:
        """The names of the alerts that fire."""
        found = await self.get("/api/v1/alerts")
        return {each["labels"]["alertname"] for each in found["alerts"] if each["state"] == "firing"}

    async def until_ready(self) -> None:
        """Returns once it answers."""
        async with asyncio.timeout(START_WITHIN_S):
            while True:
                with contextlib.suppress(OSError):
                    await self.query("vector(1)")
                    return
                await asyncio.sleep(0.1)

    def _get(self, url: str) -> Any:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]


@contextlib.asynccontextmanager
async def running(config: pathlib.Path, data: pathlib.Path, *flags: str) -> AsyncIterator[Server]:
    """A Prometheus with this configuration, ended when it is left."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with (data.parent / "prometheus.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            debian.unpacked(observe.PROMETHEUS)["prometheus"], f"--config.file={config}", f"--storage.tsdb.path={data}",
            f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn", *flags,
            stdout=log, stderr=log,
        )  # fmt: skip
        try:
            server = Server(port)
            await server.until_ready()
            yield server
        finally:
            process.terminate()
            try:
                async with asyncio.timeout(STOP_WITHIN_S):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
