"""The Kubernetes API over raw HTTP and JSON: objects are plain dicts, without model classes.

`connect` makes a `KubeClient`.
"""

import asyncio
import contextlib
import dataclasses
import random
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import orjson

from carico_core.domain import errors
from carico_core.runtime.kube import access as accesses
from carico_core.runtime.kube import api_errors, cluster_access, http_client, list_watch, paged_lists
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import memory_use, tasks

if TYPE_CHECKING:
    import aiohttp

REQUEST_TIMEOUT_S = 10.0
CONNECT_TIMEOUT_S = 5.0
# A watch is answered at once, though its first event may come late: a server that does not answer is stopped.
WATCH_START_TIMEOUT_S = 10.0
# Larger answers are refused: the largest page of Pods is far smaller (etcd objects have at most 1.5 MiB).
BODY_LIMIT_BYTES = 256 * 2**20

# Called for each request that was sent: with its verb (the HTTP method, or WATCH), the answer's status (or `NO_ANSWER`)
# and the seconds until then, without the wait for a slot. `client_metrics.KubeMetrics.asked` is one.
Observe = Callable[[str, str, float], None]
NO_ANSWER = "none"

MirrorEvent = list_watch.MirrorEvent
Listed = list_watch.Listed
Changed = list_watch.Changed
Away = list_watch.Away
KubeSettings = cluster_access.KubeSettings


async def connect(
    wanted: KubeSettings, *, clock: clocks.Clock, user_agent: str, environ: Mapping[str, str] | None = None,
    observe: Observe | None = None, watching: list_watch.Options = list_watch.DEFAULT_OPTIONS,
) -> "KubeClient":  # fmt: skip
    """Return a client of the API that `wanted` names. Nothing is sent yet, so the API may start later.

    `environ` may contain KUBECONFIG and, in a Pod, KUBERNETES_SERVICE_HOST and _PORT; otherwise the DNS name of the
    service is used. Raises `KubeconfigError`.
    """
    access = await asyncio.to_thread(
        cluster_access.load, wanted.kubeconfig, context=wanted.context, environ=environ or {}, clock=clock
    )
    return KubeClient(access, wanted=wanted, clock=clock, user_agent=user_agent, observe=observe, watching=watching)


@contextlib.asynccontextmanager
async def connect_to_lead(
    wanted: KubeSettings, *, clock: clocks.Clock, program: str, observe: Observe | None,
    environ: Mapping[str, str] | None = None, watching: list_watch.Options = list_watch.DEFAULT_OPTIONS,
) -> AsyncIterator[tuple["KubeClient", "KubeClient"]]:  # fmt: skip
    """Connect until the block is left: a client as `connect` returns it, and one for the Lease, of unlimited rate.

    Kubernetes' components have two, too: a renewal must not queue behind other requests.
    """
    unpaced = dataclasses.replace(wanted, rate_per_s=0.0)
    api = await connect(
        wanted, clock=clock, user_agent=program, environ=environ, observe=observe, watching=watching
    )  # fmt: skip
    lease_api = await connect(
        unpaced, clock=clock, user_agent=f"{program}/leader-election", environ=environ, observe=observe
    )
    try:
        yield api, lease_api
    finally:
        await lease_api.close()
        await api.close()


