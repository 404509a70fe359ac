"""Renewing a connection before its token expires, with a client that lets everybody in."""

import asyncio
import base64
import contextlib
import pathlib
import random
from typing import Any

import pytest

from carico_core.runtime.bus.security import renewal as bus_renewal
from carico_core.runtime.bus.security import token_expiry
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock
from tests.tools import waiting


class Client:
    """A connection."""

    is_connected = True

    def __init__(self) -> None:
        self.made_anew = 0

    async def connect(self, **_: Any) -> None:
        return

    async def close(self) -> None:
        return

    async def force_reconnect(self) -> None:
        self.made_anew += 1


async def test_a_token_that_is_being_replaced_at_the_first_look_is_looked_at_again_soon(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setattr(token_expiry, "AGAIN_S", 0.0)
    token = tmp_path / "token"
    token.write_text("")
    client: Any = Client()
    renewal = bus_renewal.Renewal(
        client, make_client=lambda: client, options={}, token=token, log=logs.get("test"),
        clock=clock.SystemClock(), rng=random.Random(0),
    )  # fmt: skip
    running = asyncio.create_task(renewal.run())
    try:
        # Some looks that find nothing.
        for _ in range(3):
            await asyncio.to_thread(lambda: None)
        assert client.made_anew == 0
        claims = base64.urlsafe_b64encode(b'{"exp":1}').decode()
        token.write_text(f"e30.{claims}.signature")
        await waiting.until(lambda: client.made_anew)
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
