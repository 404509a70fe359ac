"""The bus of docker-compose.yml: each service has the key of its role alone, and an agent's opens only its own node."""

import itertools
import json
import pathlib
import stat
from collections.abc import Iterator

import pytest

from carico_core.runtime.bus.security import nkeys
from carico_core.wire import roles, streams, subjects
from carico_local.kubelets.compose import node as kubelet_node
from carico_web import identity
from tests.security import attackers, compose_bus_site, raw_client
from tests.tools import bus_rights
from tests.tools.sites import security_site, websocket

ROLES = {
    "aggregator": roles.Role.AGGREGATOR, "scheduler": roles.Role.SCHEDULER, "auth": roles.Role.AUTH,
    "web": roles.Role.READER, "submit": roles.Role.CLI, "carico": roles.Role.CLI,
}  # fmt: skip
# Contexts of the nats command, by their names.
CONTEXTS = {"carico": roles.Role.CLI, "owner": roles.Role.OWNER, "reader": roles.Role.READER}
# Services that do not connect to the bus.
OTHERS = {"api", "prometheus", "grafana"}
ATTACKER, VICTIM = "node-1", "node-2"


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[compose_bus_site.ComposeBus]:
    """The running bus."""
    with compose_bus_site.running(tmp_path_factory.mktemp("compose")) as found:
        yield found


def keys(bus: compose_bus_site.ComposeBus) -> dict[str, tuple[roles.Role, pathlib.Path]]:
    """Return role and seed of everything that connects, by its name."""
    found = {name: (role, bus.key(name)) for name, role in ROLES.items()}
    found |= {f"nats: {name}": (role, bus.context_key(name)) for name, role in CONTEXTS.items()}
    return found | {"node": (roles.Role.AGENT, bus.node_key(ATTACKER))}


def test_every_service_has_its_own_key_and_no_other(bus: compose_bus_site.ComposeBus) -> None:
    assert set(bus.services) == {*ROLES, *OTHERS, "node", "nats", compose_bus_site.KEYS, compose_bus_site.SERVER}
    for name, role in ROLES.items():
        assert bus.seen(name) == {f"{role.value}.nk"}
        assert bus.key(name).name == f"{role.value}.nk"
        assert bus.services[name]["environment"].get("NATS_URL", "").count("@") == 0
    assert bus.seen("nats") == {f"{role.value}.nk" for role in CONTEXTS.values()}
    assert all(name.startswith("agent-node-") for name in bus.seen("node"))
    assert not any(bus.seen(name) for name in (*OTHERS, compose_bus_site.SERVER))
    for name in bus.services.keys() - {compose_bus_site.KEYS}:
        written = {each for each in bus.services[name].get("volumes", []) if not each.endswith(":ro")}
        assert not any(each.startswith("bus-") for each in written), name


def test_nodes_with_a_real_kubelet_read_their_keys_where_they_are() -> None:
    text = (compose_bus_site.ROOT / "compose/kube/compose.yml").read_text()
    assert text.count(f"- bus-agents:{kubelet_node.BUS_KEYS}:ro\n") == 1


def test_what_runs_is_restarted_until_it_is_asked_to_end(bus: compose_bus_site.ComposeBus) -> None:
    commands = {
        compose_bus_site.KEYS,
        *(name for name, each in bus.services.items() if "tools" in each.get("profiles", ())),
    }
    assert {name for name, each in bus.services.items() if each.get("restart", "no") == "no"} == commands
    for name in bus.services.keys() - commands:
        assert bus.services[name]["restart"] == "unless-stopped", name


def test_each_seed_is_its_users_alone(bus: compose_bus_site.ComposeBus) -> None:
    for name, (_, path) in keys(bus).items():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, name


async def test_every_key_has_the_rights_of_its_role_and_no_others(bus: compose_bus_site.ComposeBus) -> None:
    tables = [
        {subject.replace("node-a", ATTACKER).replace("node-b", VICTIM): who for subject, who in table.items()}
        for table in (bus_rights.PUBLISH, bus_rights.SUBSCRIBE)
    ]
    for name, (role, path) in keys(bus).items():
        async with security_site.raw(bus.settings(path)) as peer:
            refused = await security_site.refused_of(peer, *tables)
        for table, found in zip(tables, refused, strict=True):
            assert found == {subject for subject, who in table.items() if role not in who}, name


def test_the_nats_command_has_the_inboxes_of_its_role(bus: compose_bus_site.ComposeBus) -> None:
    assert (bus.contexts / "context.txt").read_text().strip() == "carico"
    for name, role in CONTEXTS.items():
        assert bus.context(name)["inbox_prefix"] == roles.inbox(role)


