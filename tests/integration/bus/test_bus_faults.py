"""The bus when NATS is killed, frozen, too old, late or configured otherwise: on a real server."""

import asyncio
import base64
import contextlib
import json
import os
import pathlib
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import nats
import nats.errors
import nats.micro.service
import pytest
from nats.js import api

from carico_core.domain import errors
from carico_core.runtime.bus import connection_options, nats_bus, nats_client
from carico_core.runtime.bus import port as buses
from carico_core.runtime.bus.security import refusals, renewal
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock
from carico_core.wire import streams, subjects
from carico_local import nats_server
from carico_local.cluster import free_ports
from tests.tools import waiting
from tests.tools.sites import nats_site

# A reconnect is due within 2 s plus jitter; tests allow four times that.
BACK_S = 8.0
# What waits in the queue goes after a third of it: longer than a slow machine takes for any of these tests.
LEASE_S = 300.0


async def pull(bus: nats_bus.NatsBus, into: list[bytes]) -> None:
    """Keep and acknowledge whatever the queue holds, until cancelled."""
    async for batch in bus.pull():
        into += [item.payload for item in batch]
        await bus.acknowledge(batch)


def join(server: nats_site.NatsServer, name: str = "member", **settings: Any) -> "asyncio.Future[nats_bus.NatsBus]":
    chosen = buses.BusSettings(url=server.url, **{"lease_s": LEASE_S, **settings})
    return asyncio.ensure_future(nats_bus.connect(chosen, name=name, clock=clock.SystemClock()))


@pytest.fixture
async def server(tmp_path: pathlib.Path) -> AsyncIterator[nats_site.NatsServer]:
    found = nats_site.NatsServer(tmp_path / "nats").start()
    try:
        yield found
    finally:
        found.kill()


async def test_after_a_kill_everything_goes_on_and_nothing_stored_is_lost(server: nats_site.NatsServer) -> None:
    bus = await join(server)
    seen: list[bytes] = []
    pulled: list[bytes] = []
    back: list[bool] = []
    bus.on_reconnect(lambda: back.append(True))
    await bus.subscribe(subjects.CAPACITY_ALL, lambda _, payload: seen.append(payload))
    await bus.put_model(b"model")

    puller = asyncio.create_task(pull(bus, pulled))
    try:
        await asyncio.sleep(0.1)
        server.kill()
        await waiting.until(lambda: not bus.connected, within_s=BACK_S)
        with pytest.raises(errors.BusUnavailable):
            await bus.publish(subjects.capacity("n1"), b"lost on purpose")
        server.start()
        await waiting.until(lambda: bus.connected and back, within_s=BACK_S)
        await bus.publish(subjects.capacity("n1"), b"after")
        await waiting.answered(bus.backlog)
        await bus.publish(subjects.subspace("n1"), b"queued")
        await waiting.until(lambda: seen and pulled)
        assert seen == [b"after"]
        assert pulled == [b"queued"]
        assert await bus.get_model() == b"model"
    finally:
        puller.cancel()
        await asyncio.gather(puller, return_exceptions=True)
        await bus.close()


async def test_a_server_that_comes_late_is_waited_for(tmp_path: pathlib.Path) -> None:
    late = nats_site.NatsServer(tmp_path / "nats")
    joining = join(late)
    await asyncio.sleep(0.5)
    assert not joining.done()
    late.start()
    try:
        bus = await asyncio.wait_for(joining, BACK_S)
        assert bus.connected
        await bus.close()
    finally:
        late.kill()


async def test_a_frozen_server_is_noticed(server: nats_site.NatsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_options, "PING_INTERVAL_S", 1)
    bus = await join(server)
    os.kill(server.pid, signal.SIGSTOP)
    try:
        await waiting.until(lambda: not bus.connected, within_s=16.0)
    finally:
        os.kill(server.pid, signal.SIGCONT)
    await waiting.until(lambda: bus.connected, within_s=BACK_S)
    assert bus.traffic.reconnects
    await bus.close()


