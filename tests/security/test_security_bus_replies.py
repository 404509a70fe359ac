"""Whoever publishes chooses the reply, which NATS checks against no permission: answers must not go astray by it."""

import pytest

from carico_core.wire import roles
from tests.security import attackers, bus_site

# The last two are in the account of the streams, and ask services alone.
REDIRECTING = (*attackers.IDENTITIES, (roles.Role.RESCHEDULER, None), (roles.Role.RECOMMENDER, None))


@pytest.mark.parametrize(("role", "node"), REDIRECTING)
def test_an_answer_that_is_redirected_changes_nothing(
    bus: bus_site.Bus, honest: bus_site.Honest, role: roles.Role, node: str | None
) -> None:
    own = attackers.own_subjects(role, node)
    with bus.raw(role, node) as client:
        attackers.redirect(client, own)
    honest.check(own=own)


def test_a_reader_and_an_agent_together_forge_nothing(bus: bus_site.Bus, honest: bus_site.Honest) -> None:
    """The reader names the target of the answer, the agent its content."""
    reads, speaks = attackers.own_subjects(roles.Role.READER, None), attackers.own_subjects(*attackers.IDENTITIES[0])
    with bus.raw(roles.Role.READER) as reader, bus.raw(*attackers.IDENTITIES[0]) as agent:
        answered = 0
        for subject in roles.permissions(*attackers.IDENTITIES[0]).subscribe:
            agent.subscribe(subject)
        agent.settle()
        asked = [f"carico.v1.query.agent.{bus_site.ATTACKER}.state.get", "$SRV.PING", "$SRV.PING.carico-agent"]
        for target in attackers.targets():
            for subject in asked:
                reader.publish(subject, b"", reply=target)
            reader.settle()
            for message in agent.taken():
                answered += 1
                agent.publish(message.reply, attackers.FORGED)
                # A right to one answer is not one to two, nor to other subjects.
                agent.publish(message.reply, b"")
                agent.publish(target, attackers.FORGED)
        agent.settle()
    assert answered
    honest.check(own=(*reads, *speaks))


def test_stored_bytes_of_an_agent_go_to_no_subject_of_others(bus: bus_site.Bus, honest: bus_site.Honest) -> None:
    """An agent keeps forged bytes on its own subject, and a reader has them read to a subject of others."""
    role, node = attackers.IDENTITIES[0]
    own = (*attackers.own_subjects(role, node), *attackers.own_subjects(roles.Role.READER, None))
    with bus.raw(role, node) as agent:
        agent.publish(f"carico.v1.capacity.{node}", attackers.FORGED)
        agent.publish(f"carico.v1.subspace.{node}", attackers.FORGED)
        agent.settle()
    honest.stored("CARICO_CAPACITY")
    asked = b'{"last_by_subj":"carico.v1.capacity.%s"}' % bus_site.ATTACKER.encode()
    with bus.raw(roles.Role.READER) as reader:
        for target in attackers.targets():
            reader.publish("$JS.API.DIRECT.GET.CARICO_CAPACITY", asked, reply=target)
            reader.publish(f"$JS.API.DIRECT.GET.CARICO_CAPACITY.carico.v1.capacity.{node}", b"", reply=target)
        reader.settle()
    honest.check(own=own)
