"""The webhook over TLS: answers, a certificate that is replaced while it listens, and one that does not fit."""

import asyncio
import contextlib
import gc
import io
import pathlib
import ssl
from collections.abc import AsyncIterator

import aiohttp
import orjson
import pytest
from aiohttp import web_protocol

from carico_core.domain import errors, usage
from carico_core.runtime.observe import logs, metrics
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import settings
from carico_recommender import instruments
from carico_recommender import settings as setting
from carico_recommender.admission import certificates, registration, webhook
from tests.tools import waiting
from tests.tools.memory import memory_kube
from tests.tools.sites import security_site
from tests.unit.recommender import learnt
from tests.unit.recommender.admission import test_admission_review as reviews

NAME = "carico-recommender.carico.svc"
CONFIGURATIONS = "mutatingwebhookconfigurations"


def certificate(folder: pathlib.Path, *, name: str = NAME) -> certificates.Certificate:
    return certificates.Certificate(
        cert=str(folder / "tls.crt"), key=str(folder / "tls.key"), ca=str(folder / "ca.crt"), name=name,
        clock=clocks.SystemClock(),
    )  # fmt: skip


@contextlib.asynccontextmanager
async def listening(folder: pathlib.Path) -> AsyncIterator[tuple[int, certificates.Certificate, metrics.Metrics]]:
    """A webhook that knows one class; yields its port."""
    used = certificate(security_site.make_certificates(folder, NAME))
    used.read()
    series = metrics.Metrics("recommender")
    found = learnt.recommended()
    handler = webhook.Webhook(
        {found.name: found}.get, instruments.Instruments(series), clock=clocks.SystemClock(),
        rules=reviews.no_rules, dimensions=usage.DIMS,
    )  # fmt: skip
    async with webhook.listening(handler, used, host="127.0.0.1", port=0) as port:
        yield port, used, series


async def post(port: int, authority: bytes, body: bytes | io.BytesIO) -> tuple[int, bytes]:
    """Ask as the API server does: by the service's name, with the authority of the configuration."""
    context = ssl.create_default_context(cadata=authority.decode())
    url = f"https://127.0.0.1:{port}{webhook.PATH}"
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, data=body, ssl=context, server_hostname=NAME) as response,
    ):
        return response.status, await response.read()


async def test_reviews_are_answered_over_tls_also_with_a_new_certificate(tmp_path: pathlib.Path) -> None:
    folder = security_site.make_certificates(tmp_path / "tls", NAME)
    used = certificate(folder)
    assert used.read()
    assert not used.read()
    series = metrics.Metrics("recommender")
    counted = instruments.Instruments(series)
    found = learnt.recommended()
    handler = webhook.Webhook(
        {found.name: found}.get, counted, clock=clocks.SystemClock(), rules=reviews.no_rules, dimensions=usage.DIMS
    )
    body = orjson.dumps({"request": {"uid": "u", "namespace": "shop", "object": reviews.pod()}})
    async with webhook.listening(handler, used, host="127.0.0.1", port=0) as port:
        status, answered = await post(port, used.authority, body)
        assert status == 200
        assert "patch" in orjson.loads(answered)["response"]
        assert (await post(port, used.authority, b"{}"))[0] == 400
        before = used.authority
        # Another authority: what the API server trusts and what is shown change together.
        (folder / "ca.key").unlink()
        security_site.make_certificates(folder, NAME, days=2)
        assert used.read()
        assert used.authority != before
        assert (await post(port, used.authority, body))[0] == 200
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await post(port, before, body)
    assert series.value("reviews_total", {"result": "set"}) == 2.0
    assert series.value("reviews_total", {"result": "no_review"}) == 1.0


def test_how_long_it_is_valid_is_exported(tmp_path: pathlib.Path) -> None:
    used = certificate(security_site.make_certificates(tmp_path, NAME, days=30))
    series = metrics.Metrics("recommender")
    instruments.Instruments(series).read_certificate(used.left_s)
    assert series.value("certificate_left_seconds") is None
    used.read()
    left_s = series.value("certificate_left_seconds")
    assert left_s is not None
    assert 29.9 * 86_400 < left_s < 30.1 * 86_400


async def test_an_expired_certificate_stops_no_start_and_replaces_none_that_is_valid(tmp_path: pathlib.Path) -> None:
    folder = security_site.make_certificates(tmp_path / "tls", NAME, days=0)
    used = certificate(folder)
    await waiting.until(used.read)
    await waiting.until(lambda: used.trouble == "its certificate has expired")
    # The same at a start after its end.
    assert certificate(folder).read()
    left_s = used.left_s()
    assert left_s is not None
    assert left_s < 0.0
    # A valid one takes its place, and keeps it.
    security_site.make_certificates(folder, NAME, days=1)
    assert used.read()
    assert used.trouble is None
    authority = used.authority
    (folder / "ca.key").unlink()
    security_site.make_certificates(folder, NAME, days=0)
    with pytest.raises(errors.SettingsError, match="got a certificate that has expired"):
        used.read()
    assert used.authority == authority


