"""A small Kubernetes API for tokens only: ServiceAccounts' tokens bound to Pods, and TokenReview.

It keeps the same contract as a real kube-apiserver (tests/contract/test_token_reviews.py). Tokens are JWTs signed with
a secret of this API; a test may also have some made that have expired, which a real API does not do.
"""

import base64
import hashlib
import hmac
import http.server
import json
import pathlib
import secrets
import time
from typing import Any

from tests.tools import http_thread

AUDIENCE = "carico-nats"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"


class TokenApi(http_thread.Server):
    """The API, on a port of its own; `away`: it answers 503."""

    def __init__(self) -> None:
        self.away = False
        self.reviewed = 0
        self._secret = secrets.token_bytes(32)
        self._pods: dict[str, str] = {}
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

            def log_message(self, *_: object) -> None:
                return

        super().__init__(Handler)

    def write_kubeconfig(self, path: pathlib.Path) -> pathlib.Path:
        """Return a kubeconfig of this API."""
        document = {
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": self.url}}],
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
            self._pods[pod] = node
        signed = f"{_encode(b'{}')}.{_encode(json.dumps(claims).encode())}"
        return f"{signed}.{_encode(hmac.digest(secret or self._secret, signed.encode(), 'sha256'))}"

    def delete_pods_of(self, node: str) -> None:
        """Delete the Pods of a node, which invalidates tokens bound to them."""
        self._pods = {pod: where for pod, where in self._pods.items() if where != node}

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
            extra = {"authentication.kubernetes.io/node-name": [self._pods[claims["pod"]]]}
        return {"authenticated": True, "audiences": audiences, "user": {"username": claims["sub"], "extra": extra}}


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
