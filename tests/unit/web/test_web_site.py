"""What the page's server answers, to whom, and with which headers."""

import asyncio
import base64
import pathlib
import re
from typing import Any

import orjson
import pytest

from carico_core.domain import errors
from carico_core.runtime.bus.security import nkeys
from carico_core.runtime.observe import health, metrics
from carico_core.runtime.process import clock as clocks
from carico_core.wire import roles
from carico_local.cluster.services import web_access
from carico_web import identity, service, site
from carico_web import settings as setting

SECRETS = ("SU", "SA")


def make(who: identity.Identity | None = None, **given: Any) -> site.Site:
    chosen = setting.WebSettings(**given)
    who = who or identity.Anyone()
    checks = health.Health({"identity": who.trouble})
    return site.Site(chosen, site.read_files(), who, checks, metrics.Metrics("web"))


def get(path: str, *, host: str = "localhost:8090", method: str = "GET", **headers: str) -> site.Request:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return site.Request(method=method, path=path, headers={"host": host, **named})


def post(nonce: object, **headers: str) -> site.Request:
    body = orjson.dumps({"nonce": nonce})
    named = {"content-type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    request = get("/identity", method="POST")
    return site.Request(method="POST", path="/identity", headers={**request.headers, **named}, body=body)


def test_every_file_that_the_page_names_is_given_out() -> None:
    answers, files = make(), site.read_files()
    named = set()
    for file in files.values():
        text = file.body.decode()
        named |= set(re.findall(r'(?:src|href)="(/[^"]*)"', text))
        named |= {f"/{name}" for name in re.findall(r'from "\./([^"]+)"', text)}
    assert len(named) > 15
    for path in named:
        assert answers.answer(get(path)).status == 200, path
    assert named | {"/"} == set(files), "a file that nothing names"


def test_the_page_reaches_for_nothing_elsewhere() -> None:
    for path, file in site.read_files().items():
        # Addresses in comments are for people; SVG names its own namespace.
        code = re.sub(r"^\s*//.*$|/\*.*?\*/", "", file.body.decode(), flags=re.MULTILINE | re.DOTALL)
        found = [each for each in re.findall(r"https?://[^\s\"'`)]+", code) if "w3.org/2000/svg" not in each]
        assert not found, path
        assert "innerHTML" not in code, path
        assert "eval(" not in code, path


def test_the_policy_lets_in_only_our_files_and_the_bus() -> None:
    answer = make(bus_websocket="ws://{host}:9222").answer(get("/", host="127.0.0.1:8090"))
    policy = dict(part.split(" ", 1) for part in answer.headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == "'self'"
    assert policy["connect-src"] == "'self' ws://127.0.0.1:9222"
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_the_page_has_no_inline_code_that_the_policy_would_stop() -> None:
    text = site.read_files()["/"].body.decode()
    assert not re.search(r"<script(?![^>]*\ssrc=)", text)
    assert not re.search(r"\s(on\w+|style)=", text)


def test_the_page_names_every_module_so_that_none_waits_for_another() -> None:
    files = site.read_files()
    said = files["/"].body.decode()
    named = set(re.findall(r'<link rel="modulepreload" href="/([^"]+)">', said.partition("</head>")[0]))
    imported = {
        name for path, file in files.items() if path.endswith(".js")
        for name in re.findall(r'^import .* from "\./([^"]+)"', file.body.decode(), flags=re.M)
    }  # fmt: skip
    assert named == imported


def test_an_unchanged_file_is_answered_with_304() -> None:
    answers = make()
    first = answers.answer(get("/main.js"))
    again = answers.answer(get("/main.js", if_none_match=first.headers["ETag"]))
    assert (first.status, again.status, again.body) == (200, 304, b"")


def test_settings_name_the_bus_as_the_browser_reaches_it() -> None:
    answer = make(bus_websocket="ws://{host}:9222", cluster="demo").answer(get("/settings.json", host="[::1]:8090"))
    assert orjson.loads(answer.body) == {
        "cluster": "demo", "bus": "ws://[::1]:9222", "identity": False, "lease_s": 10.0,
    }  # fmt: skip
    assert answer.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8090", "", "localhost.evil.example", 'a"b'])
def test_another_name_is_refused(host: str) -> None:
    answer = make().answer(get("/settings.json", host=host))
    assert answer.status == 421
    assert b"CARICO_WEB_HOSTS" in answer.body


def test_hosts_star_accepts_any_name() -> None:
    assert make(hosts="*").answer(get("/", host="page.example")).status == 200
    assert make(hosts="Page.Example, other").answer(get("/", host="page.example:443")).status == 200


def test_probes_are_answered_under_any_name() -> None:
    for path in ("/healthz", "/readyz", "/metrics"):
        assert make().answer(get(path, host="10.0.0.7:8080")).status == 200


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [("/nothing", "GET", 404), ("/../settings.py", "GET", 404), ("/", "POST", 405), ("/identity", "GET", 405)],
)
def test_unknown_paths_and_methods_are_refused(path: str, method: str, status: int) -> None:
    assert make().answer(get(path, method=method)).status == status


def seed_file(folder: pathlib.Path, kind: nkeys.Kind = nkeys.Kind.USER) -> pathlib.Path:
    path = folder / "reader.nk"
    path.write_text(nkeys.generate(kind))
    return path


def test_the_nonce_is_signed_and_the_seed_stays(tmp_path: pathlib.Path) -> None:
    path = seed_file(tmp_path)
    answer = make(identity.Key(path)).answer(post("PXoWU7zWAMt75FY"))
    shown = orjson.loads(answer.body)
    signature = base64.urlsafe_b64decode(shown["sig"] + "==")
    assert nkeys.verify(shown["nkey"], nkeys.Kind.USER, b"PXoWU7zWAMt75FY", signature)
    assert path.read_text().encode() not in answer.body


@pytest.mark.parametrize("nonce", ["", "short", "x" * 65, "with space here", None, 7, "CONNECT {}\r\n"])
def test_only_nonces_are_signed(tmp_path: pathlib.Path, nonce: object) -> None:
    assert make(identity.Key(seed_file(tmp_path))).answer(post(nonce)).status == 400


def test_another_site_gets_no_signature(tmp_path: pathlib.Path) -> None:
    answers = make(identity.Key(seed_file(tmp_path)))
    assert answers.answer(post("PXoWU7zWAMt75FY", sec_fetch_site="cross-site")).status == 403
    assert answers.answer(post("PXoWU7zWAMt75FY", content_type="text/plain")).status == 415


def test_a_token_is_read_from_its_file_each_time(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "token"
    answers = make(identity.Token(path))
    assert answers.answer(post("")).status == 503
    path.write_text("a.b.c\n")
    assert orjson.loads(answers.answer(post("")).body) == {"auth_token": "a.b.c"}


def test_not_ready_without_the_identity_that_it_was_given(tmp_path: pathlib.Path) -> None:
    missing = make(identity.Key(tmp_path / "none")).answer(get("/readyz"))
    wrong = make(identity.Key(seed_file(tmp_path, nkeys.Kind.ACCOUNT))).answer(get("/readyz"))
    assert (missing.status, wrong.status) == (503, 503)
    assert not any(mark in wrong.body.decode().split(": ", 2)[2][:3] for mark in SECRETS)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"bus_websocket": "http://nats:9222"}, "--bus-websocket: got 'http://nats:9222'"),
        ({"bus_websocket": "ws://nats:port"}, "expected ws://HOST"),
        ({"bus_websocket": "ws://nats:1; script-src *"}, "expected ws://HOST"),
        ({"nkey": "a", "token_file": "b"}, "got both"),
        ({"hosts": " , "}, "--hosts: got none"),
    ],
)
def test_invalid_settings_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(errors.SettingsError, match=re.escape(said)):
        setting.WebSettings(**given)