@pytest.mark.parametrize("is_reconnecting", [False, True])
async def test_leaving_a_frozen_server_that_has_not_taken_everything_cancels_no_caller(
    server: nats_site.NatsServer, is_reconnecting: bool
) -> None:
    """nats-py's reconnecting and its closing wait for the end of the same connection, which no server takes part in."""
    bus = await join(server)
    os.kill(server.pid, signal.SIGSTOP)
    sending = asyncio.ensure_future(bus.publish(subjects.capacity("n1"), b"x" * 2**20))
    try:
        # More than the kernel keeps for a server that reads nothing.
        for _ in range(30):
            sending = asyncio.ensure_future(bus.publish(subjects.capacity("n1"), b"x" * 2**20))
            await asyncio.wait([sending], timeout=0.05)
        await bus._client._process_op_err(nats.errors.StaleConnectionError())
        await asyncio.sleep(0.1)
        if is_reconnecting:
            await waiting.until(lambda: bus._client._reconnection_task_future, within_s=4 * nats_client.CLOSE_MOST_S)
        reconnecting = bus._client._reconnection_task
        assert reconnecting is not None and not reconnecting.done()
        await asyncio.wait_for(bus.close(), waiting.WAIT_S)
    finally:
        sending.cancel()
        os.kill(server.pid, signal.SIGCONT)


async def test_a_stream_of_another_configuration_is_named_with_the_difference(server: nats_site.NatsServer) -> None:
    first = await join(server, lease_s=10.0)
    with pytest.raises(errors.StreamMismatch, match=r"CARICO_CAPACITY.*max_age is 10\.0, expected 20.*nats stream rm"):
        await join(server, lease_s=20.0)
    await first.close()


async def test_an_old_server_is_refused_in_one_line() -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"server_id":"x","version":"2.9.10","max_payload":1048576,"headers":true,"proto":1}\r\n')
        while line := await reader.readline():
            if line.startswith(b"PING"):
                writer.write(b"PONG\r\n")
        writer.close()

    old = await asyncio.start_server(speak, "127.0.0.1", 0)
    port = old.sockets[0].getsockname()[1]
    try:
        settings = buses.BusSettings(url=f"nats://127.0.0.1:{port}")
        with pytest.raises(errors.BusTooOld, match=r"version 2\.9\.10; CARICO needs 2\.12 or later"):
            await asyncio.wait_for(nats_bus.connect(settings, name="x", clock=clock.SystemClock()), waiting.WAIT_S)
    finally:
        old.close()
        await old.wait_closed()


async def test_a_credentials_file_that_is_not_there_is_named() -> None:
    settings = buses.BusSettings(credentials="/nowhere/agent.creds")
    with pytest.raises(errors.SettingsError, match=r"/nowhere/agent\.creds, expected a file"):
        await nats_bus.connect(settings, name="x", clock=clock.SystemClock())


async def test_a_server_that_comes_back_empty_gets_its_streams_again(server: nats_site.NatsServer) -> None:
    bus = await join(server)
    pulled: list[bytes] = []
    puller = asyncio.create_task(pull(bus, pulled))
    try:
        await asyncio.sleep(0.1)
        server.kill()
        shutil.rmtree(server.directory / "store")
        server.start()
        number = 0
        async with asyncio.timeout(BACK_S):
            while not pulled:
                number += 1
                with contextlib.suppress(errors.BusUnavailable):
                    await bus.publish(subjects.subspace("n1"), b"%d" % number)
                await asyncio.sleep(0.05)
        assert set(pulled) <= {b"%d" % sent for sent in range(1, number + 1)}
    finally:
        puller.cancel()
        await bus.close()


async def test_a_server_that_comes_back_with_an_older_state_takes_and_gives_what_is_new(
    server: nats_site.NatsServer,
) -> None:
    """Restored from a backup: the sequences of all streams, and that of the consumer, go back."""
    bus = await join(server)
    pulled: list[bytes] = []
    puller = asyncio.create_task(pull(bus, pulled))
    store, backup = server.directory / "store", server.directory / "backup"

    async def is_given(text: bytes) -> bool:
        with contextlib.suppress(errors.BusUnavailable):
            await bus.publish(subjects.subspace("n1"), text)
            await bus.publish(subjects.capacity("n1"), text)
            await bus.put_model(text)
            return (
                text in pulled
                and await bus.get_model() == text
                and (subjects.capacity("n1"), text) in (await bus.latest_capacities())
            )
        return False

    try:
        await waiting.answered(lambda: is_given(b"old"))
        server.stop()
        shutil.copytree(store, backup)
        server.start()
        for number in range(20):
            await waiting.answered(lambda number=number: is_given(b"lost %d" % number))  # type: ignore[misc]
        server.kill()
        shutil.rmtree(store)
        backup.rename(store)
        server.start()
        async with asyncio.timeout(BACK_S):
            while not await is_given(b"new"):
                await asyncio.sleep(0.05)
    finally:
        puller.cancel()
        await bus.close()


