"""`compose/rotate.sh`: a key of docker-compose.yml is replaced while its holder works, and the old one is refused."""

import pathlib
from collections.abc import Iterator

import pytest

from carico_core.runtime.bus.security import nkeys
from carico_core.wire import roles, subjects
from tests.security import compose_bus_site, raw_client
from tests.tools import waiting
from tests.tools.sites import security_site

NODE = "node-1"


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[compose_bus_site.ComposeBus]:
    """The running bus: each test leaves every holder a key that is accepted."""
    with compose_bus_site.running(tmp_path_factory.mktemp("compose")) as found:
        yield found


@pytest.mark.parametrize("name", ["scheduler", f"agent-{NODE}"])
async def test_a_key_is_replaced_while_its_holder_works(bus: compose_bus_site.ComposeBus, name: str) -> None:
    is_agent = name.startswith("agent")
    path = bus.node_key(NODE) if is_agent else bus.key(name)
    role = roles.Role.AGENT if is_agent else roles.Role.SCHEDULER
    subject = subjects.capacity(NODE) if is_agent else subjects.SUMMARY
    old = nkeys.read(path)
    heard: list[bytes] = []
    back: list[bool] = []
    async with (
        security_site.connected(bus.settings(bus.key("web")), role=roles.Role.READER) as reader,
        security_site.connected(bus.settings(path), role=role) as holder,
    ):
        holder.on_reconnect(lambda: back.append(True))
        await reader.subscribe(subject, lambda _, payload: heard.append(payload))
        done = bus.rotate(name)
        assert done.returncode == 0, done.stderr
        await waiting.until(lambda: back)

        async def is_heard() -> bool:
            # The server takes connections before it has all of its new accounts, and messages between them are
            # lost meanwhile.
            await holder.publish(subject, b"after")
            return b"after" in heard

        await waiting.answered(is_heard)
    assert nkeys.read(path).public != old.public
    with (
        raw_client.RawClient(bus.port) as client,
        pytest.raises(raw_client.Closed, match="Authorization Violation"),
    ):
        client.connect(signer=old)
    with bus.raw(path):
        """The new one is accepted."""


def test_a_rotation_that_was_interrupted_is_finished_by_the_next(bus: compose_bus_site.ComposeBus) -> None:
    bus.make_keys("--rotate", "scheduler")
    before = bus.key("scheduler").read_text()
    assert bus.rotate("scheduler").returncode == 0
    assert bus.key("scheduler").read_text() != before
    # A signal is sent, not waited for: the server may not have read its new configuration yet.
    await_accepted(bus, bus.key("scheduler"))


def await_accepted(bus: compose_bus_site.ComposeBus, key: pathlib.Path) -> None:
    def is_accepted() -> bool:
        try:
            with bus.raw(key):
                return True
        except raw_client.Closed:
            return False

    waiting.until_now(is_accepted)


@pytest.mark.parametrize("names", [(), ("",), ("absent",)])
def test_a_key_that_does_not_exist_is_refused_with_the_reason(
    bus: compose_bus_site.ComposeBus, names: tuple[str, ...]
) -> None:
    done = bus.rotate(*names)
    assert done.returncode == 2
    assert "scheduler" in done.stderr
