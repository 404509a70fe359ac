"""A small Kubernetes API for tokens only: ServiceAccounts' tokens bound to Pods, TokenReview, and a watch of the Pods.

It keeps the same contract as a real kube-apiserver (tests/contract/test_token_reviews.py). Tokens are JWTs signed with
a secret of this API; a test may also have some made that have expired, which a real API does not do.
"""

import base64
import contextlib
import hashlib
import hmac
import http.server
import json
import pathlib
import secrets
import threading
import time
import urllib.parse
from collections.abc import Iterator
from typing import Any

from tests.tools import http_thread

AUDIENCE = "carico-nats"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
PODS = "/api/v1/namespaces/carico/pods"


class TokenApi(http_thread.Server):
    """The API, on a port of its own; `away`: it answers 503."""

    def __init__(self) -> None:
        self.away = False
        self.reviewed = 0
        self._secret = secrets.token_bytes(32)
        # Node of each Pod by its UID, and the watch's lines since the start.
        self._pods: dict[str, str] = {}
        self._events: list[dict[str, Any]] = []
        self._changed = threading.Condition()
        self._is_closed = False
        api = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Answers are small and in two writes: without this each waits 40 ms for the client's acknowledgement.
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status, answer = api._answer(self.path, body)
                payload = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)

            def do_GET(self) -> None:
                url = urllib.parse.urlsplit(self.path)
                asked = dict(urllib.parse.parse_qsl(url.query))
                if api.away or url.path != PODS:
                    self.send_error(503 if api.away else 404)
                    return
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                if "watch" not in asked:
                    payload = json.dumps(api._listed()).encode()
                    self.send_header("Content-Length", str(len(payload)))
                    self.end_headers()
                    self.wfile.write(payload)
                    return
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                # A client that ends leaves its watch.
                with contextlib.suppress(ConnectionError):
                    for line in api._events_from(
                        int(asked["resourceVersion"]), within_s=float(asked["timeoutSeconds"])
                    ):
                        self.wfile.write(b"%x\r\n%s\n\r\n" % (len(line) + 1, line))
                    self.wfile.write(b"0\r\n\r\n")

            def log_message(self, *_: object) -> None:
                return

        super().__init__(Handler)

    def write_kubeconfig(self, path: pathlib.Path, *, port: int | None = None) -> pathlib.Path:
        """Return a kubeconfig of this API. `port`: of a way to it, on this machine."""
        url = self.url if port is None else f"http://127.0.0.1:{port}"
        document = {
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {}}],
        }  # fmt: skip
        path.write_text(json.dumps(document), encoding="utf-8")
        return path

    def token(
        self, account: str, *, node: str | None = None, audience: str = AUDIENCE, life_s: float = 600.0,
        secret: bytes | None = None,
    ) -> str:  # fmt: skip
        """Return a token of `namespace/name`, bound to a new Pod on `node` if one is given."""
        namespace, name = account.split("/")
        claims: dict[str, Any] = {
            "aud": [audience], "exp": int(time.time() + life_s), "jti": secrets.token_hex(8),
            "sub": f"system:serviceaccount:{namespace}:{name}",
        }  # fmt: skip
        if node is not None:
            claims["pod"] = pod = secrets.token_hex(4)
            with self._changed:
                self._pods[pod] = node
                self._note("ADDED", pod)
        signed = f"{_encode(b'{}')}.{_encode(json.dumps(claims).encode())}"
        return f"{signed}.{_encode(hmac.digest(secret or self._secret, signed.encode(), 'sha256'))}"

    def is_good(self, token: str) -> bool:
        """Return whether a token would pass a review."""
        return bool(self._review({"token": token, "audiences": [AUDIENCE]}).get("authenticated"))

    def delete_pods_of(self, node: str) -> None:
        """Delete the Pods of a node, which invalidates tokens bound to them."""
        with self._changed:
            for pod in [pod for pod, where in self._pods.items() if where == node]:
                del self._pods[pod]
                self._note("DELETED", pod)

    def close(self) -> None:
        """End the watches, and stop."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        super().close()

    def _note(self, kind: str, pod: str) -> None:
        self._events.append({"type": kind, "object": self._object(pod, len(self._events) + 1)})
        self._changed.notify_all()

    def _listed(self) -> dict[str, Any]:
        with self._changed:
            version = len(self._events)
            items = [self._object(pod, version) for pod in self._pods]
        return {"kind": "PodList", "metadata": {"resourceVersion": str(version)}, "items": items}

    def _object(self, pod: str, version: int) -> dict[str, Any]:
        return {"metadata": {"name": pod, "uid": pod, "resourceVersion": str(version)}}

    def _events_from(self, position: int, *, within_s: float) -> Iterator[bytes]:
        """Yield the events after `position`, the later ones as they come, until the watch ends."""
        until_s = time.monotonic() + within_s
        while True:
            with self._changed:
                while not self._is_closed and len(self._events) == position:
                    if not self._changed.wait(until_s - time.monotonic()):
                        return
                if self._is_closed:
                    return
                new = self._events[position:]
            position += len(new)
            yield from (json.dumps(event).encode() for event in new)

    def _answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if self.away:
            return 503, {"kind": "Status", "reason": "ServiceUnavailable", "message": "away"}
        if path != REVIEWS:
            return 404, {"kind": "Status", "reason": "NotFound", "message": path}
        self.reviewed += 1
        return 201, {**body, "status": self._review(body["spec"])}

    def _review(self, spec: dict[str, Any]) -> dict[str, Any]:
        try:
            signed, _, signature = spec["token"].rpartition(".")
            if not hmac.compare_digest(_decode(signature), hmac.digest(self._secret, signed.encode(), hashlib.sha256)):
                raise ValueError("invalid signature")
            claims = json.loads(_decode(signed.split(".")[1]))
            audiences = [each for each in claims["aud"] if each in spec["audiences"]]
            if claims["exp"] <= time.time() or not audiences or ("pod" in claims and claims["pod"] not in self._pods):
                raise ValueError("expired, for others, or its Pod is gone")
        except (ValueError, IndexError) as error:
            return {"user": {}, "error": f"[invalid bearer token, {error}]"}
        extra = {}
        if "pod" in claims:
            extra = {
                "authentication.kubernetes.io/node-name": [self._pods[claims["pod"]]],
                "authentication.kubernetes.io/pod-uid": [claims["pod"]],
            }
        return {"authenticated": True, "audiences": audiences, "user": {"username": claims["sub"], "extra": extra}}


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