async def test_a_store_without_room_is_named_and_is_used_once_it_has_room(tmp_path: pathlib.Path) -> None:
    """Too small for what streams reserve; and, later, made smaller than what they hold."""
    port, troubles = free_ports.choose_one(), list[refusals.Trouble]()

    def server(size_mib: int) -> nats_site.NatsServer:
        config = {"store_dir": str(tmp_path / "nats" / "store"), "max_file_store": size_mib << 20}
        return nats_site.NatsServer(tmp_path / "nats", port=port, extra={"jetstream": config})

    now = server(64).start()
    settings = buses.BusSettings(url=now.url, lease_s=LEASE_S)
    joining = asyncio.ensure_future(
        nats_bus.connect(settings, name="x", clock=clock.SystemClock(), on_trouble=troubles.append)
    )
    try:
        await waiting.until(lambda: any("max_file_store" in each.text for each in troubles))
        assert not joining.done()
        now.kill()
        now = server(512).start()
        bus = await asyncio.wait_for(joining, waiting.WAIT_S)
        seen: list[bytes] = []
        await bus.subscribe(subjects.CAPACITY_ALL, lambda _, payload: seen.append(payload))
        await waiting.answered(lambda: is_kept(bus, b"old", size=2 << 20))
        now.stop()
        now = server(1).start()
        await waiting.until(lambda: bus.connected, within_s=BACK_S)
        await waiting.answered(lambda: why_not_kept(bus), lambda why: "insufficient resources" in why)
        await waiting.answered(lambda: is_heard(bus, seen, b"not stored"))
        now.stop()
        now = server(512).start()
        await waiting.answered(lambda: is_kept(bus, b"new"))
        await bus.close()
    finally:
        joining.cancel()
        now.kill()


