"""Rosters: places of classes are checked, and what exceeds a payload is left out."""

import dataclasses
import json

import pytest

from carico_core.domain import errors, messages, usage
from carico_core.wire import codec, fields, subjects
from carico_core.wire import messages as wire
from carico_core.wire.messages import roster
from tests.fixtures.golden import records

SUBJECT = subjects.roster(records.NODE)


def roster_of(pods: dict[str, str | None]) -> messages.Roster:
    return dataclasses.replace(records.ROSTER, pods=pods)


@pytest.mark.parametrize("place", [1, 511, 512, -1, True, "0"])
def test_a_place_without_a_class_is_refused(place: object) -> None:
    tree = json.loads(wire.encode_roster(records.ROSTER))
    tree["pods"]["one-more"] = place
    with pytest.raises(errors.MessageError, match="pods"):
        wire.decode_roster(json.dumps(tree).encode(), subject=SUBJECT)


@pytest.mark.parametrize("text", ["a\nb", "\x1b[2J"])
def test_texts_that_are_not_printable_are_refused(text: str) -> None:
    both: tuple[dict[str, str | None], ...] = ({text: None}, {"uid": text})
    for pods in both:
        with pytest.raises(errors.MessageError, match="printable"):
            wire.decode_roster(wire.encode_roster(roster_of(pods)), subject=SUBJECT)


@pytest.mark.parametrize(
    ("count", "classes", "length"), [(1000, 3, 100), (5000, 1, 10), (1000, 1000, 30), (600, 600, fields.CLASS_NAME_MAX)]
)
def test_what_exceeds_a_payload_is_left_out(count: int, classes: int, length: int) -> None:
    pods: dict[str, str | None] = {
        f"{number:036d}": f"{number % classes}".rjust(length, "c") for number in range(count)
    }
    payload = wire.encode_roster(roster_of(pods))
    assert len(payload) <= codec.PAYLOAD_MAX_BYTES
    found = wire.decode_roster(payload, subject=SUBJECT).pods
    assert found.items() <= pods.items()
    assert len(found) >= min(50, count)
    assert len(found) == count or count > roster.PODS_MAX or classes > 100


def test_templates_are_left_out_before_pods() -> None:
    names = tuple("c" * 63 for _ in range(fields.CONTAINERS_MAX))
    large = usage.Template(image="0" * 16, containers=names, requests={})
    pods: dict[str, str | None] = {f"{number:036d}": f"image/{number}" for number in range(110)}
    sent = dataclasses.replace(roster_of(pods), templates=dict.fromkeys(pods, large))
    payload = wire.encode_roster(sent)
    assert len(payload) <= codec.PAYLOAD_MAX_BYTES
    found = wire.decode_roster(payload, subject=SUBJECT)
    assert (found.pods, found.templates) == (pods, {})


def test_containers_are_left_out_before_templates() -> None:
    made = usage.Template(image="0" * 16, containers=("main", "proxy"), requests={})
    pods: dict[str, str | None] = {f"{number:036d}": "image/pi" for number in range(250)}
    ids = {f"{number:012x}": f"container-{number}" for number in range(16)}
    sent = dataclasses.replace(
        roster_of(pods), templates=dict.fromkeys(pods, made), containers=dict.fromkeys(pods, ids)
    )
    payload = wire.encode_roster(sent)
    assert len(payload) <= codec.PAYLOAD_MAX_BYTES
    found = wire.decode_roster(payload, subject=SUBJECT)
    assert (found.pods, found.templates, found.containers) == (pods, dict.fromkeys(pods, made), {})


def test_long_names_of_one_tenant_take_nothing_from_the_pods_of_others() -> None:
    large = usage.Template(image="0" * 16, containers=tuple("c" * 63 for _ in range(32)), requests={})
    small = usage.Template(image="1" * 16, containers=("main", "proxy"), requests={})
    # Failed Pods come first in a roster.
    theirs: dict[str, str | None] = {f"{number:036d}": f"Job/mean/{number}".ljust(512, "x") for number in range(174)}
    ours: dict[str, str | None] = {f"{1000 + number:036d}": "ReplicaSet/shop/web" for number in range(30)}
    ids = {f"{number:012x}": "c" * 63 for number in range(16)}
    sent = dataclasses.replace(
        roster_of(theirs | ours), templates=dict.fromkeys(theirs, large) | dict.fromkeys(ours, small),
        containers=dict.fromkeys(theirs, ids),
    )  # fmt: skip
    payload = wire.encode_roster(sent)
    assert len(payload) <= codec.PAYLOAD_MAX_BYTES
    assert ours.items() <= wire.decode_roster(payload, subject=SUBJECT).pods.items()

    few = dict(list(theirs.items())[:50])
    sent = dataclasses.replace(roster_of(few | ours), templates=dict.fromkeys(few, large) | dict.fromkeys(ours, small))
    found = wire.decode_roster(wire.encode_roster(sent), subject=SUBJECT)
    assert found.pods == few | ours
    assert found.templates == dict.fromkeys(ours, small)
