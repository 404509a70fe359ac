"""A bus with TLS and identities: a NATS server, replicas of the auth callout as processes, and a fake of the API."""

import asyncio
import contextlib
import pathlib
import shutil
import subprocess
import time
import urllib.request
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from nats.aio.client import Client

from carico_auth import server_config
from carico_core.runtime.bus import nats_bus, nats_client
from carico_core.runtime.bus import port as buses
from carico_core.runtime.bus.security import nkeys, tls, token_expiry
from carico_core.runtime.process import clock
from carico_core.wire import roles
from carico_local.cluster import free_ports
from tests.tools import service_process, waiting
from tests.tools.api import fake_token_api, real_tokens
from tests.tools.sites import nats_site

WAIT_S = waiting.WAIT_S
SCRIPT = pathlib.Path(__file__).parents[3] / "deploy/nats/certificates.sh"
CLOCK = clock.SystemClock()
ACCOUNTS: dict[roles.Role, str] = {role: f"carico/carico-{role.value}" for role in roles.MEMBERS}


def make_certificates(directory: pathlib.Path, *names: str, days: int = 1) -> pathlib.Path:
    """The directory, with ca.crt, tls.crt and tls.key for `names`."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl command for certificates")
    environ = {"DAYS": str(days), "PATH": "/usr/local/bin:/usr/bin:/bin"}
    subprocess.run([str(SCRIPT), str(directory), *names], check=True, env=environ, capture_output=True)
    return directory


def tls_of(certificates: pathlib.Path) -> server_config.Tls:
    """Return the server's configuration for certificates of `make_certificates`."""
    return server_config.Tls(cert=str(certificates / "tls.crt"), key=str(certificates / "tls.key"))


def write_seed(path: pathlib.Path, kind: nkeys.Kind) -> str:
    """The public key of a new seed in `path`."""
    seed = nkeys.generate(kind)
    path.write_text(seed + "\n", encoding="ascii")
    path.chmod(0o600)
    return (nkeys.Sealer(seed) if kind is nkeys.Kind.CURVE else nkeys.Signer(seed)).public


class Auth:
    """One replica of carico-auth, as a process."""

    def __init__(self, log: pathlib.Path, *flags: str) -> None:
        self.port = free_ports.choose_one()
        self.log = log
        self._flags = ("--http-port", str(self.port), *flags)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it, and waits until it is ready to answer."""
        self._process = service_process.start(self.log, "carico_auth", *self._flags)
        deadline_s = time.monotonic() + 2 * WAIT_S
        while not self.is_ready():
            assert self._process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline_s, self.log.read_text()
            time.sleep(0.02)

    def kill(self) -> None:
        """Ends it at once."""
        if self._process is not None:
            service_process.end(self._process)
            self._process = None

    def stop(self) -> int:
        """Its exit code, once it has ended in order."""
        assert self._process is not None
        self._process.terminate()
        code = self._process.wait(WAIT_S)
        self._process = None
        return code

    def is_ready(self) -> bool:
        """Whether it says that it is ready."""
        return self.get("/readyz") is not None

    def metric(self, line: str) -> float:
        """The value of one series; 0 where it is not there yet."""
        # Waited for: no answer would read as zero.
        for each in (self.get("/metrics", within_s=WAIT_S) or "").splitlines():
            if each.startswith(line + " "):
                return float(each.split()[-1])
        return 0.0

    def get(self, path: str, *, within_s: float = 2.0) -> str | None:
        """A page of its health server; None where it says no, or does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=within_s) as answer:
                return str(answer.read().decode())
        except OSError:
            return None


