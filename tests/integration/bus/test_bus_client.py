"""What nats-py leaves open, at servers made to show it: TLS that is taken away, answers that come late or never."""

import asyncio
import contextlib
import io
import os
import pathlib
import re
import shutil
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from carico_core.domain import errors
from carico_core.runtime.bus import connection_options, nats_bus, nats_client
from carico_core.runtime.bus import port as buses
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock
from carico_core.wire import roles, subjects
from tests.tools import waiting
from tests.tools.sites import nats_site, security_site

INFO = b'INFO {"server_id":"x","version":"2.15.1","max_payload":1048576,"headers":true,"proto":1,"jetstream":true}\r\n'


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return security_site.make_certificates(tmp_path_factory.mktemp("tls"), "127.0.0.1")


@pytest.fixture
def server(tmp_path: pathlib.Path, certificates: pathlib.Path) -> Iterator[nats_site.NatsServer]:
    """A server whose certificate each test makes, with one user without a password."""
    found = nats_site.NatsServer(tmp_path / "nats", extra=tls_of(tmp_path))
    try:
        yield found
    finally:
        found.kill()


def tls_of(folder: pathlib.Path, **more: Any) -> dict[str, Any]:
    return {"tls": {"cert_file": str(folder / "tls.crt"), "key_file": str(folder / "tls.key"), **more}}


@contextlib.asynccontextmanager
async def trying(settings: buses.BusSettings) -> AsyncIterator["asyncio.Future[nats_bus.NatsBus]"]:
    """A client that goes on trying, ended at the end."""
    joining = asyncio.ensure_future(nats_bus.connect(settings, name="x", clock=clock.SystemClock(), owns_streams=False))
    try:
        yield joining
    finally:
        joining.cancel()
        ended = await asyncio.gather(joining, return_exceptions=True)
        if isinstance(ended[0], nats_bus.NatsBus):
            await ended[0].close()


async def line_with(words: str, said: io.StringIO) -> str:
    """The first log line that holds `words`."""
    async with asyncio.timeout(waiting.WAIT_S):
        while True:
            for line in said.getvalue().splitlines():
                if re.search(words, line):
                    return line
            await asyncio.sleep(0.02)


@pytest.fixture
def said() -> io.StringIO:
    """What is logged."""
    out = io.StringIO()
    logs.setup(service="test", json=True, stream=out)
    return out


@pytest.mark.parametrize(
    ("fault", "words"),
    [("expired", "has expired: renew it"), ("other name", "is not for the name in nats://127.0.0.1"),
     ("other authority", "is not signed by an authority in .*ca.crt"), ("no authority", "CARICO_BUS_TLS_CA names")],
)  # fmt: skip
async def test_a_bad_certificate_gives_one_line_and_is_retried(
    server: nats_site.NatsServer, certificates: pathlib.Path, tmp_path: pathlib.Path, fault: str, words: str,
    said: io.StringIO,
) -> None:  # fmt: skip
    if fault != "other authority":
        for name in ("ca.crt", "ca.key"):
            shutil.copy(certificates / name, tmp_path)
    name = "elsewhere" if fault == "other name" else "127.0.0.1"
    security_site.make_certificates(tmp_path, name, days=-1 if fault == "expired" else 1)
    server.start()
    ca = "" if fault == "no authority" else str(certificates / "ca.crt")
    async with trying(buses.BusSettings(url=server.url, tls_ca=ca)) as joining:
        line = await line_with(words, said)
        assert '"level":"error"' in line
        assert not joining.done()
        if fault == "no authority":
            return
        # Once the certificate is right, the client connects without a restart.
        for name in ("ca.crt", "ca.key"):
            shutil.copy(certificates / name, tmp_path)
        security_site.make_certificates(tmp_path, "127.0.0.1")
        server.kill()
        server.start()
        assert (await asyncio.wait_for(joining, waiting.WAIT_S)).connected


