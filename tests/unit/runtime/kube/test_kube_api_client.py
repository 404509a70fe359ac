"""The raw client: each answer has its error, tokens are renewed, slow and dead servers end in ApiUnavailable."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import client_proto, test_utils, web

from carico_core.domain import errors
from carico_core.runtime.kube import access as accesses
from carico_core.runtime.kube import api_client, api_errors
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import tasks
from tests.tools import waiting

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Start = Callable[[Handler], Awaitable[api_client.KubeClient]]


class Rotating:
    """Credentials whose first value has been revoked."""

    def __init__(self) -> None:
        self.values = ["Bearer old", "Bearer new"]

    async def authorization(self) -> str | None:
        return self.values[0]

    def expire(self) -> None:
        self.values.pop(0)


def make_client(
    server: str,
    *,
    credentials: accesses.Credentials | None = None,
    wanted: api_client.KubeSettings | None = None,
) -> api_client.KubeClient:
    access = accesses.Access(server=server, tls=None, credentials=credentials or accesses.FixedCredentials(value=None))
    return api_client.KubeClient(
        access, wanted=wanted or api_client.KubeSettings(), clock=clocks.SystemClock(), user_agent="carico-test"
    )


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[Start]:
    """Starts a server that answers by one handler, and gives a client of it."""
    servers: list[test_utils.TestServer] = []
    clients: list[api_client.KubeClient] = []

    async def begin(handler: Handler) -> api_client.KubeClient:
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", handler)
        server = test_utils.TestServer(app, host="127.0.0.1")
        await server.start_server()
        servers.append(server)
        clients.append(make_client(str(server.make_url("")).rstrip("/")))
        return clients[-1]

    try:
        yield begin
    finally:
        for client in clients:
            await client.close()
        for server in servers:
            await server.close()


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Starts servers until the end of a test."""
    async with serving() as begin:
        yield begin


def status(code: int, reason: str = "Because", message: str = "no") -> dict[str, Any]:
    return {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}


CLASSES: dict[int, type[errors.CaricoError]] = {
    301: errors.ApiError,
    304: errors.ApiError,
    400: errors.Invalid,
    401: errors.Forbidden,
    403: errors.Forbidden,
    404: errors.NotFound,
    405: errors.ApiError,
    406: errors.ApiError,
    408: errors.ApiUnavailable,
    409: errors.Conflict,
    410: errors.Gone,
    413: errors.ApiError,
    415: errors.ApiError,
    422: errors.Invalid,
    429: errors.ApiBusy,
    500: errors.ApiUnavailable,
    502: errors.ApiUnavailable,
    503: errors.ApiUnavailable,
    504: errors.ApiUnavailable,
}


@pytest.mark.parametrize("code", sorted(CLASSES))
async def test_each_status_has_its_class(code: int, start: Start) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response(status(code), status=code)

    client = await start(answer)
    with pytest.raises(CLASSES[code]) as caught:
        await client.request("GET", "/api/v1/pods")
    assert type(caught.value) is CLASSES[code]
    assert "GET /api/v1/pods" in str(caught.value)


@pytest.mark.parametrize(("proxy", "is_own"), [(None, False), ("https://127.0.0.1:1", True)])
async def test_a_proxy_is_verified_with_the_system_s_certificates(
    proxy: str | None, is_own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[bool | ssl.SSLContext] = []
    make = aiohttp.TCPConnector

    def connector(**options: Any) -> aiohttp.TCPConnector:
        given.append(options["ssl"])
        return make(**options)

    monkeypatch.setattr(aiohttp, "TCPConnector", connector)
    access = accesses.Access(
        server="http://127.0.0.1:1", tls=None, credentials=accesses.FixedCredentials(value=None), proxy=proxy
    )
    client = api_client.KubeClient(
        access, wanted=api_client.KubeSettings(), clock=clocks.SystemClock(), user_agent="carico-test"
    )
    with pytest.raises(errors.ApiUnavailable):
        async for _ in client.stream("GET", "/api/v1/pods"):
            pass
    await client.close()
    assert [isinstance(each, ssl.SSLContext) for each in given] == [is_own]


def test_no_status_is_without_a_class() -> None:
    known = (errors.ApiError, errors.ApiUnavailable)
    for code in range(300, 600):
        error = api_errors.to_error(code, b"", "GET /")
        assert isinstance(error, known)
        assert type(error) is CLASSES.get(code, errors.ApiUnavailable if code >= 500 else errors.ApiError)


@pytest.mark.parametrize("code", [403, 503])
@pytest.mark.parametrize("payload", [b'{"message":"no:\\n\\t- a\\r\\n- b\\n"}', b"no:\n\t- a\n- b\n"])
def test_what_the_api_said_is_one_line(code: int, payload: bytes) -> None:
    assert str(api_errors.to_error(code, payload, "GET /")).endswith(": no: - a - b")


async def test_the_error_says_what_the_api_said(start: Start) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response(status(409, "AlreadyExists", 'pods "a" already exists'), status=409)

    client = await start(answer)
    with pytest.raises(errors.Conflict) as caught:
        await client.request("POST", "/api/v1/pods", body={})
    assert str(caught.value) == 'POST /api/v1/pods: 409 AlreadyExists: pods "a" already exists'


@pytest.mark.parametrize("payload", [b"", b"<html>bad gateway</html>", b"[1]", b'"x"', b"\xff\xfe", b'{"reason": 5}'])
async def test_an_error_without_a_status_object_is_reported(payload: bytes, start: Start) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=payload, status=403)

    client = await start(answer)
    with pytest.raises(errors.Forbidden):
        await client.request("GET", "/x")


