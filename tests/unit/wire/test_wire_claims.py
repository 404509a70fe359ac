"""Claims: whatever a Pod contains, what a scheduler writes can be read by all others."""

import dataclasses
from typing import Any

import pytest

from carico_core.domain import messages, names
from carico_core.wire import codec, subjects
from carico_core.wire import messages as wire
from carico_core.wire.kubernetes.pods import constraints
from carico_core.wire.messages import claims as claim_messages
from tests.fixtures.golden import records


@pytest.mark.parametrize(
    ("pod_class", "read"),
    [
        ("image/registry/a b:1", "image/registry/a b:1"),
        ("image/a\u200bb\x07\ud7ff", "image/a?b??"),
        ("é" * 512, "é" * 512),
    ],
)
def test_a_class_with_any_characters_can_be_read(pod_class: str, read: str) -> None:
    claims = (records.CLAIMS.claims[0]._replace(pod_class=pod_class), *records.CLAIMS.claims[1:])
    payload = wire.encode_claims(dataclasses.replace(records.CLAIMS, claims=claims))
    found = wire.decode_claims(payload, subject=subjects.claim(records.NODE))
    assert found.claims[0].pod_class == read
    assert found.claims[1:] == claims[1:]


def test_a_claim_of_as_many_resources_as_a_pod_may_request_can_be_read() -> None:
    others = tuple((f"example.com/resource-{index:02}", 1.0) for index in range(constraints.TERMS_MOST))
    made = dataclasses.replace(records.CLAIMS, claims=(records.CLAIMS.claims[0]._replace(others=others),))
    found = wire.decode_claims(wire.encode_claims(made), subject=subjects.claim(records.NODE))
    assert found.claims == made.claims


@pytest.mark.parametrize(
    ("other", "is_same"), [({"cores": 7.0}, True), ({"at_ns": 7}, False), ({"scheduler": "another"}, False)]
)  # fmt: skip
def test_a_claim_that_was_read_before_is_not_read_again(other: dict[str, Any], is_same: bool) -> None:
    payload, subject = wire.encode_claims(records.CLAIMS), subjects.claim(records.NODE)
    first, *rest = wire.decode_claims(payload, subject=subject).claims
    before = first._replace(**other)
    found = wire.decode_claims(payload, subject=subject, known={before.uid: before}.get).claims
    assert found[0] is before if is_same else found[0] == first
    assert list(found[1:]) == rest


@pytest.mark.parametrize(
    ("length", "least"), [(20, claim_messages.HELD_MAX), (40, 300), (names.SUBDOMAIN_MAX, 100)]
)  # fmt: skip
def test_a_heartbeat_states_the_first_of_more_room_than_it_can_hold(length: int, least: int) -> None:
    held = {
        f"6f1c7f0a-0000-4000-8000-{index:012}": f"node-{index:03}".ljust(length, "x")
        for index in range(2 * claim_messages.HELD_MAX)
    }
    handed = {f"7f1c7f0a-0000-4000-8000-{index:012}": 1.0e6 / 3.0 for index in range(claim_messages.HANDED_MAX)}
    made = dataclasses.replace(
        records.HEARTBEAT_REPORT, corrections=messages.Corrections(handed=handed, held=held)
    )  # fmt: skip
    payload = wire.encode_heartbeat(made)
    assert len(payload) < codec.PAYLOAD_MAX_BYTES
    found = wire.decode_heartbeat(payload, subject=subjects.member(made.replica)).corrections
    assert found is not None
    assert found.handed == handed
    assert list(found.held.items()) == list(held.items())[: len(found.held)]
    assert least <= len(found.held) <= claim_messages.HELD_MAX