async def test_an_authority_that_is_replaced_is_read_at_the_next_connection(
    server: nats_site.NatsServer, tmp_path: pathlib.Path
) -> None:
    security_site.make_certificates(tmp_path, "127.0.0.1")
    server.start()
    settings = buses.BusSettings(url=server.url, tls_ca=str(tmp_path / "ca.crt"))
    async with security_site.connected(settings, role=roles.Role.SCHEDULER) as bus:
        (tmp_path / "ca.key").unlink()
        security_site.make_certificates(tmp_path, "127.0.0.1")
        server.kill()
        await waiting.until(lambda: not bus.connected)
        server.start()
        await waiting.until(lambda: bus.connected)
        assert bus.traffic.reconnects


async def test_a_server_that_wants_a_clients_certificate_gets_one(
    server: nats_site.NatsServer, tmp_path: pathlib.Path, said: io.StringIO
) -> None:
    security_site.make_certificates(tmp_path, "127.0.0.1")
    ca = str(tmp_path / "ca.crt")
    strict = nats_site.NatsServer(tmp_path / "strict", extra=tls_of(tmp_path, ca_file=ca, verify=True)).start()
    try:
        async with trying(buses.BusSettings(url=strict.url, tls_ca=ca)) as joining:
            await line_with("certificate", said)
            assert not joining.done()
        shown: dict[str, Any] = {"tls_cert": str(tmp_path / "tls.crt"), "tls_key": str(tmp_path / "tls.key")}
        settings = buses.BusSettings(url=strict.url, tls_ca=ca, **shown)
        async with security_site.connected(settings, role=roles.Role.SCHEDULER) as bus:
            assert bus.connected
    finally:
        strict.kill()