async def is_kept(bus: nats_bus.NatsBus, text: bytes, *, size: int = 0) -> bool:
    """Whether the model, and the report of a node, are kept; with reports of others of so many bytes."""
    with contextlib.suppress(errors.BusUnavailable):
        for number in range(size // 30_000):
            await bus.publish(subjects.capacity(f"other-{number}"), b"x" * 30_000)
        await bus.publish(subjects.capacity("n1"), text)
        await bus.put_model(text)
        return await bus.get_model() == text and (subjects.capacity("n1"), text) in await bus.latest_capacities()
    return False


async def why_not_kept(bus: nats_bus.NatsBus) -> str:
    """Why the model is not kept; empty if it is."""
    try:
        await bus.put_model(b"x" * 1000)
    except errors.BusUnavailable as error:
        return str(error)
    return ""


async def is_heard(bus: nats_bus.NatsBus, seen: Sequence[bytes], text: bytes) -> bool:
    """Whether a report reaches who listens."""
    with contextlib.suppress(errors.BusUnavailable):
        await bus.publish(subjects.capacity("n1"), text)
    return text in seen


async def test_streams_are_asked_for_until_they_stand_after_a_reconnect(
    server: nats_site.NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus = await join(server)
    asked: list[str] = []
    stream_info = bus._js.stream_info

    async def first_too_early(name: str) -> api.StreamInfo:
        asked.append(name)
        if len(asked) <= 2:
            raise TimeoutError
        return await stream_info(name)

    monkeypatch.setattr(bus._js, "stream_info", first_too_early)
    try:
        server.kill()
        shutil.rmtree(server.directory / "store")
        server.start()
        async with asyncio.timeout(2 * BACK_S):
            while not await is_stored(bus):
                await asyncio.sleep(0.05)
        assert len(asked) > 2
    finally:
        await bus.close()


@pytest.mark.parametrize("deleted", ["every stream", "the consumer"])
async def test_what_is_deleted_while_everyone_is_connected_is_made_again_and_filled(
    server: nats_site.NatsServer, capsys: pytest.CaptureFixture[str], deleted: str
) -> None:
    logs.setup(service="test", json=True, level="info")
    bus, other = await join(server), await join(server, "other")
    pulled: list[bytes] = []
    pullers = [asyncio.create_task(pull(each, pulled)) for each in (bus, other)]
    administrator = (await nats.connect(server.url)).jetstream()
    try:
        await bus.publish(subjects.subspace("n1"), b"first")
        await waiting.until(lambda: pulled)
        if deleted == "the consumer":
            await administrator.delete_consumer(streams.SUBSPACES, streams.CONSUMER)
        else:
            for name in streams.ALL:
                await administrator.delete_stream(name)
        pulled.clear()
        # Required within 10 s; agents and aggregators repeat what they have, as here.
        async with asyncio.timeout(4 * 10.0):
            while not (pulled and await is_stored(bus) and await bus.get_model() and await bus.latest_capacities()):
                await bus.publish(subjects.subspace("n1"), b"again")
                await bus.publish(subjects.capacity("n1"), b"again")
                await asyncio.sleep(0.2)
        said = [line for line in capsys.readouterr().err.splitlines() if "made again" in line]
        named = [name for line in said for name in json.loads(line)["streams"]]
        whole = [f"{streams.SUBSPACES}/{streams.CONSUMER}"] if deleted == "the consumer" else list(streams.ALL)
        assert set(whole) <= set(named)
        assert 1 <= len(said) <= 2, "one line of each who made some"
    finally:
        for task in pullers:
            task.cancel()
        await asyncio.gather(*pullers, return_exceptions=True)
        await administrator._nc.close()
        await bus.close()
        await other.close()


async def is_stored(bus: nats_bus.NatsBus) -> bool:
    try:
        await bus.put_model(b"1")
    except errors.BusUnavailable:
        return False
    return True


async def test_a_server_without_jetstream_is_refused_in_one_line() -> None:
    port = free_ports.choose_one()
    process = await asyncio.create_subprocess_exec(
        str(nats_server.binary()), "-a", "127.0.0.1", "-p", str(port), stderr=asyncio.subprocess.DEVNULL
    )
    try:
        settings = buses.BusSettings(url=f"nats://127.0.0.1:{port}")
        with pytest.raises(errors.EnvironmentUnfit, match="without JetStream: start it with `nats-server -js`"):
            await asyncio.wait_for(nats_bus.connect(settings, name="x", clock=clock.SystemClock()), waiting.WAIT_S)
    finally:
        process.terminate()
        await process.wait()


@pytest.mark.parametrize("outcome", [None, nats.errors.NoRespondersError()])
async def test_a_cancellation_that_the_client_loses_is_raised_again(
    server: nats_site.NatsServer, monkeypatch: pytest.MonkeyPatch, outcome: Exception | None
) -> None:
    bus = await join(server)
    began = asyncio.Event()
    monkeypatch.setattr(bus._js, "publish", losing(began, outcome))
    task = asyncio.create_task(bus.put_model(b"1"))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await bus.close()


@pytest.mark.parametrize("outcome", [None, nats.errors.NoServersError()])
async def test_a_cancellation_lost_while_connecting_ends_the_wait(
    server: nats_site.NatsServer, monkeypatch: pytest.MonkeyPatch, outcome: Exception | None
) -> None:
    began = asyncio.Event()
    connect, lose = nats_client.Client.connect, losing(began, outcome)

    async def connect_and_lose(client: nats_client.Client, **options: Any) -> None:
        await connect(client, **options)
        await lose()

    monkeypatch.setattr(nats_client.Client, "connect", connect_and_lose)
    joining = join(server)
    await began.wait()
    joining.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(joining, waiting.WAIT_S)


def losing(
    began: asyncio.Event, outcome: Exception | None, after_s: float = waiting.WAIT_S
) -> Callable[..., Awaitable[None]]:
    """A call that does what asyncio.wait_for before Python 3.12 does where its outcome and a cancellation meet."""

    async def lose(*_: object, **__: object) -> None:
        began.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(after_s)
        if outcome is not None:
            raise outcome

    return lose


async def test_the_connection_is_renewed_before_its_token_expires(tmp_path: pathlib.Path) -> None:
    expires_s = int(clock.SystemClock().wall_ns() / 1e9) + 3
    header, claims = (
        base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (b'{"alg":"RS256"}', b'{"exp":%d}' % expires_s)
    )
    token = tmp_path / "token"
    token.write_text(f"{header}.{claims}.signature\n")
    server = nats_site.NatsServer(
        tmp_path / "nats", extra={"authorization": {"token": token.read_text().strip()}}
    ).start()
    try:
        settings = buses.BusSettings(url=server.url, token_file=str(token))
        bus = await nats_bus.connect(settings, name="x", clock=clock.SystemClock())
        back = asyncio.Event()
        bus.on_reconnect(back.set)
        await asyncio.wait_for(back.wait(), BACK_S)
        await bus.publish(subjects.capacity("n1"), b"still allowed")
        assert bus.connected
        await bus.close()
    finally:
        server.stop()


async def test_bytes_that_are_no_text_end_the_reading_of_nothing(server: nats_site.NatsServer) -> None:
    bus = await join(server)
    seen: list[bytes] = []

    await bus.subscribe(subjects.CAPACITY_ALL, lambda _, payload: seen.append(payload))
    await bus.serve(buses.ServiceSpec(name="carico-x", description="x", endpoints={"echo": _echo}))
    host, port = server.url.removeprefix("nats://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(b'CONNECT {"verbose":false,"headers":true}\r\n')
    writer.write(b"PUB carico.v1.capacity.\xff 1\r\n1\r\n")
    writer.write(b"PUB $SRV.PING _INBOX.\xff 0\r\n\r\n")
    writer.write(b"HPUB $SRV.PING _INBOX.a 17 17\r\nNATS/1.0 \xff\xff\xff \r\n\r\n\r\n")
    writer.write(b"PUB carico.v1.capacity.a 1\r\n2\r\n")
    await waiting.until(lambda: seen == [b"1", b"2"])
    assert await bus.request(subjects.query("x", "echo"), b"still", timeout_s=waiting.WAIT_S) == b"still"
    writer.close()
    await bus.close()


async def test_what_somebody_sends_to_the_inbox_of_a_puller_is_no_message_of_the_queue(
    server: nats_site.NatsServer,
) -> None:
    bus = await join(server)
    other = await nats.connect(server.url)
    pulled: list[bytes] = []
    asked = await other.subscribe("$JS.API.CONSUMER.MSG.NEXT.>")
    # Or the PING goes out before the subscription, and the first request, half a minute before the next, is missed.
    await asyncio.sleep(0)
    await other.flush()

    async def pull() -> None:
        async for batch in bus.pull():
            await bus.acknowledge(batch)
            pulled.extend(item.payload for item in batch)

    pulling = asyncio.create_task(pull())
    inbox = (await asked.next_msg(timeout=waiting.WAIT_S)).reply
    await other.publish(inbox, b"not of the queue")
    await other.publish(inbox, b"not of the queue", reply="carico.v1.capacity.a")
    await other.flush()
    await bus.publish(subjects.subspace("n1"), b"1")
    await waiting.until(lambda: pulled == [b"1"])
    pulling.cancel()
    await asyncio.gather(pulling, return_exceptions=True)
    assert bus.connected
    await other.close()
    await bus.close()


async def test_a_renewal_that_fails_for_good_ends_the_connection_at_once_and_not_with_its_token(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.setup(service="test", json=True, level="info", stream=sys.stdout)

    async def fail(_: object) -> None:
        raise RuntimeError("a bug in the renewal")

    monkeypatch.setattr(renewal.Renewal, "run", fail)
    token = tmp_path / "token"
    token.write_text("x")
    asking = nats_site.NatsServer(tmp_path / "asking", extra={"authorization": {"token": "x"}}).start()
    try:
        settings = buses.BusSettings(url=asking.url, token_file=str(token))
        bus = await nats_bus.connect(settings, name="x", clock=clock.SystemClock())
        with pytest.raises(errors.BusUnavailable, match="closed for good"):
            await asyncio.wait_for(bus.wait_closed(), waiting.WAIT_S)
        await bus.close()
    finally:
        asking.kill()
    # The service ends by it, while the connection itself still worked.
    assert "the connection is not renewed any more" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("of", "call", "error"),
    [
        (nats.micro.service.Service, "add_endpoint", nats.errors.Error("away")),
        # A server that stands still: what was sent is not confirmed, and it works through all of it when it goes on.
        (nats_client.Client, "flush", nats.errors.FlushTimeoutError()),
    ],
)
async def test_a_service_that_could_not_be_made_answers_nothing(
    server: nats_site.NatsServer, monkeypatch: pytest.MonkeyPatch, of: type, call: str, error: Exception
) -> None:
    bus = await join(server)
    spec = buses.ServiceSpec(name="carico-x", description="x", endpoints={"echo": _echo})
    with monkeypatch.context() as broken:
        broken.setattr(of, call, losing(asyncio.Event(), error, 0.0))
        with pytest.raises(errors.BusUnavailable):
            await bus.serve(spec)
    assert await bus.service_stats("carico-x", within_s=0.2) == []
    await bus.serve(spec)
    await waiting.answered(lambda: bus.service_stats("carico-x", within_s=0.5), lambda found: len(found) == 1)
    await bus.close()


async def _echo(payload: bytes) -> bytes:
    return payload


async def test_many_large_messages_are_read_whole_from_a_server_that_lets_little_wait(tmp_path: pathlib.Path) -> None:
    # A page that a slow machine does not finish in time is requested again while the first still waits to be sent.
    server = nats_site.NatsServer(tmp_path / "nats", extra={"max_pending": 4 * 2**20}).start()
    bus = await join(server)
    try:
        for number in range(600):
            await bus.publish(subjects.capacity(f"n{number}"), b"x" * 30_000)
        found = await waiting.answered(bus.latest_capacities, lambda found: len(found) == 600)
        assert {len(payload) for _, payload in found} == {30_000}
        assert bus.traffic.reconnects == 0
    finally:
        await bus.close()
        server.kill()
