"""A question that everybody who hears it answers, such as those of NATS's services framework."""

import asyncio
import contextlib

from nats.aio.client import Client
from nats.aio.msg import Msg

# What a server says where nobody listens: https://docs.nats.io/nats-concepts/core-nats/reqreply
_NOBODY = "503"


async def ask_all(client: Client, subject: str, *, within_s: float) -> list[tuple[float, bytes]]:
    """(seconds until it came, payload) of each answer that comes in time; none where nobody listens."""
    loop = asyncio.get_running_loop()
    found: list[tuple[float, bytes]] = []
    nobody = asyncio.Event()

    async def on_answer(message: Msg) -> None:
        if not message.data and (message.headers or {}).get("Status") == _NOBODY:
            nobody.set()
        else:
            found.append((loop.time() - asked_s, bytes(message.data)))

    inbox = client.new_inbox()
    listening = await client.subscribe(inbox, cb=on_answer)
    asked_s = loop.time()
    try:
        await client.publish(subject, b"", reply=inbox)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await nobody.wait()
    finally:
        await listening.unsubscribe()
    return found
