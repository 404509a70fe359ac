"""Who may use the API: holders of the cluster's token, who address it by one of its own names.

The API runs commands as the user who started it, and any page in a browser on the machine can send requests to its
port. Four checks keep pages and other users out: the token, which stands in files of mode 0600; the Host header, so
that a page's own name that is made to resolve to this address (DNS rebinding) is refused; the Origin header, which
browsers add to what a page of another site sends; a stated Content-Type, without which browsers send bodies unasked
(CORS).
"""

import base64
import hmac
import json
import os
import pathlib
import secrets
import urllib.parse
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from aiohttp import web

from carico_local.api.model import statuses

# The names of this machine's loopback; as a URL writes an IPv6 address, in brackets.
OWN_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})
# Answered to everyone: probes have no token, and the answer is one word.
HEALTH_PATHS = ("/healthz", "/livez", "/readyz")
_TOKEN_BYTES = 32
_USER = "carico"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def guard(token: str, hosts: Collection[str] = ()) -> Any:
    """Return the middleware that lets in requests with the token. `hosts`: names in addition to loopback's."""
    pair = base64.b64encode(f"{_USER}:{token}".encode()).decode()
    expected = (f"Bearer {token}".encode(), f"Basic {pair}".encode())
    allowed = OWN_HOSTS | {host.lower() for host in hosts}

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        _check_host(request, allowed)
        _check_origin(request)
        given = request.headers.get("Authorization", "").encode(errors="replace")
        is_known = any(hmac.compare_digest(given, each) for each in expected)
        if request.path not in HEALTH_PATHS and not is_known:
            raise statuses.unauthorized(
                "Unauthorized: this cluster's API needs its token, which is in the kubeconfig that "
                '`eval "$(carico env)"` sets, and changes when the cluster is created again'
            )
        # Not `body_exists`: aiohttp's says so of any DELETE.
        has_body = bool(request.content_length) or "Transfer-Encoding" in request.headers
        if has_body and not request.headers.get("Content-Type", "").strip():
            raise statuses.no_media_type()
        return await handler(request)

    return check


def obtain_token(path: pathlib.Path) -> str:
    """Return the token in a file, which is created with a random one where it is missing."""
    try:
        # Also where an archive or a copy has made it readable to others.
        path.chmod(0o600)
        token = path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        token = ""
    if not token:
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write_private(path, token)
    return token


def write_kubeconfig(path: pathlib.Path, *, name: str, url: str, token: str) -> None:
    """Write a kubeconfig that only its user can read.

    The token stands in it twice: over plain HTTP kubectl leaves out that of `users`, and sends that of the URL (as the
    password of HTTP's basic authentication); other clients do it the other way round.
    """
    scheme, _, address = url.partition("://")
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": f"{scheme}://{_USER}:{token}@{address}"}}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    _write_private(path, json.dumps(config, indent=1))


def _write_private(path: pathlib.Path, text: str) -> None:
    """Replace a file as a whole by one of mode 0600."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    fresh.rename(path)


def _check_host(request: web.Request, allowed: Collection[str]) -> None:
    """Raise `RequestFailed` (403) for a foreign Host. Any port: published and forwarded ones differ."""
    host = request.headers.get("Host", "")
    name, colon, port = host.rpartition(":")
    if not colon or "]" in port:
        name, port = host, "80"
    if name.lower() not in allowed or not port.isdecimal():
        listed = ", ".join(sorted(allowed))
        raise statuses.RequestFailed(
            403, "Forbidden", f"got the Host {host!r}, expected one of {listed}: add other names by --host-names"
        )


def _check_origin(request: web.Request) -> None:
    """Raise `RequestFailed` (403) for requests of another site's page: only browsers send an Origin."""
    origin = request.headers.get("Origin")
    if origin is not None and urllib.parse.urlsplit(origin).netloc.lower() != request.headers.get("Host", "").lower():
        raise statuses.RequestFailed(
            403, "Forbidden", f"got a request of the web page at {origin!r}: pages of other sites are refused"
        )