def test_who_shows_no_key_is_refused(bus: compose_bus_site.ComposeBus) -> None:
    for signer in (None, nkeys.Signer(nkeys.generate(nkeys.Kind.USER))):
        with (
            raw_client.RawClient(bus.port) as client,
            pytest.raises(raw_client.Closed, match="Authorization Violation"),
        ):
            client.connect(signer=signer)


async def test_a_browser_is_let_in_with_the_pages_key_alone(bus: compose_bus_site.ComposeBus) -> None:
    async def by(path: pathlib.Path) -> str:
        async def identify(nonce: str) -> dict[str, str]:
            return identity.Key(path).shown(nonce)

        return await websocket.greeting(url, origin=compose_bus_site.PAGE, identify=identify)

    url = f"ws://127.0.0.1:{bus.websocket_port}"
    assert await by(bus.key("web")) == "PONG"
    assert "Authorization Violation" in await by(bus.node_key(ATTACKER))
    without = await websocket.greeting(url, origin=compose_bus_site.PAGE, identify=websocket.anyone)
    assert "Authorization Violation" in without


async def test_an_agent_deletes_nothing_and_speaks_for_no_other_node(bus: compose_bus_site.ComposeBus) -> None:
    """All that others own, as messages and as the reply subjects of its own."""
    async with security_site.connected(bus.settings(bus.key("aggregator")), role=roles.Role.AGGREGATOR):
        # It has made the streams.
        owner = bus.raw(bus.context_key("owner"))
    with owner, bus.raw(bus.node_key(VICTIM)) as victim, bus.raw(bus.node_key(ATTACKER)) as agent:
        for subject in (subjects.CAPACITY_ALL, subjects.USAGE_ALL, subjects.SUBSPACE_ALL):
            owner.subscribe(subject)
        victim.publish(subjects.capacity(VICTIM), b"honest")
        victim.settle()
        before = _view(owner)
        own = attackers.own_subjects(roles.Role.AGENT, ATTACKER)
        foreign = {each.replace("node-b", VICTIM) for each in attackers.targets()} | {
            each.replace(ATTACKER, VICTIM) for each in attackers.examples(own)
        }  # fmt: skip
        for subject in foreign:
            agent.publish(subject, b"{}")
        refused = agent.refused()
        assert len(refused) == len(foreign)
        assert all("Permissions Violation for Publish" in each for each in refused)
        for subject in (subjects.roster(VICTIM), f"{subjects.PREFIX}.query.agent.{VICTIM}.>", "_INBOX.>"):
            agent.subscribe(subject)
        assert len(agent.refused()) == 3
        for subject, reply in itertools.product(attackers.examples(own), sorted(foreign)):
            agent.publish(subject, attackers.FORGED, reply=reply)
        agent.publish(subjects.capacity(ATTACKER), b"last")
        agent.settle()
        while owner.wait_for(subjects.capacity(ATTACKER)).payload != b"last":
            pass
        assert {each.subject for each in owner.taken()} <= {subjects.capacity(VICTIM), *attackers.examples(own)}
        assert _view(owner) == before


def _view(owner: raw_client.RawClient) -> dict[str, object]:
    """Return every stream's configuration and creation, and the victim's report."""
    inbox = roles.inbox(roles.Role.OWNER)
    names = json.loads(owner.request("$JS.API.STREAM.NAMES", inbox=inbox).payload)["streams"]
    assert set(names) == set(streams.ALL)
    found: dict[str, object] = {}
    for name in names:
        info = json.loads(owner.request(f"$JS.API.STREAM.INFO.{name}", inbox=inbox).payload)
        found[name] = (info["created"], info["config"])
    asked = json.dumps({"last_by_subj": subjects.capacity(VICTIM)}).encode()
    answer = owner.request(f"$JS.API.STREAM.MSG.GET.{streams.CAPACITY}", asked, inbox=inbox)
    return {**found, "victim": json.loads(answer.payload)["message"]["data"]}


def test_keys_are_kept_and_one_is_rotated(tmp_path: pathlib.Path) -> None:
    bus = compose_bus_site.ComposeBus(tmp_path)
    bus.make_keys()
    config = bus.path(compose_bus_site.SERVER, "/etc/nats/bus/bus.conf")
    before = {path: path.read_text() for path in (config, bus.key("scheduler"), bus.key("web"))}
    bus.make_keys()
    assert {path: path.read_text() for path in before} == before
    bus.make_keys("--rotate", "scheduler")
    changed = {path for path, text in before.items() if path.read_text() != text}
    assert changed == {config, bus.key("scheduler")}
    assert nkeys.read(bus.key("scheduler")).public in config.read_text()