class KubeClient:
    """One API server, one session. Raises `ApiError` and subclasses (it answered), `ApiUnavailable` (it did not)."""

    def __init__(
        self, access: accesses.Access, *, wanted: KubeSettings, clock: clocks.Clock, user_agent: str,
        observe: Observe | None = None, watching: list_watch.Options = list_watch.DEFAULT_OPTIONS,
    ) -> None:  # fmt: skip
        self._access = access
        self._watching = watching
        self._clock = clock
        self._observe = observe
        self._rng = random.Random(clock.wall_ns())
        self._in_flight = asyncio.Semaphore(wanted.in_flight)
        self._pace = tasks.Pace(wanted.rate_per_s, clock=clock)
        # Direct requests use our own client; requests through a proxy, and streams, use aiohttp.
        self._server = http_client.Server(
            access.server, tls=access.tls, server_hostname=access.server_hostname,
            headers={"User-Agent": user_agent, "Accept": "application/json"},
            connect_timeout_s=CONNECT_TIMEOUT_S, limit_bytes=BODY_LIMIT_BYTES, configure=http_client.keep_alive,
        ) if access.proxy is None else None  # fmt: skip
        self._user_agent = user_agent
        self._session: aiohttp.ClientSession | None = None

    async def request(
        self, method: str, path: str, *, params: Mapping[str, str] | None = None, body: Any = None,
        content_type: str = "application/json", timeout_s: float = REQUEST_TIMEOUT_S,
        permit: Callable[[], None] | None = None,
    ) -> Any:  # fmt: skip
        """Return the decoded JSON of the answer; `body` is sent as JSON. Raises `ApiError` or `ApiUnavailable`.

        `permit` is called at the last moment, after every wait for a slot. If it raises, nothing is sent.
        """
        call = http_client.Call(
            method=method, path=path, params=params, data=None if body is None else orjson.dumps(body),
            content_type=content_type, permit=permit,
        )  # fmt: skip
        async with self._in_flight:
            await self._pace.wait()
            if self._server is None:
                payload = await self._by_proxy(call, timeout_s)
            else:
                payload = await self._directly(self._server, call, timeout_s)
        try:
            answer = orjson.loads(payload)
        except orjson.JSONDecodeError as error:
            raise errors.ApiUnavailable(f"{call.name}: the answer is not JSON: {payload[:80]!r}") from error
        if not isinstance(answer, dict):
            # Every answer of Kubernetes is an object.
            raise errors.ApiUnavailable(f"{call.name}: the answer is no JSON object: {payload[:80]!r}")
        return answer

    async def stream(
        self, method: str, path: str, params: Mapping[str, str] | None = None, *, idle_timeout_s: float | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of the answer as they arrive, until the server ends it.

        What comes while the reader does something else is left in the kernel, so that it is read at once. Raises
        `ApiUnavailable` if the connection breaks, or nothing arrives for `idle_timeout_s`.
        """
        call = http_client.Call(method=method, path=path, params=params)
        start_s = WATCH_START_TIMEOUT_S if call.verb == "WATCH" else idle_timeout_s
        async with self._open(call, start_s=start_s) as response:
            while True:
                # aiohttp's `sock_read` ends with the connection. After a malformed chunk, such as the answer of a proxy
                # that lost its server, aiohttp closes the connection and does not wake the reader.
                async with asyncio.timeout(idle_timeout_s):
                    chunk = await response.content.readany()
                if not chunk:
                    return
                with _left_unread(response):
                    yield chunk

    def mirror(
        self, path: str, *, params: Mapping[str, str] | None = None, options: list_watch.Options | None = None,
        read: paged_lists.Read | None = None, freshness: list_watch.CopyAge | None = None,
    ) -> AsyncGenerator[list_watch.MirrorEvent, None]:  # fmt: skip
        """List and watch one collection for ever: see `kube.list_watch.mirror`."""
        return list_watch.mirror(
            self, path, params=params or {}, clock=self._clock, rng=self._rng, options=options or self._watching,
            read=read, freshness=freshness,
        )  # fmt: skip

    async def close(self) -> None:
        """Close all connections."""
        if self._server is not None:
            self._server.close()
        if self._session is not None:
            await self._session.close()

    async def _directly(self, server: http_client.Server, call: http_client.Call, timeout_s: float) -> bytes:
        """Return the body of a 2xx answer to a direct request; every other outcome raises one of our errors."""
        with (
            api_errors.Translated(call.name, self._access.server),
            _Observed(self._observe, self._clock, call) as statuses,
        ):
            async with asyncio.timeout(timeout_s):
                for attempt in (1, 2):
                    answer = await server.request(
                        call.method, call.path, params=call.params, headers=await self._headers(call),
                        body=call.data or b"", permit=call.permit,
                    )  # fmt: skip
                    statuses.append(answer.status)
                    if answer.status != 401 or attempt == 2:
                        break
                    # The token may have been rotated: renew it, once.
                    self._access.credentials.expire()
        if answer.status >= 300:
            raise api_errors.to_error(answer.status, answer.body, call.name)
        return answer.body

    async def _by_proxy(self, call: http_client.Call, timeout_s: float) -> bytes:
        """Return the body of a 2xx answer through aiohttp."""
        async with self._open(call, total_s=timeout_s) as response:
            return await _read(response, call.name)

    @contextlib.asynccontextmanager
    async def _open(
        self, call: http_client.Call, *, start_s: float | None = None, total_s: float | None = None
    ) -> AsyncIterator["aiohttp.ClientResponse"]:
        """Yield a response with status 2xx; every other outcome raises one of our errors."""
        with api_errors.Translated(call.name, self._access.server):
            with _Observed(self._observe, self._clock, call) as statuses:
                async with asyncio.timeout(start_s):
                    response = await self._send(call, total_s)
                statuses.append(response.status)
            async with response:
                if response.status >= 300:
                    raise api_errors.to_error(response.status, await _read(response, call.name), call.name)
                try:
                    yield response
                finally:
                    _abandon(response)

    async def _send(self, call: http_client.Call, total_s: float | None) -> "aiohttp.ClientResponse":
        # Imported here: most commands only send requests, and aiohttp takes .15 s of CPU to import.
        with memory_use.without_system_certificates():
            import aiohttp

        timeout = aiohttp.ClientTimeout(total=total_s, sock_connect=CONNECT_TIMEOUT_S)
        if self._session is None:
            # aiohttp's own context knows no certificates (`without_system_certificates`). Without TLS to the API, only
            # a proxy may need some.
            tls = self._access.tls or (ssl.create_default_context() if self._access.proxy else True)
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ssl=tls, socket_factory=http_client.create_socket),
                headers={"User-Agent": self._user_agent, "Accept": "application/json"},
                # No redirects and no cookies are followed; only the kubeconfig names a proxy.
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
            )
        for attempt in (1, 2):
            headers = await self._headers(call)
            if call.permit is not None:
                call.permit()
            response = await self._session.request(
                call.method,
                self._access.server + call.path,
                params=call.params,
                data=call.data,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
                proxy=self._access.proxy,
                server_hostname=self._access.server_hostname,
            )
            if response.status != 401 or attempt == 2:
                break
            response.release()
            self._access.credentials.expire()
        return response

    async def _headers(self, call: http_client.Call) -> dict[str, str]:
        headers = {} if call.data is None else {"Content-Type": call.content_type}
        authorization = await self._access.credentials.authorization()
        if authorization is not None:
            headers["Authorization"] = authorization
        return headers


class _Observed:
    """Reports a request by the last of the statuses that it yields; nothing if nothing was sent.

    A class, since a generator takes three times as long, and each request enters one.
    """

    def __init__(self, observe: Observe | None, clock: clocks.Clock, call: http_client.Call) -> None:
        self._observe = observe
        self._clock = clock
        self._call = call
        self._statuses: list[int] = []
        self._began_s = clock.monotonic_s()

    def __enter__(self) -> list[int]:
        """Return a list for the statuses."""
        return self._statuses

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Report."""
        if self._observe is None or not (error is None or isinstance(error, api_errors.http_failures())):
            return
        code = str(self._statuses[-1]) if error is None else NO_ANSWER
        self._observe(self._call.verb, code, self._clock.monotonic_s() - self._began_s)


@contextlib.contextmanager
def _left_unread(response: "aiohttp.ClientResponse") -> Iterator[None]:
    """Do not wake the loop for what arrives meanwhile, unless it is as much as is read at once.

    A watch sends each event by itself. Each that wakes the loop takes as much CPU time as reading it, in TLS and in
    aiohttp, also where both are told to pause (`pause_reading`): the transport below TLS reads on.
    """
    connection = response.connection
    transport = None if connection is None else connection.transport
    # None once the answer has ended.
    used = None if transport is None else transport.get_extra_info("socket")
    if used is None:
        yield
        return
    _set_low_water(used, list_watch.READ_BYTES)
    try:
        yield
    finally:
        _set_low_water(used, 1)


def _set_low_water(connection: socket.socket, low_bytes: int) -> None:
    """Set how much must have arrived for a socket to count as readable; its end is reported in any case.

    Wakes who waits if there is enough: https://man7.org/linux/man-pages/man7/socket.7.html (SO_RCVLOWAT).
    """
    # It was closed in the meantime: asyncio raises an OSError, uvloop a ValueError.
    with contextlib.suppress(OSError, ValueError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, low_bytes)


def _abandon(response: "aiohttp.ClientResponse") -> None:
    """Abort the connection of an answer that was not read completely.

    An orderly close of a TLS connection waits up to 30 s for a server that is busy or gone, longer than the client may
    exist.
    """
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()


async def _read(response: "aiohttp.ClientResponse", name: str) -> bytes:
    """Return the whole body. Raises `ApiUnavailable` and stops reading if it exceeds `BODY_LIMIT_BYTES`."""
    chunks: list[bytes] = []
    read_bytes = 0
    async for chunk in response.content.iter_any():
        read_bytes += len(chunk)
        if read_bytes > BODY_LIMIT_BYTES:
            # The rest cannot be skipped, so the connection cannot be used again.
            response.close()
            raise errors.ApiUnavailable(f"{name}: the answer is longer than {BODY_LIMIT_BYTES} bytes")
        chunks.append(chunk)
    return b"".join(chunks)
