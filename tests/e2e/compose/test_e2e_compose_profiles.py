"""What a compose cluster offers as well: the live page, Prometheus."""

import collections
import contextlib
import json
import urllib.request

import aiohttp
import pytest

from tests.e2e.compose import compose_site
from tests.tools import debian
from tests.tools.docker import docker_engine
from tests.tools.sites import websocket

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


async def test_the_page_is_given_out_and_its_bus_answers(stack: compose_site.Stack) -> None:
    stack.compose("--profile", "web", "up", "--detach", "--wait", "--no-recreate", "web")
    page, bus = (int(stack.environ[f"CARICO_COMPOSE_{name}_PORT"]) for name in ("WEB", "WEBSOCKET"))
    origin, address = f"http://127.0.0.1:{page}", f"ws://127.0.0.1:{bus}"
    assert b"<!doctype html" in fetched(f"{origin}/").lower()
    assert address in fetched(f"{origin}/settings.json").decode()

    async def identify(nonce: str) -> dict[str, str]:
        async with aiohttp.ClientSession() as client, client.post(f"{origin}/identity", json={"nonce": nonce}) as said:
            found: dict[str, str] = await said.json()
            return found

    assert await websocket.greeting(address, origin=origin, identify=identify) == "PONG"
    assert "Authorization Violation" in await websocket.greeting(address, origin=origin, identify=websocket.anyone)


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
    reader = ("run", "--rm", "-T", "nats", "nats", "--context", "reader")
    answer = stack.says('"node":"node-1"', *reader, "req", "carico.v1.query.scheduler.capacity.list", "")
    assert "permissions violation" not in answer
    refusal = stack.says("permissions violation", *reader, "pub", "carico.v1.capacity.node-1", "{}")
    assert "carico.v1.capacity.node-1" in refusal


def test_prometheus_finds_every_replica_and_node(stack: compose_site.Stack) -> None:
    image = docker_engine.base_image(stack.running, "prometheus")
    stack.environ["CARICO_COMPOSE_PROMETHEUS_IMAGE"] = image
    stack.compose("--profile", "observe", "up", "--detach", "--wait", "--no-recreate", "prometheus")
    url = f"http://127.0.0.1:{stack.environ['CARICO_COMPOSE_PROMETHEUS_PORT']}/api/v1/targets?state=active"

    expected = {
        "carico-agent": compose_site.NODES, "carico-aggregator": 2, "carico-scheduler": 2, "carico-auth": 1,
        "prometheus": 1,
    }  # fmt: skip
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
