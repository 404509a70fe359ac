"""Readers share an account: what one of them cannot do to another there."""

from carico_core.wire import roles, subjects
from tests.security import attackers, bus_site

INBOX = roles.inbox(roles.Role.READER)
REPORTS = 200


def test_one_reader_hides_nothing_from_another_and_answers_for_no_one(
    bus: bus_site.Bus, honest: bus_site.Honest
) -> None:
    own = (*attackers.own_subjects(roles.Role.READER, None), *attackers.own_subjects(*attackers.IDENTITIES[0]))
    asked, victims_inbox = subjects.query("agent", "state.get", bus_site.ATTACKER), f"{INBOX}.victim.1"
    with (
        bus.raw(roles.Role.READER) as attacker,
        bus.raw(roles.Role.READER) as victim,
        bus.raw(*attackers.IDENTITIES[0]) as agent,
    ):
        victim.subscribe(subjects.CAPACITY_ALL)
        victim.subscribe(victims_inbox)
        victim.settle()
        # Members of a queue group share its messages: they must take none from those outside of it.
        for subject in roles.permissions(roles.Role.READER).subscribe:
            for _ in range(10):
                attacker.subscribe(subject, queue="thieves")
        assert attacker.refused() == []
        # To listen to the questions, so as to answer first, and to publish answers is refused.
        attacker.subscribe(asked)
        attacker.subscribe(subjects.query("scheduler", "capacity.list"))
        for subject in (victims_inbox, subjects.capacity(bus_site.ATTACKER), subjects.decision("x", "y"), "_R_.x"):
            attacker.publish(subject, attackers.FORGED)
        said = attacker.refused()
        assert len(said) == 6
        assert all("Permissions Violation" in each for each in said)
        agent.subscribe(asked)
        agent.settle()
        for number in range(REPORTS):
            agent.publish(subjects.capacity(bus_site.ATTACKER), b"%d" % number)
        victim.publish(asked, b"?", reply=victims_inbox)
        victim.settle()
        question = agent.wait_for(asked)
        agent.publish(question.reply, b"answer")
        agent.settle()
        assert victim.wait_for(victims_inbox).payload == b"answer"
        last = b"%d" % (REPORTS - 1)
        heard = []
        while last not in heard:
            heard.append(victim.wait_for(subjects.capacity(bus_site.ATTACKER)).payload)
        assert heard == [b"%d" % number for number in range(REPORTS)]
    honest.check(own=own)
