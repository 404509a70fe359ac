"""Many classes, with names as long as readers accept, which one tenant or agent can make: messages stay small."""

import dataclasses

import pytest

from carico_core.domain import messages
from carico_core.wire import codec, fields, subjects
from carico_core.wire import messages as wire
from tests.fixtures.golden import records

COUNT = 200
# What an agent may report has four bytes a character, or twice as many in JSON.
LETTERS = ("x", "\N{SLIGHTLY SMILING FACE}", '"')
OURS = "ReplicaSet/shop/web"


def names(letter: str) -> list[str]:
    return [f"Job/mean/{number}".ljust(fields.CLASS_NAME_MAX, letter) for number in range(COUNT)]


@pytest.mark.parametrize("letter", LETTERS)
def test_an_advertisement_states_other_classes_and_a_new_one(letter: str) -> None:
    item = messages.ClassCapacity(cost_plus={"cpu": 1.0 / 3.0, "memory": 1e9 / 3.0}, pods=1)
    named = dict.fromkeys([*names(letter), OURS, messages.NEW_CLASS], item)
    covers = frozenset(f"{number:036d}" for number in range(300))
    sent = records.ADVERTISEMENT_FULL._replace(classes=named, covers=covers)
    payload = wire.encode_advertisement(sent)
    assert codec.PAYLOAD_MAX_BYTES // 2 < len(payload) <= codec.PAYLOAD_MAX_BYTES
    found = wire.decode_advertisement(payload, subject=subjects.capacity(sent.node))
    assert found.classes is not None
    assert {OURS, messages.NEW_CLASS} < found.classes.keys()
    assert found._replace(classes=None) == sent._replace(classes=None)


def test_an_advertisement_states_as_many_classes_as_readers_take_those_with_most_pods() -> None:
    def item(pods: int) -> messages.ClassCapacity:
        return messages.ClassCapacity(cost_plus={"cpu": 0.25}, pods=pods)

    # As a node with one Pod of each of so many classes, and what others have measured.
    peers = {f"Job/peers/{number}": item(0) for number in range(48)}
    named = {f"Job/own/{number}": item(1) for number in range(fields.CLASSES_MAX - 3)}
    sent = records.ADVERTISEMENT_FULL._replace(classes={**peers, **named, OURS: item(7), messages.NEW_CLASS: item(0)})
    found = wire.decode_advertisement(wire.encode_advertisement(sent), subject=subjects.capacity(sent.node))
    assert found.classes is not None and len(found.classes) == fields.CLASSES_MAX
    assert {OURS, messages.NEW_CLASS, *named} < found.classes.keys()


@pytest.mark.parametrize("letter", LETTERS)
def test_a_nodes_model_has_what_it_measured_of_other_classes(letter: str) -> None:
    evidence = dict.fromkeys([*names(letter), OURS], next(iter(records.EVIDENCE.values())))
    payload = wire.encode_subspace(dataclasses.replace(records.SUBSPACE, evidence=evidence))
    assert codec.PAYLOAD_MAX_BYTES // 2 < len(payload) <= codec.PAYLOAD_MAX_BYTES
    assert OURS in wire.decode_subspace(payload, subject=subjects.subspace(records.SUBSPACE.node)).evidence