async def test_bodies_that_are_too_large_or_too_slow_are_counted(tmp_path: pathlib.Path) -> None:
    async with listening(tmp_path) as (port, used, series):
        status, said = await post(port, used.authority, io.BytesIO(bytes(webhook.BODY_LIMIT_BYTES + 1)))
        assert (status, said) == (413, b"a body above 4 MiB\n")
        context = ssl.create_default_context(cadata=used.authority.decode())
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=NAME)
        writer.write(f"POST {webhook.PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n12".encode())
        assert (await reader.readline()).startswith(b"HTTP/1.1 408")
        writer.close()
        assert series.value("reviews_total", {"result": "too_large"}) == 1.0
        assert series.value("reviews_total", {"result": "too_slow"}) == 1.0


@pytest.mark.parametrize("size", [9, 1_000_000])
async def test_slow_bodies_keep_no_review_waiting(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """The API server waits for a second; each body of another client may take one."""
    monkeypatch.setattr(webhook, "BODY_MOST_S", 1e6)
    body = orjson.dumps({"request": {"uid": "u", "namespace": "shop", "object": reviews.pod()}})
    async with listening(tmp_path) as (port, used, _):
        context = ssl.create_default_context(cadata=used.authority.decode())
        slow = [
            await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=NAME)
            for _ in range(webhook.BODIES_MOST + 1)
        ]
        for _, writer in slow:
            writer.write(f"POST {webhook.PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n1".encode())
        async with asyncio.timeout(waiting.WAIT_S):
            assert (await post(port, used.authority, body))[0] == 200
        for _, writer in slow:
            writer.close()


async def test_connections_are_bounded_before_tls_is_set_up(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "CONNECTIONS_MOST", 3)
    monkeypatch.setattr(webhook, "HANDSHAKE_MOST_S", 0.3)
    body = orjson.dumps({"request": {"uid": "u", "namespace": "shop", "object": reviews.pod()}})
    async with listening(tmp_path) as (port, used, series):
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]

        def refused() -> float | None:
            return series.value("refused_connections_total")

        await waiting.until(lambda: refused() == 2.0)
        # Those that never begin lose their place.
        for reader, _ in silent:
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
        assert (await post(port, used.authority, body))[0] == 200
        for _, writer in silent:
            writer.close()


async def test_an_address_with_many_connections_keeps_no_other_out(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "CONNECTIONS_MOST", 4)
    body = orjson.dumps({"request": {"uid": "u", "namespace": "shop", "object": reviews.pod()}})
    async with listening(tmp_path) as (port, used, series):
        context = ssl.create_default_context(cadata=used.authority.decode())
        # All places, of connections that are set up.
        idle = [
            await asyncio.open_connection(
                "127.0.0.1", port, ssl=context, server_hostname=NAME, local_addr=("127.0.0.2", 0)
            )
            for _ in range(4)
        ]
        for _ in range(3):
            assert (await post(port, used.authority, body))[0] == 200
        # The oldest of them had to go, and never one for another of the same address.
        assert await idle[0][0].read() == b""
        _, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0))
        writer.close()
        assert not idle[3][0].at_eof()
        for _, writer in idle:
            writer.close()
        refused = series.value("refused_connections_total")
        assert refused is not None and refused >= 1.0


async def test_connections_that_are_being_set_up_give_way_to_another_address(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "CONNECTIONS_MOST", 3)
    body = orjson.dumps({"request": {"uid": "u", "namespace": "shop", "object": reviews.pod()}})
    async with listening(tmp_path) as (port, used, series):
        silent = [await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0)) for _ in range(4)]
        await waiting.until(lambda: series.value("refused_connections_total") == 1.0)
        async with asyncio.timeout(webhook.HANDSHAKE_MOST_S):
            assert (await post(port, used.authority, body))[0] == 200
        for _, writer in silent:
            writer.close()


async def test_a_connection_that_asks_nothing_is_closed(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "IDLE_MOST_S", 0.2)
    async with listening(tmp_path) as (port, used, _):
        context = ssl.create_default_context(cadata=used.authority.decode())
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=NAME)
        # The beginning of a question, which never ends.
        writer.write(b"POST ")
        async with asyncio.timeout(waiting.WAIT_S):
            assert await reader.read() == b""
        writer.close()


