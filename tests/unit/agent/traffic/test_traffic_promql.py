"""Traffic from Prometheus: counters become bytes, and what cannot be used is skipped and counted."""

import asyncio
import collections
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from carico_agent.traffic import promql
from carico_core.domain import errors, pod_telemetry
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from tests.tools import waiting
from tests.unit.agent.traffic.kernel_messages import flow

A, B, C = "10.0.0.1", "10.0.0.2", "fd00::1"


def opened(url: str, skipped: collections.Counter[str], **more: Any) -> promql.Promql:
    def skip(reason: str, count: int) -> None:
        skipped[reason] += count

    log = logs.RateLimited(logs.get("test"), clock=clocks.FakeClock())
    return promql.Promql(url, node="node-1", skipped=skip, log=log, **more)


def answer(*series: tuple[str, str, str]) -> bytes:
    result = [
        {"metric": {"source": source, "destination": destination, "job": "x"}, "value": [1.5, number]}
        for source, destination, number in series
    ]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()


def test_the_increase_of_each_counter_is_a_flow() -> None:
    skipped: collections.Counter[str] = collections.Counter()
    source = opened("http://p:9090/api/v1/query?query=x", skipped)
    assert source.take(answer((A, B, "1000"), (B, A, "5"))) == [], "the first answer has no before"
    assert source.take(answer((A, B, "1500"), (B, A, "5"), (A, C, "7"))) == [
        flow(None, (A, 0), (B, 0), 500, 0),
    ], "the first answer with a series has no before"  # fmt: skip
    assert source.take(answer((A, B, "1500"), (A, C, "9"))) == [flow(None, (A, 0), (C, 0), 2, 0)]
    assert source.take(answer((A, B, "10"), (B, A, "NaN"), (A, C, "+Inf"), ("pod-1", A, "4"), (A, A, "-1"))) == []
    assert skipped == {"decreased": 1, "not_finite": 3, "undecodable": 1}


@pytest.mark.parametrize("huge", ["1e308", "1e30"])
def test_a_counter_beyond_all_bytes_is_skipped_also_as_a_sum(huge: str) -> None:
    skipped: collections.Counter[str] = collections.Counter()
    source = opened("http://p:9090/api/v1/query?query=x", skipped)
    assert source.take(answer((A, B, "1"), (A, B, "1"), (B, A, "1"))) == []
    assert source.take(answer((A, B, huge), (A, B, huge), (B, A, "3"))) == [flow(None, (B, 0), (A, 0), 2, 0)]
    assert skipped == {"not_finite": 1}


def test_a_series_that_is_back_after_a_gap_does_not_count_its_whole_life() -> None:
    source = opened("http://p:9090/api/v1/query?query=x", collections.Counter())
    for found in (answer((A, B, "1e12")), answer()):
        assert source.take(found) == []
    assert source.take(answer((A, B, "1e12"))) == []
    assert source.take(answer((A, B, "1000000000005"))) == [flow(None, (A, 0), (B, 0), 5, 0)]


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b'{"status":"error"}', b'{"status":"success","data":{"result":[1]}}', b'{"x":' + b"[" * 100_000],
    ids=["empty", "nothing", "error", "number", "deep"],
)
def test_an_answer_that_is_none_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match="not an answer"):
        opened("http://p:9090/api/v1/query?query=x", collections.Counter()).take(body)


@pytest.mark.parametrize(
    "url",
    [
        "p:9090", "ftp://p/?query=x", "http://p:9090/api/v1/query", "http://?query=x", "http://p:90900/?query=x",
        "http://p:x/?query=x", "http://[::1/?query=x",
    ],
)  # fmt: skip
def test_an_address_that_is_no_query_is_the_users_mistake(url: str) -> None:
    with pytest.raises(errors.EnvironmentUnfit, match="instant query"):
        opened(url, collections.Counter())


@contextlib.asynccontextmanager
async def prometheus(number_of: Callable[[int], int | None], asked: list[str]) -> AsyncIterator[str]:
    """A server whose counter has this number at the nth question; None: it is away. Yields its address."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                asked.append((await reader.readuntil(b"\r\n\r\n")).decode().split(" ")[1])
                number = number_of(len(asked))
                body = b"away" if number is None else answer((A, B, str(number)))
                head = f"HTTP/1.1 {'503 Away' if number is None else '200 OK'}\r\nContent-Length: {len(body)}\r\n\r\n"
                writer.write(head.encode() + body)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/api/v1/query"
    finally:
        server.close()
        await server.wait_closed()


async def flows_of(source: promql.Promql, count: int) -> list[int]:
    """The bytes of its first flows."""
    got: list[pod_telemetry.PodFlow] = []
    task = asyncio.create_task(source.run(got.extend))
    await waiting.until(lambda: len(got) >= count)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return [each.sent_bytes for each in got[:count]]


async def test_the_query_names_the_node_and_an_outage_is_counted() -> None:
    asked: list[str] = []
    totals = itertools.count(1000, 1000)
    skipped: collections.Counter[str] = collections.Counter()
    async with prometheus(lambda number: None if number == 2 else next(totals), asked) as url:
        query = "?query=sum%20by%20(source)%20(x%7Bnode%3D%22$node%22%7D)"
        assert await flows_of(opened(url + query, skipped, poll_s=0.0), 3) == [1000] * 3
    assert asked[0] == "/api/v1/query?query=sum+by+%28source%29+%28x%7Bnode%3D%22node-1%22%7D%29"
    assert skipped["unreadable"] == 1


@pytest.mark.parametrize(("away", "expected"), [(3, [1000, 4000, 1000]), (60, [1000, 1000, 1000])])
async def test_the_bytes_of_a_long_outage_are_not_taken_for_those_of_a_report(away: int, expected: list[int]) -> None:
    async with prometheus(lambda number: None if 2 < number <= 2 + away else 1000 * number, []) as url:
        source = opened(f"{url}?query=x", collections.Counter(), poll_s=0.0)
        assert await flows_of(source, 3) == expected
