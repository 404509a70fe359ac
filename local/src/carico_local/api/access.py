"""Access to the API: only with the cluster's token, and under one of the API's own names.

A client of the API can run commands on the machine, and any page in a browser on the machine can send requests to its
port. Four checks keep pages and other users out: the token, which is in files of mode 0600; the Host
header, which is wrong after DNS rebinding, where a page makes its own name resolve to this address; the Origin header,
which browsers add to requests of other sites' pages; and a required Content-Type, since browsers send bodies without
one across sites without asking the server first (CORS).
"""

import base64
import hmac
import json
import pathlib
import secrets
import urllib.parse
from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Any, TypeAlias

from carico_local import atomic_files
from carico_local.api.model import statuses

if TYPE_CHECKING:
    from carico_core.runtime.process.connections import web

# Names of this machine's loopback, with an IPv6 address in brackets as in a URL.
OWN_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})
# Served without a token: probes have none, and the answer is one word.
HEALTH_PATHS = ("/healthz", "/livez", "/readyz")
_TOKEN_BYTES = 32
_USER = "carico"

_HINT = (
    'this cluster\'s API needs its token, which is in the kubeconfig that `eval "$(carico env)"` sets, and changes '
    "when the cluster is created again"
)
_HOSTS_HINT = "add other names with --host-names"

Handler: TypeAlias = "Callable[[web.Request], Awaitable[web.StreamResponse]]"


def guard(token: str | None, hosts: Collection[str], *, hint: str = _HINT, hosts_hint: str = _HOSTS_HINT) -> Any:
    """Return the middleware that admits requests with the token; None: TLS has verified the client's certificate.

    `hosts`: allowed names besides loopback's. For error messages: `hint`, where to find the token, and `hosts_hint`,
    what to do about another name.
    """
    # Imported here: commands use this module for the token, and an HTTP server takes a fifth of a second to import.
    from carico_core.runtime.process import connections
    from carico_core.runtime.process.connections import web

    pair = base64.b64encode(f"{_USER}:{token}".encode()).decode()
    expected = (f"Bearer {token}".encode(), f"Basic {pair}".encode())
    allowed = OWN_HOSTS | {host.lower() for host in hosts}

    @web.middleware
    async def check(request: "web.Request", handler: Handler) -> "web.StreamResponse":
        _check_host(request, allowed, hosts_hint)
        _check_origin(request)
        given = request.headers.get("Authorization", "").encode(errors="replace")
        is_known = token is None or any(hmac.compare_digest(given, each) for each in expected)
        if request.path not in HEALTH_PATHS and not is_known:
            raise statuses.unauthorized(f"Unauthorized: {hint}")
        if is_known:
            connections.note_known(request)
        # aiohttp's `body_exists` is true for any DELETE.
        has_body = bool(request.content_length) or "Transfer-Encoding" in request.headers
        if has_body and not request.headers.get("Content-Type", "").strip():
            raise statuses.no_media_type()
        return await handler(request)

    return check


def obtain_token(path: pathlib.Path) -> str:
    """Return the token in a file; create the file with a random token where it is missing."""
    try:
        # A copy or an archive may have made it readable to others.
        path.chmod(0o600)
        token = path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        token = ""
    if not token:
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        atomic_files.write(path, token.encode())
    return token


def kubelet_token(token: str, node: str) -> str:
    """Return the token with which the API reads a node's logs, derived from the cluster's token.

    It is not the cluster's own: any process of this machine may listen on the port of a node that has ended.
    """
    return hmac.new(token.encode(), f"logs of {node}".encode(), "sha256").hexdigest()


def write_kubeconfig(path: pathlib.Path, *, name: str, url: str, token: str) -> None:
    """Write a kubeconfig that only its owner can read.

    It contains the token twice: over plain HTTP, kubectl ignores the token in `users` and sends the one in the URL (as
    the password of basic authentication); other clients do the opposite.
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
    atomic_files.write(path, json.dumps(config, indent=1).encode())


def _check_host(request: "web.Request", allowed: Collection[str], hint: str) -> None:
    """Raise `RequestFailed` (403) for a foreign Host. Any port is allowed: published and forwarded ones differ."""
    host = request.headers.get("Host", "")
    name, colon, port = host.rpartition(":")
    if not colon or "]" in port:
        name, port = host, "80"
    if name.lower() not in allowed or not port.isdecimal():
        listed = ", ".join(sorted(allowed))
        raise statuses.RequestFailed(403, "Forbidden", f"got the Host {host!r}, expected one of {listed}: {hint}")


def _check_origin(request: "web.Request") -> None:
    """Raise `RequestFailed` (403) for a request from another site's page: only browsers send an Origin."""
    origin = request.headers.get("Origin")
    if origin is not None and urllib.parse.urlsplit(origin).netloc.lower() != request.headers.get("Host", "").lower():
        raise statuses.RequestFailed(
            403, "Forbidden", f"got a request from the web page at {origin!r}: pages of other sites are refused"
        )