@pytest.mark.parametrize("text", ["[1, 2]", "null", '"text"', "5"])
async def test_an_answer_that_is_no_object_is_not_an_answer(start: Start, text: str) -> None:
    """Commands looked for its fields, and ended with a traceback."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=text)

    client = await start(answer)
    with pytest.raises(errors.ApiUnavailable, match="no JSON object"):
        await client.request("GET", "/x")


async def test_an_answer_that_is_not_json_is_not_an_answer(start: Start) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text="<html>captive portal</html>")

    client = await start(answer)
    with pytest.raises(errors.ApiUnavailable, match="not JSON"):
        await client.request("GET", "/x")


@pytest.mark.parametrize("code", [200, 403])
async def test_an_answer_beyond_the_limit_is_refused(code: int, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_client, "BODY_LIMIT_BYTES", 1000)

    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"x": "x" * (991 if request.path == "/fits" else 992)}, status=code)

    client = await start(answer)
    with pytest.raises(errors.ApiUnavailable, match="GET /x: the answer is longer than 1000 bytes"):
        await client.request("GET", "/x")
    if code == 200:
        assert await client.request("GET", "/fits") == {"x": "x" * 991}


async def test_a_refused_connection_is_unavailable(unused_tcp_port: int) -> None:
    client = make_client(f"http://127.0.0.1:{unused_tcp_port}")
    with pytest.raises(errors.ApiUnavailable) as failed:
        await client.request("GET", "/x")
    assert str(failed.value) == f"GET /x: http://127.0.0.1:{unused_tcp_port} cannot be reached: connection refused"
    await client.close()


async def test_a_silent_server_is_unavailable_in_time(start: Start) -> None:
    async def answer(_: web.Request) -> web.Response:
        await asyncio.sleep(30)
        return web.Response()

    client = await start(answer)
    async with asyncio.timeout(waiting.WAIT_S):
        with pytest.raises(errors.ApiUnavailable, match="in time"):
            await client.request("GET", "/x", timeout_s=0.5)


async def test_an_answer_that_breaks_off_is_unavailable(start: Start) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b'{"items": [')
        assert request.transport is not None
        request.transport.abort()
        return response

    client = await start(answer)
    with pytest.raises(errors.ApiUnavailable):
        await client.request("GET", "/x")
    with pytest.raises(errors.ApiUnavailable):
        async for _ in client.stream("GET", "/x"):
            pass


async def test_what_comes_while_the_reader_of_a_stream_is_busy_does_not_wake_the_loop(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_busy, is_written = asyncio.Event(), asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"first\n")
        await is_busy.wait()
        for _ in range(20):
            await response.write(b"later\n")
            await asyncio.sleep(0)
        is_written.set()
        return response

    received: list[bytes] = []
    take = client_proto.ResponseHandler.data_received

    def note(self: client_proto.ResponseHandler, data: bytes) -> None:
        # aiohttp itself calls this without data.
        received.extend([data] if data else [])
        take(self, data)

    monkeypatch.setattr(client_proto.ResponseHandler, "data_received", note)
    client = await start(answer)
    async with asyncio.timeout(waiting.WAIT_S), contextlib.aclosing(client.stream("GET", "/x")) as stream:
        found = await anext(stream)
        before = len(received)
        is_busy.set()
        await is_written.wait()
        assert len(received) == before
        async for chunk in stream:
            found += chunk
        assert found == b"first\n" + 20 * b"later\n"
        assert len(received) <= before + 3, "all of it, and the end of the answer"


@pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, tasks.fast_loop])
def test_a_server_that_goes_while_the_reader_of_a_stream_is_busy_is_unavailable(
    make_loop: tasks.MakeLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The two loops raise different errors where something is done with the socket of a closed connection."""

    async def main() -> None:
        is_busy, is_lost = asyncio.Event(), asyncio.Event()
        lose = client_proto.ResponseHandler.connection_lost

        def note(self: client_proto.ResponseHandler, error: BaseException | None) -> None:
            lose(self, error)
            is_lost.set()

        async def answer(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(b"first\n")
            await is_busy.wait()
            assert request.transport is not None
            request.transport.abort()
            return response

        monkeypatch.setattr(client_proto.ResponseHandler, "connection_lost", note)
        async with asyncio.timeout(waiting.WAIT_S), serving() as start:
            client = await start(answer)
            stream = client.stream("GET", "/x")
            assert await anext(stream) == b"first\n"
            is_busy.set()
            await is_lost.wait()
            with pytest.raises(errors.ApiUnavailable):
                await anext(stream)

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(main())


async def test_a_half_open_stream_ends(start: Start) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\n")
        await asyncio.sleep(30)
        return response

    client = await start(answer)
    # In which the first line, too, has to come, on a machine that does much besides.
    stream = client.stream("GET", "/x", idle_timeout_s=2.0)
    async with asyncio.timeout(waiting.WAIT_S):
        assert await anext(stream) == b"one\n"
        with pytest.raises(errors.ApiUnavailable, match="in time"):
            await anext(stream)


async def test_a_stream_with_a_malformed_chunk_ends_in_time() -> None:
    """A reverse proxy that loses its server may write its own answer into the one that has begun."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n")
        await writer.drain()
        await received.wait()
        writer.write(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
        await reader.read()
        writer.close()
        closed.set()

    received, closed = asyncio.Event(), asyncio.Event()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    client = make_client(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    stream = client.stream("GET", "/x", idle_timeout_s=1.0)
    async with asyncio.timeout(waiting.WAIT_S):
        assert await anext(stream) == b"one\n"
        received.set()
        with pytest.raises(errors.ApiUnavailable):
            await anext(stream)
        await client.close()
        await closed.wait()
    server.close()


async def test_a_revoked_token_is_renewed_once(start: Start) -> None:
    seen: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.headers["Authorization"])
        if seen[-1] != "Bearer new":
            return web.json_response(status(401, "Unauthorized"), status=401)
        return web.json_response({"body": await request.json()})

    plain = await start(answer)
    client = make_client(plain._access.server, credentials=Rotating())
    assert await client.request("POST", "/x", body={"a": 1}) == {"body": {"a": 1}}
    assert seen == ["Bearer old", "Bearer new"]
    await client.close()


async def test_an_unknown_client_is_refused(start: Start) -> None:
    asked = 0

    async def answer(_: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        return web.json_response(status(401, "Unauthorized"), status=401)

    client = await start(answer)
    with pytest.raises(errors.Forbidden):
        await client.request("GET", "/x")
    assert asked == 2


async def test_redirects_are_not_followed(start: Start) -> None:
    async def answer(request: web.Request) -> web.Response:
        assert request.path == "/x"
        raise web.HTTPTemporaryRedirect("/elsewhere")

    client = await start(answer)
    with pytest.raises(errors.ApiError):
        await client.request("GET", "/x")


async def test_no_more_requests_at_a_time_than_allowed(start: Start) -> None:
    now = most = 0
    # The first answers wait for one another, and not for a time in which others may or may not come.
    full = asyncio.Event()

    async def answer(_: web.Request) -> web.Response:
        nonlocal now, most
        now += 1
        most = max(most, now)
        if now == 3:
            full.set()
        await full.wait()
        await asyncio.sleep(0.01)
        now -= 1
        return web.json_response({})

    plain = await start(answer)
    client = make_client(plain._access.server, wanted=api_client.KubeSettings(in_flight=3))
    async with asyncio.timeout(waiting.WAIT_S):
        await asyncio.gather(*(client.request("GET", "/x") for _ in range(12)))
    assert most == 3
    await client.close()


async def test_a_permit_is_asked_at_the_last_moment_and_its_refusal_sends_nothing(start: Start) -> None:
    arrived: list[str] = []
    first_may_end = asyncio.Event()

    async def handler(request: web.Request) -> web.Response:
        arrived.append(request.path)
        if request.path == "/first":
            await first_may_end.wait()
        return web.json_response({})

    server = await start(handler)
    client = make_client(server._access.server, wanted=api_client.KubeSettings(in_flight=1))
    asked: list[str] = []

    def refuse() -> None:
        asked.append("permit")
        raise errors.CaricoError("no longer")

    first = asyncio.create_task(client.request("GET", "/first"))
    await asyncio.sleep(0.05)
    second = asyncio.create_task(client.request("POST", "/second", body={}, permit=refuse))
    await asyncio.sleep(0.05)
    assert asked == [], "it waits for its turn first"
    first_may_end.set()
    await first
    with pytest.raises(errors.CaricoError, match="no longer"):
        await second
    assert (asked, arrived) == (["permit"], ["/first"])
    assert await client.request("POST", "/third", body={}, permit=lambda: asked.append("granted")) == {}
    assert asked == ["permit", "granted"]
    await client.close()
