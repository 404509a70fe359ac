"""Headers are JetStream's commands: none of them lets an agent reach past its own subjects."""

import itertools

import pytest

from carico_core.runtime.bus import nats_bus
from carico_core.runtime.process import clock as clocks
from carico_core.wire import roles, streams, subjects
from tests.security import attackers, bus_site

ROLE, NODE = attackers.IDENTITIES[0]
OWN = attackers.own_subjects(ROLE, NODE)
VICTIMS = subjects.capacity(bus_site.VICTIM)
HEADERS = {
    "rollup of the stream": b"Nats-Rollup: all\r\n",
    "rollup of the subject": b"Nats-Rollup: sub\r\n",
    "a time to live": b"Nats-TTL: 1s\r\n",
    "no end": b"Nats-TTL: never\r\n",
    "an expected sequence": b"Nats-Expected-Last-Sequence: 0\r\n",
    "an expected sequence of a subject": b"Nats-Expected-Last-Subject-Sequence: 0\r\n",
    "an expected sequence of another subject": b"Nats-Expected-Last-Subject-Sequence: 1\r\n"
    b"Nats-Expected-Last-Subject-Sequence-Subject: " + VICTIMS.encode() + b"\r\n",
    "an expected stream": b"Nats-Expected-Stream: CARICO_DECISIONS\r\n",
    "an expected last id": b"Nats-Expected-Last-Msg-Id: x\r\n",
    "a schedule for another subject": b"Nats-Schedule: @at 2020-01-01T00:00:00Z\r\nNats-Schedule-Target: "
    + VICTIMS.encode() + b"\r\n",
    "a schedule every second": b"Nats-Schedule: @every 1s\r\nNats-Schedule-Target: " + VICTIMS.encode() + b"\r\n",
    "a batch": b"Nats-Batch-Id: b\r\nNats-Batch-Sequence: 1\r\nNats-Batch-Commit: 1\r\n",
    "a batch without an end": b"Nats-Batch-Id: c\r\nNats-Batch-Sequence: 1\r\n",
    "a counter": b"Nats-Incr: 1\r\n",
    "a purged key": b"KV-Operation: PURGE\r\n",
    "a deleted key": b"KV-Operation: DEL\r\n",
    "a delete marker": b"Nats-Marker-Reason: Remove\r\n",
    "a trace to another subject": b"Nats-Trace-Dest: " + VICTIMS.encode() + b"\r\n",
    "a trace of its delivery to the model": b"Nats-Trace-Dest: carico.v1.model\r\nNats-Trace-Only: true\r\n",
    "a trace by W3C": b"traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n",
    "a level of the API": b"Nats-Required-Api-Level: 99\r\n",
    "a mirror's own": b"Nats-Stream-Source: CARICO_DECISIONS 1 > > carico.v1.capacity.*\r\n",
    "a message id with the form of a node's": b"Nats-Msg-Id: node-b-1-1\r\n",
    "another subject and sequence": b"Nats-Subject: " + VICTIMS.encode() + b"\r\nNats-Sequence: x\r\n"
    b"Nats-Num-Pending: -1\r\nNats-Stream: OTHER\r\n",
    "a status": b"NATS/1.0 404 No Message\r\n\r\n",
    "a status with other headers": b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 0\r\nNats-Subject: " + VICTIMS.encode()
    + b"\r\n\r\n",
    "no end of the block": b"NATS/1.0\r\nNats-Subject: " + VICTIMS.encode(),
    "an end in the middle": b"NATS/1.0\r\n\r\nNats-Subject: " + VICTIMS.encode() + b"\r\n\r\n",
    "no UTF-8": b"Nats-Subject\xff: \xfe\r\n",
    "a thousand headers": b"".join(b"X-%d: y\r\n" % number for number in range(1000)),
}  # fmt: skip


@pytest.mark.parametrize("header", HEADERS)
def test_a_header_affects_no_other_message(bus: bus_site.Bus, honest: bus_site.Honest, header: str) -> None:
    with bus.raw(ROLE, NODE) as agent:
        for subject, reply in itertools.product(attackers.examples(OWN), ("", subjects.capacity(bus_site.VICTIM))):
            for payload in (b"", attackers.FORGED):
                agent.publish(subject, payload, reply=reply, headers=HEADERS[header])
        agent.settle()
    honest.check(own=OWN)


async def test_stored_headers_do_not_mislead_the_scheduler(bus: bus_site.Bus, honest: bus_site.Honest) -> None:
    """What the scheduler reads at its start comes with the subjects that NATS states, not with those of a sender."""
    scheduler = await nats_bus.connect(
        bus.settings(roles.Role.SCHEDULER), name="t", clock=clocks.SystemClock(),
        inbox=roles.inbox(roles.Role.SCHEDULER),
    )  # fmt: skip
    try:
        for name, header in HEADERS.items():
            with bus.raw(ROLE, NODE) as agent:
                agent.publish(subjects.capacity(NODE), attackers.FORGED, headers=header)
                agent.settle()
            honest.stored(streams.CAPACITY)
            kept = dict(await scheduler.latest_capacities())
            assert kept[subjects.capacity(bus_site.QUIET)] == bus_site.HONEST, name
            assert kept[VICTIMS].startswith(bus_site.BARRIER), name
            assert kept.get(subjects.capacity(NODE), attackers.FORGED) == attackers.FORGED, name
    finally:
        await scheduler.close()
        # The honest scheduler has the same inboxes as this one.
        honest.heard()