async def send_bytes(port: int, payload: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(payload)
    try:
        return await reader.read(-1)
    finally:
        writer.close()


async def test_pages_and_malformed_requests_over_a_socket(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "LINGER_S", 0.1)
    async with service.listening(setting.WebSettings(http_port=0), clock=clocks.SystemClock()) as server:
        host = f"Host: localhost:{server.port}\r\nConnection: close\r\n\r\n".encode()
        page = await send_bytes(server.port, b"GET / HTTP/1.1\r\n" + host)
        head = await send_bytes(server.port, b"HEAD / HTTP/1.1\r\n" + host)
        bad = await send_bytes(server.port, b"hello\r\n\r\n")
        # Not a byte more than it reads to see that: Linux resets a connection that is closed with bytes unread.
        endless = b"GET / HTTP/1.1\r\nX: " + b"x" * 8191
        long = await send_bytes(server.port, endless)
        body = await send_bytes(server.port, b"POST /identity HTTP/1.1\r\nContent-Length: 99999\r\n" + host)
    assert page.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"<title>CARICO</title>" in page
    assert head.endswith(b"\r\n\r\n")
    assert bad.split(b" ")[1] == long.split(b" ")[1] == b"400"
    assert body.startswith(b"HTTP/1.1 413 ")
    assert not caplog.records, "anybody can send malformed requests"


async def test_stopping_closes_idle_connections(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A browser opens connections before it needs them, and keeps those that it has used."""
    monkeypatch.setattr(service, "REQUEST_TIMEOUT_S", 1e6)
    monkeypatch.setattr(service, "STOP_TIMEOUT_S", 1e6)
    async with asyncio.timeout(60):
        async with service.listening(setting.WebSettings(http_port=0), clock=clocks.SystemClock()) as server:
            idle, idle_writer = await asyncio.open_connection("127.0.0.1", server.port)
            asked, asked_writer = await asyncio.open_connection("127.0.0.1", server.port)
            asked_writer.write(b"GET /settings.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert (await asked.readuntil(b"}")).startswith(b"HTTP/1.1 200 OK\r\n")
        assert await idle.read(-1) == await asked.read(-1) == b""
        for writer in (idle_writer, asked_writer):
            writer.close()
    assert not caplog.records


async def test_connections_beyond_the_limit_are_closed_and_others_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "CONNECTIONS_MOST", 1)
    async with service.listening(setting.WebSettings(http_port=0), clock=clocks.SystemClock()) as server:
        first, first_writer = await asyncio.open_connection("127.0.0.1", server.port)
        assert await send_bytes(server.port, b"") == b""
        first_writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert (await first.read(-1)).endswith(b"ok\n")
        first_writer.close()


async def test_an_address_with_all_connections_keeps_no_other_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kubelet's probes come to the same port: it would restart a page that anyone can open."""
    monkeypatch.setattr(service, "CONNECTIONS_MOST", 4)
    async with service.listening(setting.WebSettings(http_port=0), clock=clocks.SystemClock()) as server:
        idle = [
            await asyncio.open_connection("127.0.0.1", server.port, local_addr=("127.0.0.2", 0)) for _ in range(6)
        ]  # fmt: skip
        probe = b"GET /healthz HTTP/1.1\r\nHost: 10.0.0.1\r\nConnection: close\r\n\r\n"
        assert (await send_bytes(server.port, probe)).endswith(b"ok\n")
        for _, writer in idle:
            writer.close()


async def test_a_connection_without_a_request_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "REQUEST_TIMEOUT_S", 0.05)
    monkeypatch.setattr(service, "LINGER_S", 0.1)
    async with service.listening(setting.WebSettings(http_port=0), clock=clocks.SystemClock()) as server:
        unfinished = b"POST /identity HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 9\r\n\r\n{"
        assert await send_bytes(server.port, b"") == b""
        assert (await send_bytes(server.port, unfinished)).startswith(b"HTTP/1.1 408 ")


async def test_a_taken_port_gives_one_line() -> None:
    async with service.listening(setting.WebSettings(http_port=0), clock=clocks.SystemClock()) as server:
        second = setting.WebSettings(http_port=server.port)
        with pytest.raises(errors.EnvironmentUnfit, match="give --http-port another port"):
            async with service.listening(second, clock=clocks.SystemClock()):
                pass


@pytest.mark.parametrize("path", ["compose/nats/nats.conf", "deploy/k8s/components/web/web.conf"])
def test_no_server_of_ours_takes_websockets_from_everywhere(path: str) -> None:
    text = (pathlib.Path(__file__).parents[3] / path).read_text(encoding="utf-8")
    block = re.search(r"^websocket \{(.*?)^\}", text, flags=re.MULTILINE | re.DOTALL)
    assert block is not None
    assert "allowed_origins" in block[1]


def test_the_local_websocket_is_for_readers_from_the_page() -> None:
    access = web_access.WebAccess(websocket_port=1, page_port=2)
    config = web_access.configuration(access, "secret")
    assert config["websocket"]["allowed_origins"] == ["http://127.0.0.1:2", "http://localhost:2", "http://[::1]:2"]
    users = {user["user"]: user for account in config["accounts"].values() for user in account["users"]}
    assert [user["user"] for user in config["accounts"]["READERS"]["users"]] == ["reader"]
    reader = users[config["websocket"]["no_auth_user"]]
    assert reader["allowed_connection_types"] == ["STANDARD", "WEBSOCKET"]
    assert set(reader["permissions"]["publish"]["allow"]) == set(roles.permissions(roles.Role.READER).publish)
    assert "no_auth_user" not in config
    assert {user["password"] for user in users.values()} == {"secret"}
    assert users["local"]["allowed_connection_types"] == ["STANDARD"]
