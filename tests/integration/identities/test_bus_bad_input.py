"""Wrong keys, tokens, authorities, servers and limits: log, readiness, metric and doctor say which and what to do.

Each case at a real server: a client that is let in stays connected and is heard meanwhile.
"""

import asyncio
import contextlib
import dataclasses
import io
import json
import pathlib
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from carico_auth import arrangements, key_folder
from carico_cli.doctor import bus as bus_checks
from carico_cli.doctor import findings, places
from carico_cli.live import addresses, connection
from carico_core.domain import errors
from carico_core.runtime.bus import nats_bus
from carico_core.runtime.bus import port as buses
from carico_core.runtime.bus.security import nkeys, refusals
from carico_core.runtime.kube import api_client
from carico_core.runtime.observe import client_metrics, logs, metrics
from carico_core.wire import roles, subjects
from tests.tools import waiting
from tests.tools.sites import nats_site, security_site

AGENT = security_site.ACCOUNTS[roles.Role.AGENT]
# A doctor's patience, for a server on this machine.
DOCTOR_S = 5.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Settings that are not let in, the kind of trouble, and the words that name what, where and what to do."""

    settings: buses.BusSettings
    kind: refusals.Kind
    words: tuple[str, ...]
    # Settings of an agent that is let in; None: the server lets in no client that it should.
    other: buses.BusSettings | None


@pytest.fixture(scope="module")
def static(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[nats_site.NatsServer, key_folder.KeyFolder]]:
    """A server with keys, and the room for two agents."""
    root = tmp_path_factory.mktemp("static")
    keys = key_folder.KeyFolder(root / "keys")
    config: dict[str, Any] = arrangements.static(keys, nodes=[], tls=None).config
    config["accounts"]["AGENTS"]["limits"]["max_connections"] = 2
    server = nats_site.NatsServer(root / "nats", extra=config).start()
    yield server, keys
    server.kill()


@pytest.fixture(scope="module")
def callout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[security_site.Site]:
    with security_site.running(tmp_path_factory.mktemp("callout"), replicas=1) as site:
        yield site


@pytest.fixture
def said() -> io.StringIO:
    """What is logged."""
    out = io.StringIO()
    logs.setup(service="test", json=True, stream=out)
    return out


STATIC = ("key of another cluster", "nothing shown")
CALLOUT = ("expired token", "revoked token", "token of another cluster", "no token in the file", "authority changed")


def with_keys(name: str, server: nats_site.NatsServer, keys: key_folder.KeyFolder, folder: pathlib.Path) -> Case:
    other = buses.BusSettings(url=server.url, nkey=str(keys.path("agent")))
    path = folder / "own.nk"
    if name == "nothing shown":
        bad = buses.BusSettings(url=server.url)
        return Case(
            settings=bad, kind=refusals.Kind.IDENTITY, words=("show nothing", "CARICO_BUS_NKEY"), other=other
        )  # fmt: skip
    seed = nkeys.generate(nkeys.Kind.USER)
    path.write_text(seed)
    words = (nkeys.Signer(seed).public, str(path), re.escape(server.url), "another cluster, or retired", "bus-config")
    bad = buses.BusSettings(url=server.url, nkey=str(path))
    return Case(settings=bad, kind=refusals.Kind.IDENTITY, words=words, other=other)


def with_tokens(name: str, site: security_site.Site, folder: pathlib.Path) -> Case:
    other, file = site.role_settings(roles.Role.AGENT, "staying"), folder / "token"
    who, where = "serviceaccount:carico:carico-agent", re.escape(str(file))
    reason = "carico_auth_refusals_total"
    words: tuple[str, ...]
    if name == "authority changed":
        changed = security_site.make_certificates(folder / "tls", "127.0.0.1") / "ca.crt"
        bad = dataclasses.replace(other, tls_ca=str(changed))
        words = (re.escape(site.url), "not signed by an authority in " + re.escape(str(changed)), "was it changed")
        return Case(settings=bad, kind=refusals.Kind.CERTIFICATE, words=words, other=other)
    token, words = "", (where, "cannot be read")
    if name == "expired token":
        token, words = site.api.token(AGENT, node="n1", life_s=-100.0), (who, where, r"expired 1\d\d s ago", "kubelet")
    elif name == "revoked token":
        token, words = site.api.token(AGENT, node="gone"), (who, where, "revoked", reason)
        site.api.delete_pods_of("gone")
    elif name == "token of another cluster":
        token, words = site.api.token(AGENT, node="n1", secret=b"x" * 32), (who, where, "another cluster", reason)
    bad = site.settings(token, file=file)
    return Case(settings=bad, kind=refusals.Kind.IDENTITY, words=words, other=other)


@pytest.mark.parametrize("name", STATIC)
async def test_a_client_without_a_valid_key_reports_which_and_what_to_do(
    name: str, static: tuple[nats_site.NatsServer, key_folder.KeyFolder], tmp_path: pathlib.Path, said: io.StringIO
) -> None:
    await check(with_keys(name, *static, tmp_path), said)


@pytest.mark.parametrize("name", CALLOUT)
async def test_a_client_without_a_valid_token_or_authority_reports_which_and_what_to_do(
    name: str, callout: security_site.Site, tmp_path: pathlib.Path, said: io.StringIO
) -> None:
    await check(with_tokens(name, callout, tmp_path), said)


@pytest.mark.parametrize("key", ["xkey", "issuer"])
async def test_a_callout_with_a_key_of_another_cluster_lets_no_client_in_and_ends_no_connection(
    key: str, tmp_path: pathlib.Path
) -> None:
    series = client_metrics.BusMetrics(metrics.Metrics("test"))
    with security_site.running(tmp_path, replicas=1) as site:
        (auth,) = site.callouts
        async with site.joined(roles.Role.AGENT, "staying") as staying:
            auth.kill()
            security_site.write_seed(
                site.root / f"{key}.nk", nkeys.Kind.CURVE if key == "xkey" else nkeys.Kind.ACCOUNT
            )  # fmt: skip
            await asyncio.to_thread(auth.start)
            async with trying(site.role_settings(roles.Role.AGENT, "new"), series):
                await waiting.until(lambda: "carico-auth" in (series.why_not() or ""))
            if key == "xkey":
                assert auth.metric('carico_auth_refusals_total{reason="not_a_request"}') >= 1.0
                assert "is --xkey the key of this cluster" in auth.log.read_text()
            else:
                assert "rong issuer for auth callout" in (site.nats.directory / "nats.log").read_text()
            assert staying.connected
            assert not staying.traffic.reconnects


async def test_an_account_without_room_for_another_connection(
    static: tuple[nats_site.NatsServer, key_folder.KeyFolder], said: io.StringIO
) -> None:
    server, keys = static
    settings = buses.BusSettings(url=server.url, nkey=str(keys.path("agent")))
    words = (re.escape(server.url), "account active connections exceeded", "AGENTS 12000", "/connz")
    case = Case(settings=settings, kind=refusals.Kind.LIMIT, words=words, other=settings)
    async with security_site.connected(settings, role=roles.Role.AGENT):
        await check(case, said)


async def test_a_server_without_accounts_is_not_shown_a_key(tmp_path: pathlib.Path, said: io.StringIO) -> None:
    (tmp_path / "own.nk").write_text(nkeys.generate(nkeys.Kind.USER))
    server = nats_site.NatsServer(tmp_path / "nats").start()
    try:
        settings = buses.BusSettings(url=server.url, nkey=str(tmp_path / "own.nk"))
        words = (re.escape(server.url), "no accounts", "carico bus-config", "is not sent")
        await check(Case(settings=settings, kind=refusals.Kind.NO_ACCOUNTS, words=words, other=None), said)
    finally:
        server.kill()


async def test_a_password_of_an_earlier_start(tmp_path: pathlib.Path, said: io.StringIO) -> None:
    server = nats_site.NatsServer(tmp_path / "nats", extra=arrangements.loopback("new")).start()
    try:
        old, new = (
            buses.BusSettings(url=server.url.replace("://", f"://{arrangements.AGENTS}:{password}@"))
            for password in ("old-secret", "new")
        )
        words = (re.escape(server.url), "user agent", "of an earlier start")
        await check(Case(settings=old, kind=refusals.Kind.IDENTITY, words=words, other=new), said)
        assert "old-secret" not in said.getvalue()
    finally:
        server.kill()


async def test_a_server_that_is_too_old_is_named_with_its_version_and_the_one_needed() -> None:
    hello = {
        "server_id": "x",
        "version": "2.9.10",
        "max_payload": 2**20,
        "headers": True,
        "proto": 1,
        "jetstream": True,
    }

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"INFO " + json.dumps(hello).encode() + b"\r\n")
        while line := await reader.readline():
            if line.startswith(b"PING"):
                writer.write(b"PONG\r\n")
        writer.close()

    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    url = f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        words = (url.removeprefix("nats://"), r"2\.9\.10", r"2\.12 or later", "upgrade the server")
        (found,) = await doctor(buses.BusSettings(url=url))
        assert all(re.search(each, found.detail) for each in words), found
    finally:
        server.close()


async def check(case: Case, said: io.StringIO) -> None:
    """Assert what a service, its metric and its page, and the doctor say, and that no other client is disturbed."""
    series = client_metrics.BusMetrics(registry := metrics.Metrics("test"))
    async with contextlib.AsyncExitStack() as stack:
        other = None
        if case.other is not None:
            other = await stack.enter_async_context(
                security_site.connected(case.other, role=roles.Role.AGENT)
            )  # fmt: skip
        await stack.enter_async_context(trying(case.settings, series))
        await waiting.until(lambda: matches(case, series.why_not() or ""))
        await waiting.until(lambda: any(matches(case, line) for line in errors_of(said)))
        counted = registry.registry.get_sample_value("carico_bus_troubles_total", {"kind": case.kind.value})
        assert counted is not None
        assert counted >= 1.0
        (found,) = await doctor(case.settings)
        assert found.level is findings.Level.FAIL
        assert matches(case, found.detail), found.detail
        assert "docs/security.md" in found.do
        if other is not None:
            assert other.connected
            assert not other.traffic.reconnects
            await other.publish(subjects.capacity("staying"), b"{}")


def matches(case: Case, text: str) -> bool:
    return all(re.search(each, text) for each in case.words)


def errors_of(said: io.StringIO) -> list[str]:
    lines = [json.loads(line) for line in said.getvalue().splitlines()]
    return [line.get("error", "") for line in lines if line["level"] == "error"]


@contextlib.asynccontextmanager
async def trying(settings: buses.BusSettings, series: client_metrics.BusMetrics) -> AsyncIterator[None]:
    """A service that goes on trying."""
    joining = asyncio.ensure_future(
        nats_bus.connect(
            settings, name="test", clock=security_site.CLOCK, owns_streams=False, on_trouble=series.trouble
        )
    )
    try:
        yield
        assert not joining.done()
    finally:
        joining.cancel()
        await asyncio.gather(joining, return_exceptions=True)


async def doctor(settings: buses.BusSettings) -> list[findings.Finding]:
    """What `carico doctor` finds with these settings."""
    at = addresses.Address(name="elsewhere", bus=settings, kube=api_client.KubeSettings())

    async def connect() -> bus_checks.Bus:
        return await connection.join(at, security_site.CLOCK, name="doctor", within_s=DOCTOR_S)

    with contextlib.suppress(errors.BusError):
        return await bus_checks.check(connect, [], lease_s=10.0, now_s=0.0, at=at, place=places.Place.of(at, "carico"))
    return []
