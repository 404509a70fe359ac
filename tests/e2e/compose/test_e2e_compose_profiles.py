"""What a compose cluster offers as well: the live page, Prometheus."""

import base64
import collections
import contextlib
import json
import socket
import urllib.request
from typing import Any

import pytest

from tests.e2e.compose import compose_site
from tests.tools import debian, docker_engine

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(compose_site.COLD_TIMEOUT_S),
    pytest.mark.skipif(debian.allowed() is not None, reason=str(debian.allowed())),
]


def fetched(url: str) -> bytes:
    """The body."""
    with urllib.request.urlopen(url, timeout=10.0) as answer:
        found: bytes = answer.read()
        return found


def info_by_websocket(port: int) -> dict[str, Any]:
    """The first words of NATS to a browser."""
    with socket.create_connection(("127.0.0.1", port), timeout=10.0) as browser:
        key = base64.b64encode(b"0123456789abcdef").decode()
        browser.sendall(
            f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode()
        )
        said = b""
        while not said.endswith(b"} \r\n") and not said.endswith(b"}\r\n"):
            more = browser.recv(4096)
            assert more, said
            said += more
    assert said.startswith(b"HTTP/1.1 101")
    found: dict[str, Any] = json.loads(said[said.index(b"INFO ") + 5 :])
    return found


def test_the_page_is_given_out_and_its_bus_answers(stack: compose_site.Stack) -> None:
    stack.compose("--profile", "web", "up", "--detach", "--wait", "--no-recreate", "web")
    page, bus = (int(stack.environ[f"CARICO_COMPOSE_{name}_PORT"]) for name in ("WEB", "WEBSOCKET"))
    assert b"<!doctype html" in fetched(f"http://127.0.0.1:{page}/").lower()
    assert f"ws://127.0.0.1:{bus}" in fetched(f"http://127.0.0.1:{page}/settings.json").decode()
    assert info_by_websocket(bus)["jetstream"] is True


def test_the_page_is_back_once_its_container_is(stack: compose_site.Stack) -> None:
    stack.compose("--profile", "web", "up", "--detach", "--wait", "--no-recreate", "web")
    (page,) = stack.containers("web")
    for verb in ("kill", "start"):
        stack.running.engine.run(verb, page)
    url = f"http://127.0.0.1:{stack.environ['CARICO_COMPOSE_WEB_PORT']}/"

    def is_back() -> bool:
        with contextlib.suppress(OSError):
            return b"<!doctype html" in fetched(url).lower()
        return False

    stack.until("the page is given out again", is_back)
    assert stack.containers("web") == [page], "restarted, not replaced"


def test_a_reader_may_listen_and_ask_and_not_speak(stack: compose_site.Stack) -> None:
    reader = ("run", "--rm", "-T", "nats", "nats", "--user", "reader", "--password", "unnamed")
    inbox = ("--inbox-prefix", "_INBOX.reader")
    answer = stack.says('"node":"node-1"', *reader, *inbox, "req", "carico.v1.query.scheduler.capacity.list", "")
    assert "permissions violation" not in answer
    refusal = stack.says("permissions violation", *reader, *inbox, "pub", "carico.v1.capacity.node-1", "{}")
    assert "carico.v1.capacity.node-1" in refusal


def test_prometheus_finds_every_replica_and_node(stack: compose_site.Stack) -> None:
    image = docker_engine.base_image(stack.running, "prometheus")
    stack.environ["CARICO_COMPOSE_PROMETHEUS_IMAGE"] = image
    stack.compose("--profile", "observe", "up", "--detach", "--wait", "--no-recreate", "prometheus")
    url = f"http://127.0.0.1:{stack.environ['CARICO_COMPOSE_PROMETHEUS_PORT']}/api/v1/targets?state=active"

    expected = {"carico-agent": compose_site.NODES, "carico-aggregator": 2, "carico-scheduler": 2, "prometheus": 1}
    up: collections.Counter[str] = collections.Counter()

    def are_up() -> bool:
        up.clear()
        with contextlib.suppress(OSError):
            targets = json.loads(fetched(url))["data"]["activeTargets"]
            up.update(each["labels"]["job"] for each in targets if each["health"] == "up")
        # The page is there or not, as the other tests of it have run or not.
        up.pop("carico-web", None)
        return up == expected

    stack.until(f"up are {expected}", are_up)
    assert up == expected