async def test_a_connection_that_asks_is_answered_for_as_long_as_it_does(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "IDLE_MOST_S", 1.0)
    body = orjson.dumps({"request": {"uid": "u", "namespace": "shop", "object": reviews.pod()}})
    async with (
        listening(tmp_path) as (port, used, _),
        asyncio.timeout(waiting.WAIT_S),
        aiohttp.ClientSession() as session,
    ):
        context = ssl.create_default_context(cadata=used.authority.decode())
        for _ in range(15):
            url = f"https://127.0.0.1:{port}{webhook.PATH}"
            async with session.post(url, data=body, ssl=context, server_hostname=NAME) as response:
                assert (response.status, bool(await response.read())) == (200, True)
            await asyncio.sleep(0.1)


async def test_connections_that_have_ended_hold_no_memory(tmp_path: pathlib.Path) -> None:
    def held() -> int:
        return sum(isinstance(each, web_protocol.RequestHandler) for each in gc.get_objects())

    before = held()
    async with listening(tmp_path) as (port, used, _):
        context = ssl.create_default_context(cadata=used.authority.decode())
        for _ in range(20):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=NAME)
            writer.write(b"no request\r\n\r\n")
            await reader.read()
            writer.close()
        # Long before a connection's time is over.
        gc.collect()
        await waiting.until(lambda: held() <= before + 2, within_s=webhook.IDLE_MOST_S / 4)


@pytest.mark.parametrize("spoil", ["name", "authority", "key", "gone"])
def test_a_certificate_that_the_api_server_would_refuse_is_named(tmp_path: pathlib.Path, spoil: str) -> None:
    folder = security_site.make_certificates(tmp_path / "a", NAME)
    other = security_site.make_certificates(tmp_path / "b", NAME)
    match spoil:
        case "authority":
            (folder / "ca.crt").write_bytes((other / "ca.crt").read_bytes())
        case "key":
            (folder / "tls.key").write_bytes((other / "tls.key").read_bytes())
        case "gone":
            (folder / "tls.crt").unlink()
    used = certificate(folder, name="another.carico.svc" if spoil == "name" else NAME)
    with pytest.raises(errors.SettingsError, match=r"--admission-cert .* expected PEM files of a certificate for"):
        used.read()
    assert used.authority == b""


async def test_the_authority_is_written_where_another_is(tmp_path: pathlib.Path) -> None:
    kube = memory_kube.MemoryKube()
    kept = registration.Registration(kube, name="carico-recommender")
    assert not await kept.keep(b"authority")
    assert kept.trouble is not None
    hook = {"name": "requests.carico.dev", "clientConfig": {"service": {"name": "carico-recommender"}}}
    kube.objects.create(CONFIGURATIONS, {"metadata": {"name": "carico-recommender"}, "webhooks": [hook]}, "test")
    assert await kept.keep(b"authority")
    found = kube.objects.get(CONFIGURATIONS, ("", "carico-recommender"), "test")
    assert found["webhooks"][0]["clientConfig"]["caBundle"] == "YXV0aG9yaXR5"
    assert not await kept.keep(b"authority")
    assert kept.trouble is None


async def test_a_standby_leaves_the_authority_of_the_leader_and_says_so() -> None:
    kube = memory_kube.MemoryKube()
    hook = {"name": "requests.carico.dev", "clientConfig": {"caBundle": "bGVhZGVy"}}
    kube.objects.create(CONFIGURATIONS, {"metadata": {"name": "carico-recommender"}, "webhooks": [hook]}, "test")
    kept = registration.Registration(kube, name="carico-recommender")
    assert not await kept.keep(b"standby", may_write=False)
    assert kept.trouble is not None and "trusts another authority" in kept.trouble
    found = kube.objects.get(CONFIGURATIONS, ("", "carico-recommender"), "test")
    assert found["webhooks"][0]["clientConfig"]["caBundle"] == "bGVhZGVy"
    assert not await kept.keep(b"leader", may_write=False)
    assert kept.trouble is None


async def test_a_certificate_that_breaks_later_leaves_the_one_in_use(tmp_path: pathlib.Path) -> None:
    folder = security_site.make_certificates(tmp_path, NAME)
    used = certificate(folder)
    used.read()
    authority = used.authority
    (folder / "tls.key").write_text("half written")
    kube = memory_kube.MemoryKube()
    looking = asyncio.create_task(
        webhook.look_forever(
            used, registration.Registration(kube, name="x"),
            leads=lambda: True, line=logs.RateLimited(logs.get("test"), clock=clocks.FakeClock()),
        )
    )  # fmt: skip
    while not kube.requests:
        await asyncio.sleep(0)
    looking.cancel()
    assert used.authority == authority


def test_a_webhook_without_a_certificate_is_refused() -> None:
    with pytest.raises(errors.SettingsError, match="--admission-port 8443: got no --admission-cert, --admission-key"):
        settings.load(
            setting.RecommenderSettings, prefix=setting.PREFIX, argv=("--admission-port", "8443"), environ={},
            program=setting.PROGRAM,
        )  # fmt: skip
