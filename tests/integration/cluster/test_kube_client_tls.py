"""The client's connections to an API that has TLS, and does not say goodbye."""

import contextlib
import json
import os
import pathlib
import socket
import ssl
import threading
from collections.abc import Iterator

import pytest

from carico_core.runtime.kube import api_client
from carico_core.runtime.process import clock as clocks
from tests.tools import waiting
from tests.tools.sites import security_site

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"


@pytest.fixture
def busy_api(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """The kubeconfig of an API that begins an answer, and does nothing more on that connection."""
    certificates = security_site.make_certificates(tmp_path / "tls", "127.0.0.1")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates / "tls.crt", certificates / "tls.key")
    over = threading.Event()

    def serve(listening: socket.socket) -> None:
        with contextlib.suppress(OSError), context.wrap_socket(listening.accept()[0], server_side=True) as connection:
            connection.recv(65536)
            connection.sendall(ANSWER)
            over.wait()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,), daemon=True)
        thread.start()
        path = tmp_path / "kubeconfig"
        cluster = {
            "server": f"https://127.0.0.1:{listening.getsockname()[1]}",
            "certificate-authority": str(certificates / "ca.crt"),
        }
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": cluster}], "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }))  # fmt: skip
        yield path
        over.set()
        thread.join()


async def test_a_stream_that_is_left_leaves_no_connection_behind(busy_api: pathlib.Path) -> None:
    client = await api_client.connect(
        api_client.KubeSettings(kubeconfig=str(busy_api)), clock=clocks.SystemClock(), user_agent="test"
    )
    files = len(os.listdir("/proc/self/fd"))
    stream = client.stream("GET", "/api/v1/pods", {"watch": "1"})
    assert await anext(stream) == b"{}"
    # Ours, and the server's.
    assert len(os.listdir("/proc/self/fd")) == files + 2
    await stream.aclose()
    await waiting.until(lambda: len(os.listdir("/proc/self/fd")) == files + 1, within_s=10.0)
    await client.close()
