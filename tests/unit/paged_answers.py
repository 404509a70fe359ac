"""Lists that services answer in pages."""

from collections.abc import Awaitable, Callable

import orjson

# `max_payload` in deploy/k8s/base/nats.conf.
MOST_BYTES = 2 * 1024 * 1024


async def every(ask: Callable[[bytes], Awaitable[bytes]], rows: str, key: str) -> tuple[list[str], int]:
    """Return the keys of all rows of a list, page by page, and the number of pages; NATS takes each."""
    found: list[str] = []
    pages, after = 0, ""
    while pages == 0 or after:
        payload = await ask(orjson.dumps({"after": after}))
        assert len(payload) < MOST_BYTES
        answer = orjson.loads(payload)
        found += [each[key] for each in answer[rows]]
        pages, after = pages + 1, answer.get("next", "")
    return found, pages
