"""What a client tells of its requests, and the series that come of it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from aiohttp import test_utils, web

from carico_core.domain import errors
from carico_core.runtime.kube import access as accesses
from carico_core.runtime.kube import api_client
from carico_core.runtime.observe import client_metrics, metrics
from carico_core.runtime.process import clock as clocks


async def answer(request: web.Request) -> web.Response:
    """By what the path says."""
    if request.path == "/slow":
        await asyncio.sleep(60)
    code = {"/there": 200, "/made": 201, "/held": 409, "/busy": 429}.get(request.path, 200)
    return web.json_response({"message": "so"}, status=code)


@pytest.fixture(params=["directly", "by a proxy"])
async def site(request: pytest.FixtureRequest) -> AsyncIterator[tuple[api_client.KubeClient, metrics.Metrics]]:
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", answer)
    async with test_utils.TestServer(app, host="127.0.0.1") as server:
        address = str(server.make_url("")).rstrip("/")
        series = metrics.Metrics("test")
        client = api_client.KubeClient(
            accesses.Access(
                server=address, tls=None, credentials=accesses.FixedCredentials(value=None),
                proxy=address if request.param == "by a proxy" else None,
            ),
            wanted=api_client.KubeSettings(), clock=clocks.SystemClock(), user_agent="carico-test",
            observe=client_metrics.KubeMetrics(series).asked,
        )  # fmt: skip
        yield client, series
        await client.close()


def requests(series: metrics.Metrics, verb: str, code: str) -> float | None:
    return series.registry.get_sample_value("carico_kube_requests_total", {"verb": verb, "code": code})


async def test_requests_are_counted_by_verb_and_code(site: tuple[api_client.KubeClient, metrics.Metrics]) -> None:
    client, series = site
    await client.request("GET", "/there")
    await client.request("GET", "/there")
    await client.request("POST", "/made", body={})
    with pytest.raises(errors.Conflict):
        await client.request("POST", "/held", body={})
    with pytest.raises(errors.ApiUnavailable):
        await client.request("GET", "/busy")
    found = [requests(series, *each) for each in (("GET", "200"), ("POST", "201"), ("POST", "409"), ("GET", "429"))]
    assert found == [2.0, 1.0, 1.0, 1.0]
    taken = {verb: series.registry.get_sample_value("carico_kube_request_seconds_count", {"verb": verb}) for verb in
             ("GET", "POST")}  # fmt: skip
    assert taken == {"GET": 3.0, "POST": 2.0}


async def test_a_watch_is_one_request_however_long_it_lasts(
    site: tuple[api_client.KubeClient, metrics.Metrics],
) -> None:
    client, series = site
    async with contextlib.aclosing(client.stream("GET", "/there", {"watch": "1"})) as chunks:
        await anext(chunks)
        assert requests(series, "WATCH", "200") == 1.0
    assert requests(series, "GET", "200") is None


async def test_no_answer_is_counted_as_none(site: tuple[api_client.KubeClient, metrics.Metrics]) -> None:
    client, series = site
    with pytest.raises(errors.ApiUnavailable):
        await client.request("GET", "/slow", timeout_s=0.5)
    assert requests(series, "GET", api_client.NO_ANSWER) == 1.0


async def test_what_was_never_sent_is_not_counted(site: tuple[api_client.KubeClient, metrics.Metrics]) -> None:
    client, series = site

    class TermOver(Exception):
        pass

    def end() -> None:
        raise TermOver

    with pytest.raises(TermOver):
        await client.request("POST", "/made", body={}, permit=end)
    assert b"carico_kube_requests_total{" not in series.render()
