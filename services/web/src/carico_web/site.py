"""Answer requests: the page's files, its settings, its identity on the bus, and the service's health; its metrics."""

import dataclasses
import hashlib
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from carico_core.runtime.observe import health
from carico_core.runtime.observe import metrics as metric
from carico_web import identity
from carico_web import settings as setting

# Only what this server serves; no inline code, no framing.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'{bus}; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Server": "carico-web",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
PAGE = pathlib.Path(__file__).parent / "page"
INDEX = "/"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
ANSWER_BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.02, 0.1, 1.0)
_JSON = "application/json"
SETTINGS_PATH = "/settings.json"
IDENTITY_PATH = "/identity"
# Kubelets and Prometheus request these by address, not by a name of the page.
_HEALTH_PATHS = ("/healthz", "/readyz", "/metrics")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request. `path` has no query; names of headers are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A response."""

    status: int
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file as it is sent."""

    content_type: str
    body: bytes
    tag: str


def read_files() -> Mapping[str, File]:
    """Return path in the URL -> file; index.html is `/`. Files of unknown types are skipped.

    index.html names all modules, so that a browser fetches them at once and not one level of imports after another.
    """
    read = {
        INDEX if place.name == "index.html" else f"/{place.relative_to(PAGE).as_posix()}": (
            _TYPES[place.suffix], place.read_bytes(),
        )
        for place in sorted(PAGE.rglob("*")) if place.suffix in _TYPES
    }  # fmt: skip
    modules = [name for name, (_, body) in read.items() if name.endswith(".js") and b"\nexport " in body]
    links = "".join(f'<link rel="modulepreload" href="{name}">\n' for name in modules).encode()
    found = {}
    for name, (content_type, body) in read.items():
        if name == INDEX:
            body = body.replace(b"</head>", links + b"</head>")
        tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        found[name] = File(content_type=content_type, body=body, tag=tag)
    return found


class Instruments:
    """The server's metrics: carico_web_..."""

    def __init__(self, metrics: metric.Metrics) -> None:
        self.responses = metrics.counter("responses", "responses by status", ["status"])
        self.answer_s = metrics.histogram("answer_seconds", "time to compute a response", buckets=ANSWER_BUCKETS_S)


class Site:
    """Answer requests. Without I/O and without state of its own."""

    def __init__(
        self, chosen: setting.WebSettings, files: Mapping[str, File], who: identity.Identity,
        checks: health.Health, series: metric.Metrics,
    ) -> None:  # fmt: skip
        self._chosen = chosen
        self._files = files
        self._who = who
        self._checks = checks
        self._series = series
        self._hosts = chosen.allowed_hosts()

    def answer(self, request: Request) -> Response:
        """Return the response to a request."""
        if request.path in _HEALTH_PATHS:
            return self._health(request.path)
        host = host_name(request.headers.get("host", ""))
        if host not in self._hosts and setting.ANY_HOST not in self._hosts:
            return _text(421, f"this page is not served under the name {host!r}: name it in CARICO_WEB_HOSTS")
        handler, method = self._handler(request.path)
        if handler is None:
            return _text(404, "not found")
        if request.method not in method:
            return _text(405, f"expected {' or '.join(method)}")
        return handler(request, host)

    def _handler(self, path: str) -> tuple["_Handler | None", tuple[str, ...]]:
        if path == IDENTITY_PATH:
            return self._identity, ("POST",)
        if path == SETTINGS_PATH:
            return self._settings, ("GET", "HEAD")
        return (self._file if path in self._files else None), ("GET", "HEAD")

    def _file(self, request: Request, host: str) -> Response:
        file = self._files[request.path]
        bus = self._address(host)
        headers = {
            **_HEADERS,
            "Content-Security-Policy": _POLICY.format(bus=f" {bus}" if bus else ""),
            # Revalidated on each load and sent again only when it differs: a new version shows at once.
            "Cache-Control": "no-cache",
            "ETag": file.tag,
        }
        if request.headers.get("if-none-match") == file.tag:
            return Response(status=304, content_type=file.content_type, headers=headers)
        return Response(status=200, body=file.body, content_type=file.content_type, headers=headers)

    def _settings(self, request: Request, host: str) -> Response:
        return _json(
            {
                "cluster": self._chosen.cluster,
                "bus": self._address(host),
                "identity": not isinstance(self._who, identity.Anyone),
                "lease_s": self._chosen.lease_s,
            }
        )

    def _identity(self, request: Request, host: str) -> Response:
        # Browsers report which site a request comes from; another site's is refused.
        if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return _text(403, "expected a request from this page")
        if request.headers.get("content-type", "").partition(";")[0].strip() != _JSON:
            return _text(415, f"expected {_JSON}")
        trouble = self._who.trouble()
        if trouble is not None:
            return _text(503, trouble)
        try:
            asked = orjson.loads(request.body)
            nonce = asked.get("nonce") if isinstance(asked, dict) else None
            return _json(self._who.shown(nonce if isinstance(nonce, str) else ""))
        except (orjson.JSONDecodeError, identity.BadNonce) as error:
            return _text(400, str(error))

    def _health(self, path: str) -> Response:
        if path == "/metrics":
            return Response(status=200, body=self._series.render(), content_type=metric.CONTENT_TYPE)
        failing = self._checks.not_ready() if path == "/readyz" else self._checks.not_alive()
        said = "".join(f"{name}: {why}\n" for name, why in failing.items()) or "ok\n"
        return _text(503 if failing else 200, said.rstrip("\n"))

    def _address(self, host: str) -> str:
        return self._chosen.bus_websocket.replace(setting.HOST_FIELD, host)


_Handler = Callable[[Request, str], Response]


def host_name(host: str) -> str:
    """Return the name in a Host header, without its port; "" if it has other characters.

    >>> host_name("Node-1:8090"), host_name("[::1]:80"), host_name("a b")
    ('node-1', '[::1]', '')
    """
    name = host.lower()
    name = name[: name.find("]") + 1] if name.startswith("[") else name.partition(":")[0]
    # It is copied into a header: only characters of names and addresses.
    return name if all(letter.isalnum() or letter in ".-[]:" for letter in name) and name.isascii() else ""


def _json(values: dict[str, Any]) -> Response:
    headers = {**_HEADERS, "Cache-Control": "no-store"}
    return Response(status=200, body=orjson.dumps(values), content_type=_JSON, headers=headers)


def _text(status: int, text: str) -> Response:
    return Response(status=status, body=f"{text}\n".encode(), headers=_HEADERS)