class Site:
    """Everything, started and ended together."""

    def __init__(
        self, root: pathlib.Path, *,
        replicas: int = 2, callout_flags: Sequence[str] = (), tokens: real_tokens.RealTokens | None = None,
        server: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """`server`: more of its configuration."""
        self.root = root
        self.certificates = make_certificates(root / "tls", "127.0.0.1", "localhost")
        self.ca = self.certificates / "ca.crt"
        self.api = fake_token_api.TokenApi()
        # Where tokens come from and are reviewed: the small API, unless another is given.
        self.tokens = tokens or self.api
        self.kubeconfig = self.tokens.write_kubeconfig(root / "kubeconfig")
        config = server_config.callout(
            issuer=write_seed(root / "issuer.nk", nkeys.Kind.ACCOUNT),
            auth_keys=[write_seed(root / "auth.nk", nkeys.Kind.USER)],
            xkey=write_seed(root / "xkey.nk", nkeys.Kind.CURVE),
            owner_keys=[write_seed(root / "owner.nk", nkeys.Kind.USER)],
            tls=tls_of(self.certificates),
        )
        self.websocket_port = free_ports.choose_one()
        websocket = {
            "host": "127.0.0.1",
            "port": self.websocket_port,
            "tls": {k: config["tls"][k] for k in ("cert_file", "key_file")},
        }
        self.nats = nats_site.NatsServer(root / "nats", extra={**config, "websocket": websocket, **(server or {})})
        flags = (
            "--bus-url", self.url, "--bus-tls-ca", str(self.ca), "--bus-nkey", str(root / "auth.nk"),
            "--issuer", str(root / "issuer.nk"), "--xkey", str(root / "xkey.nk"), "--kubeconfig", str(self.kubeconfig),
            "--owners", ACCOUNTS[roles.Role.OWNER], "--reschedulers", ACCOUNTS[roles.Role.RESCHEDULER],
            "--remember-s", "0", *callout_flags,
        )  # fmt: skip
        self.callouts = [Auth(root / f"auth-{number}.log", *flags) for number in range(replicas)]

    @property
    def url(self) -> str:
        """Where clients connect; TLS is asked for by the settings."""
        return self.nats.url

    def start(self) -> "Site":
        """The site, ready."""
        self.nats.start()
        for callout in self.callouts:
            callout.start()
        return self

    def end(self) -> None:
        """Ends everything."""
        for callout in self.callouts:
            callout.kill()
        self.nats.kill()
        self.api.close()
        if self.tokens is not self.api:
            self.tokens.close()

    def settings(self, token: str | None = None, *, file: pathlib.Path | None = None, **more: Any) -> buses.BusSettings:
        """Settings of a client with this token, or the token in `file`."""
        if file is None and token is not None:
            file = self.root / f"token-{hash(token) & 0xFFFFFFFF:x}"
        if file is not None and token is not None:
            file.write_text(token, encoding="ascii")
        return buses.BusSettings(url=self.url, tls_ca=str(self.ca), token_file=str(file or ""), **more)

    def role_settings(self, role: roles.Role, node: str | None = None) -> buses.BusSettings:
        """Settings of a client of this role."""
        return self.settings(self.tokens.token(ACCOUNTS[role], node=node))

    @contextlib.asynccontextmanager
    async def joined(self, role: roles.Role, node: str | None = None) -> AsyncIterator[nats_bus.NatsBus]:
        """A connected client of a role."""
        async with connected(self.role_settings(role, node), role=role) as bus:
            yield bus


class Raw:
    """A client below the bus, which hears what NATS refuses."""

    def __init__(self, client: Client, refused: list[str]) -> None:
        self.client = client
        self._refused = refused

    async def settled(self) -> list[str]:
        """What was refused of all that was sent so far."""
        await asyncio.sleep(0)
        await self.client.flush()
        return self._refused


@contextlib.asynccontextmanager
async def raw(settings: buses.BusSettings, **more: Any) -> AsyncIterator[Raw]:
    """A raw client with these settings. Raises nats-py's error where it is not let in; it does not try again."""
    refused: list[str] = []

    async def on_error(error: Exception) -> None:
        refused.append(str(error))

    client = nats_client.Client(tls.context_maker(settings))
    shown = {"nkeys_seed": settings.nkey} if settings.nkey else {}
    if settings.token_file:
        shown = {"token": token_expiry.read(pathlib.Path(settings.token_file))}
    options = {
        "servers": settings.url, **shown, "error_cb": on_error, "allow_reconnect": False,
        "max_reconnect_attempts": 1, "connect_timeout": WAIT_S, **more,
    }  # fmt: skip
    try:
        await client.connect(**options)
        yield Raw(client, refused)
    finally:
        await client.close()


async def refused_of(peer: Raw, publish: Iterable[str], subscribe: Iterable[str]) -> tuple[set[str], set[str]]:
    """What NATS refuses of these subjects, for a client that tries them all."""
    for subject in publish:
        # Without an inbox: what a server would answer is not of interest.
        await peer.client.publish(subject, b"{}")
    for subject in subscribe:
        await peer.client.subscribe(subject)
    said = "\n".join(await peer.settled()).lower()
    return (
        {each for each in publish if f'permissions violation for publish to "{each.lower()}"' in said},
        {each for each in subscribe if f'permissions violation for subscription to "{each.lower()}"' in said},
    )


@contextlib.asynccontextmanager
async def connected(
    settings: buses.BusSettings, *, role: roles.Role, within_s: float = WAIT_S
) -> AsyncIterator[nats_bus.NatsBus]:
    """A client with these settings, closed at the end. Raises `TimeoutError` where it is not let in."""
    owns = role in (roles.Role.AGGREGATOR, roles.Role.SCHEDULER)
    async with asyncio.timeout(within_s):
        bus = await nats_bus.connect(
            settings, name=f"test-{role.value}", clock=CLOCK, owns_streams=owns, inbox=roles.inbox(role)
        )
    try:
        yield bus
    finally:
        await bus.close()


@contextlib.contextmanager
def running(root: pathlib.Path, **more: Any) -> Iterator[Site]:
    """A site, ended at the end."""
    site = Site(root, **more)
    try:
        yield site.start()
    finally:
        site.end()
