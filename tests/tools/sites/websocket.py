"""A browser's way to the bus: NATS' protocol over a WebSocket."""

import json
from collections.abc import Awaitable, Callable

import aiohttp

from tests.tools import waiting

# Returns the fields of CONNECT that identify the page, from the server's nonce.
Identify = Callable[[str], Awaitable[dict[str, str]]]


async def anyone(_: str) -> dict[str, str]:
    """Identify as no one."""
    return {}


async def greeting(url: str, *, origin: str, identify: Identify) -> str:
    """Return what the server answers to CONNECT and PING: PONG, or -ERR with a reason."""
    async with aiohttp.ClientSession() as client, client.ws_connect(url, origin=origin) as bus:
        info = (await bus.receive_bytes(timeout=waiting.WAIT_S)).removeprefix(b"INFO ")
        stated = {"verbose": False, "pedantic": False, **await identify(json.loads(info).get("nonce", ""))}
        await bus.send_bytes(b"CONNECT " + json.dumps(stated).encode() + b"\r\nPING\r\n")
        said = await bus.receive_bytes(timeout=waiting.WAIT_S)
        return said.decode().strip()