class Impostor:
    """Someone on the way who speaks NATS; keeps what it was sent."""

    def __init__(self, *answers: bytes, hello: bytes = INFO) -> None:
        self._hello = hello
        self._answers = answers
        self.heard = b""
        self._writers: list[asyncio.StreamWriter] = []
        self.port = 0

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator["Impostor"]:
        server = await asyncio.start_server(self._speak, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for writer in self._writers:
                writer.transport.abort()
            await asyncio.sleep(0.05)

    async def _speak(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        with contextlib.suppress(OSError):
            writer.write(self._hello)
            while line := await reader.readline():
                self.heard += line
                if line.startswith(b"PING"):
                    for answer in self._answers:
                        writer.write(answer)
                        await writer.drain()
                        await asyncio.sleep(0.05)
                    if not self._answers:
                        break
        writer.close()


@pytest.mark.parametrize("by", ["tls_ca", "url"])
async def test_a_token_is_never_sent_where_tls_was_taken_away(
    certificates: pathlib.Path, tmp_path: pathlib.Path, by: str, said: io.StringIO
) -> None:
    (tmp_path / "token").write_text("secret")
    async with Impostor(b"PONG\r\n").listening() as impostor:
        url = f"{'tls' if by == 'url' else 'nats'}://127.0.0.1:{impostor.port}"
        ca = str(certificates / "ca.crt") if by == "tls_ca" else ""
        settings = buses.BusSettings(url=url, token_file=str(tmp_path / "token"), tls_ca=ca)
        async with trying(settings) as joining:
            await line_with("does not offer TLS", said)
            assert not joining.done()
        assert b"CONNECT" not in impostor.heard
        assert b"secret" not in impostor.heard


async def test_a_server_that_pings_before_it_answers_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Impostor(b"PING\r\n", b"PONG\r\n").listening() as impostor:
        settings = buses.BusSettings(url=f"nats://127.0.0.1:{impostor.port}")
        async with trying(settings) as joining:
            assert (await asyncio.wait_for(joining, waiting.WAIT_S)).connected
            await waiting.until(lambda: b"PONG" in impostor.heard)


async def test_a_server_that_hangs_up_in_place_of_an_answer_is_not_taken_for_a_yes(
    monkeypatch: pytest.MonkeyPatch, said: io.StringIO
) -> None:
    monkeypatch.setattr(connection_options, "RECONNECT_MOST_S", connection_options.RECONNECT_FIRST_S)
    impostor = Impostor()
    async with impostor.listening(), trying(buses.BusSettings(url=f"nats://127.0.0.1:{impostor.port}")) as joining:
        await line_with("before it let us in", said)
        files = len(os.listdir("/proc/self/fd"))
        await waiting.until(lambda: impostor.heard.count(b"CONNECT") > 10)
        assert not joining.done()
        # What came to nothing leaves nothing open.
        assert len(os.listdir("/proc/self/fd")) <= files + 4


@pytest.mark.parametrize("hello", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"INFO not json\r\n", b"\x15\x03\x01"])
async def test_connecting_to_another_protocol_does_not_hang(
    hello: bytes, certificates: pathlib.Path, monkeypatch: pytest.MonkeyPatch, said: io.StringIO
) -> None:
    monkeypatch.setattr(connection_options, "CONNECT_TIMEOUT_S", 0.3)
    async with Impostor(hello=hello).listening() as impostor:
        settings = buses.BusSettings(url=f"nats://127.0.0.1:{impostor.port}", tls_ca=str(certificates / "ca.crt"))
        async with trying(settings) as joining:
            assert "NATS " in await line_with('"level":"warning"', said)
            assert not joining.done()


async def test_tls_to_a_silent_port_does_not_hang(
    certificates: pathlib.Path, monkeypatch: pytest.MonkeyPatch, said: io.StringIO
) -> None:
    monkeypatch.setattr(connection_options, "CONNECT_TIMEOUT_S", 0.3)
    hello = INFO.replace(b'"proto":1', b'"proto":1,"tls_required":true')
    async with Impostor(hello=hello).listening() as impostor:
        settings = buses.BusSettings(url=f"nats://127.0.0.1:{impostor.port}", tls_ca=str(certificates / "ca.crt"))
        async with trying(settings) as joining:
            assert "NATS " in await line_with('"level":"warning"', said)
            assert not joining.done()


@pytest.mark.parametrize(
    ("given", "words"),
    [({"tls_ca": "FOLDER/nowhere"}, "TLS with .*nowhere.*No such file"),
     ({"tls_ca": "FOLDER/bad"}, "expected certificates"),
     ({"tls_ca": "CA", "tls_cert": "CA"}, "expected certificates and a key"),
     ({"nkey": "FOLDER/bad"}, r"bad, expected the seed of an nkey \(SU")],
)  # fmt: skip
async def test_a_file_that_is_no_good_is_named(
    given: dict[str, Any], words: str, certificates: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "bad").write_text("secret")
    paths = {
        k: v.replace("FOLDER", str(tmp_path)).replace("CA", str(certificates / "ca.crt")) for k, v in given.items()
    }
    with pytest.raises(errors.SettingsError, match=words) as caught:
        await nats_bus.connect(buses.BusSettings(**paths), name="x", clock=clock.SystemClock())
    assert "secret" not in str(caught.value)


async def test_a_repeated_error_is_logged_once(said: io.StringIO) -> None:
    watch = connection_options.Watch(logs.get("bus"), buses.BusSettings(), clock=clock.SystemClock())
    for _ in range(5):
        await watch.on_error(OSError("connection refused"))
        await watch.on_error(errors.BusError("Permissions Violation for Publish to x"))
    assert len(said.getvalue().splitlines()) == 2
    await watch.on_reconnect()
    await watch.on_error(OSError("connection refused"))
    assert said.getvalue().count("NATS is away") == 2


async def test_a_credentials_file_is_shown_with_its_signature(tmp_path: pathlib.Path) -> None:
    from carico_core.runtime.bus.security import nkeys

    seed = nkeys.generate(nkeys.Kind.USER)
    (tmp_path / "x.creds").write_text(
        f"-----BEGIN NATS USER JWT-----\njwt.of.user\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )
    hello = INFO.replace(b'"proto":1', b'"proto":1,"nonce":"abc","auth_required":true')
    async with Impostor(b"PONG\r\n", hello=hello).listening() as impostor:
        settings = buses.BusSettings(url=f"nats://127.0.0.1:{impostor.port}", credentials=str(tmp_path / "x.creds"))
        async with trying(settings) as joining:
            await asyncio.wait_for(joining, waiting.WAIT_S)
        assert b'"jwt": "jwt.of.user"' in impostor.heard
        assert b'"sig": "' in impostor.heard
        assert seed.encode() not in impostor.heard
        assert subjects.PREFIX.encode() not in impostor.heard


async def test_a_message_that_no_server_takes_is_not_tried_again(tmp_path: pathlib.Path) -> None:
    """Who waits for a bus that is away would otherwise wait for this one without end."""
    server = nats_site.NatsServer(tmp_path).start()
    bus = await nats_bus.connect(buses.BusSettings(url=server.url), name="x", clock=clock.SystemClock())
    try:
        with pytest.raises(
            errors.BusError, match=r"carico\.v1\.model: the message is larger than the server"
        ) as refused:
            await bus.publish(subjects.MODEL, bytes(3 << 20))
        assert not isinstance(refused.value, errors.BusUnavailable)
        await bus.publish(subjects.MODEL, b"x")
    finally:
        await bus.close()
        server.kill()


async def test_an_answer_that_no_server_takes_comes_as_an_error_that_says_so(tmp_path: pathlib.Path) -> None:
    server = nats_site.NatsServer(tmp_path).start()
    bus = await nats_bus.connect(buses.BusSettings(url=server.url), name="x", clock=clock.SystemClock())

    async def listed(_: bytes) -> bytes:
        return bytes(3 << 20)

    try:
        await bus.serve(buses.ServiceSpec(name="carico-aggregator", description="", endpoints={"nodes.list": listed}))
        with pytest.raises(
            errors.BusError, match=r"nodes\.list: the answer has 3145728 bytes, more than NATS delivers"
        ):
            await bus.request(subjects.query("aggregator", "nodes.list"), b"", timeout_s=waiting.WAIT_S)
    finally:
        await bus.close()
        server.kill()


async def test_a_service_that_is_asked_without_end_listens_to_no_question_for_a_while(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nats_client, "DEAF_S", 1.0)
    monkeypatch.setattr(nats_client, "QUESTIONS_A_SECOND", 100)
    server = nats_site.NatsServer(tmp_path / "nats")
    server.start()

    async def answer(_: bytes) -> bytes:
        return b"yes"

    async def is_answered() -> bool:
        try:
            return await asker.request(subject, b"", timeout_s=0.5) == b"yes"
        except errors.BusUnavailable:  # nothing listens, or it was one too many
            return False

    settings = buses.BusSettings(url=server.url)
    service, asker = [await nats_bus.connect(settings, name=name, clock=clock.SystemClock()) for name in ("a", "b")]
    try:
        subject = subjects.query("scheduler", "capacity.list")
        spec = buses.ServiceSpec(name="carico-scheduler", description="", endpoints={"capacity.list": answer})
        await service.serve(spec)
        heard: list[bytes] = []
        await service.subscribe(subjects.MODEL, lambda _, payload: heard.append(payload))
        assert await is_answered()
        async with asyncio.timeout(waiting.WAIT_S):
            # Again if the pause is over before this machine has come to ask.
            while await is_answered():
                for _ in range(1_000):
                    await asker.publish(subject, b"")
        await asker.publish(subjects.MODEL, b"other")
        await waiting.until(lambda: heard == [b"other"])
        async with asyncio.timeout(waiting.WAIT_S):
            while not await is_answered():
                await asyncio.sleep(0.02)
    finally:
        await service.close()
        await asker.close()
        server.stop()
