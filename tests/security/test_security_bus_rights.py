"""Each role may do at a real server what the table of docs/security.md grants it, and nothing else."""

import re
from collections.abc import Iterator

import pytest

from carico_cli.reference import rights_catalogue
from carico_core.wire import roles
from tests.security import bus_site

_REFUSED = re.compile(r'^Permissions Violation for (Publish|Subscription) to "([^"]+)"')
# What names or covers more than one role's subjects; those of JetStream, of the server, and of other accounts.
FOREIGN = (
    ">", "*", "*.>", "*.*", "*.v1.>", "carico.>", "carico.v1.>", "carico.v1.*", "carico.v1.*.*", "carico.*.capacity.*",
    "carico.v1.capacity.>", "carico.v1.capacity", "carico.v1.capacity.node-a.x", "carico.v1.subspace.>",
    "carico.v1.decision.>", "carico.v1.decision.*", "carico.v1.model.x", "carico.v1.partial.>", "carico.v2.capacity.x",
    "carico.v1.query.*.>", "carico.v1.query.agent.>", "carico.v1.query.agent.*.>", "_INBOX.>", "_INBOX.*", "_INBOX.*.>",
    "_INBOX.agent.>", "_INBOX.agent.node-a.>", "_R_.>", "_R_.x", "_GR_.>", "$SRV.>", "$SRV.*", "$SRV.STOP", "$JS.>",
    "$JS.*.>", "$JS.API.>", "$JS.API.*.>", "$JS.API.DIRECT.>", "$JS.API.DIRECT.GET.CARICO_SUBSPACES",
    "$JS.API.STREAM.DELETE.CARICO_CAPACITY", "$JS.API.STREAM.PURGE.KV_carico_model", "$JS.API.STREAM.CREATE.OTHER",
    "$JS.API.STREAM.MSG.DELETE.CARICO_DECISIONS", "$JS.API.CONSUMER.DELETE.CARICO_SUBSPACES.aggregators",
    "$JS.API.CONSUMER.CREATE.CARICO_CAPACITY", "$JS.API.CONSUMER.CREATE.CARICO_DECISIONS.mine",
    "$JS.API.ACCOUNT.PURGE.CARICO", "$JS.API.META.LEADER.STEPDOWN", "$JS.hub.API.INFO", "$JS.ACK.>", "$JS.ACK.x",
    "$JS.FC.>", "$JS.SNAPSHOT.ACK.x", "$JS.EVENT.>", "$JSC.>", "$NRG.>", "$KV.>", "$KV.carico_model.>", "$O.>",
    "$KV.carico_model.other", "$SYS.>", "$SYS.ACCOUNT.>", "$SYS.REQ.>", "$SYS.REQ.SERVER.PING", "$SYS.REQ.USER.INFO",
    "$SYS.REQ.ACCOUNT.CARICO.CONNZ", "$SYS.REQ.CLAIMS.UPDATE", "$SYS._INBOX.>", "$LDS.>", "$GR.>", "$MQTT.>", "x",
)  # fmt: skip


def subjects() -> list[str]:
    """Return every subject of the table, for the node of the agent and for another, and the foreign ones."""
    granted = (rights_catalogue.rights(node) for node in (bus_site.ATTACKER, bus_site.VICTIM))
    return sorted({subject for each in granted for subject in each} | set(FOREIGN))


def refused(errors: list[str], verb: str) -> Iterator[str]:
    for error in errors:
        found = _REFUSED.match(error)
        assert found is not None, error
        if found[1] == verb:
            yield found[2]


CASES = [(kind, role) for kind in sorted(bus_site.RUNNING) for role in roles.Role]


@pytest.mark.parametrize(("bus", "role"), CASES, indirect=["bus"], scope="session")
def test_every_role_has_the_rights_of_the_table_and_no_others(
    bus: bus_site.Bus, honest: bus_site.Honest, role: roles.Role
) -> None:
    node = bus_site.ATTACKER if role is roles.Role.AGENT else None
    granted = roles.permissions(role, node)
    tried = subjects()
    with bus.raw(role, node) as client:
        for subject in tried:
            # No request of JetStream's API, so that those who may send it change nothing by it.
            client.publish(subject, b"{bad")
        published = set(tried) - set(refused(client.refused(), "Publish"))
    subscribed: dict[str, set[str]] = {}
    for queue in ("", "carico"):
        with bus.raw(role, node) as client:
            for subject in tried:
                client.subscribe(subject, queue=queue)
            subscribed[queue] = set(tried) - set(refused(client.refused(), "Subscription"))
    may = {subject: rights_catalogue.may(granted, subject) for subject in tried}
    assert published == {subject for subject in tried if rights_catalogue.PUBLISHES in may[subject]}
    for queue, found in subscribed.items():
        assert found == {subject for subject in tried if rights_catalogue.SUBSCRIBES in may[subject]}, queue
    honest.check(own=granted.publish)


def test_a_role_of_another_table_would_be_noticed() -> None:
    """The table is not empty, and no subject that is foreign to all is granted in it."""
    table = rights_catalogue.rights(bus_site.ATTACKER)
    assert len(table) > 50
    assert all(any(cells.values()) for cells in table.values())
    agents = {subject for subject, cells in table.items() if cells[roles.Role.AGENT].startswith("P")}
    kinds = ("capacity", "subspace", "usage", "pods", "traffic")
    assert agents == {f"carico.v1.{kind}.{bus_site.ATTACKER}" for kind in kinds}
