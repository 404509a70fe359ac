"""One API per session and kind of control plane, and a namespace of its own for each test."""

import http.server
import itertools
import os
import ssl
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.kubernetes import control_planes, shapes
from tests.tools import kubernetes, waiting

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session", params=control_planes.CONTROL_PLANES)
def kube_api(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A running Kubernetes API."""
    if request.param == "real":
        plane = request.getfixturevalue("real_control_plane")
        api = control_planes.real(plane, kubernetes.programs("kubectl")["kubectl"].path)
        yield api
        api.pool.clear()
    else:
        with control_planes.embedded(tmp_path_factory.mktemp(request.param)) as api:
            yield api


def unique(word: str) -> str:
    """A name that no other test uses."""
    return f"{word}-{os.getpid()}-{next(_NUMBERS)}"


@pytest.fixture
def namespace(kube_api: control_planes.KubeApi) -> Iterator[str]:
    """A namespace of the test's own, whose Pods end with the test.

    It stays itself: a real control plane asks for every kind of object in a namespace that goes, which takes more CPU
    time than most tests.
    """
    name = unique("contract")
    made = kube_api.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    assert made.code == 201, made.body
    _await_service_account(kube_api, name)
    yield name
    kube_api.request("DELETE", f"/api/v1/namespaces/{name}/pods", gracePeriodSeconds=0)


@pytest.fixture
def node(kube_api: control_planes.KubeApi) -> Iterator[str]:
    """A Node that ends with the test."""
    name = unique("node")
    made = kube_api.request("POST", "/api/v1/nodes", {"metadata": {"name": name}})
    assert made.code == 201, made.body
    yield name
    kube_api.request("DELETE", f"/api/v1/nodes/{name}")


class _Kubelet(http.server.BaseHTTPRequestHandler):
    """Answers with the path it was asked for, and a last line."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"{self.path}\nlast line\n".encode())

    def log_message(self, *_: Any) -> None:
        return


@pytest.fixture
def kubelet(kube_api: control_planes.KubeApi, node: str) -> Iterator[str]:
    """A node whose kubelet is a small HTTP server."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Kubelet) as server:
        if kube_api.kubelet_pair is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(*kube_api.kubelet_pair)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": server.server_address[1]}},
        }
        path = f"/api/v1/nodes/{node}/status"
        kube_api.request("PATCH", path, {"status": status}, content_type=shapes.MERGE)
        yield node
        server.shutdown()
        thread.join()


def _await_service_account(api: control_planes.KubeApi, namespace: str) -> None:
    """A real control plane makes the account a moment after the namespace, and refuses Pods until then."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    waiting.until_now(lambda: api.request("GET", path).code == 200, every_s=0.05)
