"""Whatever bytes arrive, a decoder gives a record or a `MessageError`, and nothing else."""

import json

import msgpack
import pytest

from carico_core.domain import errors
from carico_core.wire import capacity, capacity_quick, codec, subspace
from carico_core.wire import messages as wire
from tests.unit.wire import kinds, mutations

COUNT = 10_000


@pytest.mark.parametrize("kind", kinds.ALL, ids=lambda kind: kind.name)
def test_only_message_errors_leave_a_decoder(kind: kinds.Kind) -> None:
    payload = kind.encode(kind.record)
    reasons: dict[errors.Drop, int] = {}
    longest = 0
    for number, bad in enumerate(mutations.mutated(payload, is_json=kind.is_json, count=COUNT, seed=11)):
        try:
            record = kind.decode(bad, subject=kind.subject)
        except errors.MessageError as error:
            reasons[error.reason] = reasons.get(error.reason, 0) + 1
            longest = max(longest, len(str(error)))
        else:
            # What passes is written again without an error, so that it cannot break the next in line.
            if number % 10 == 0:
                kind.decode(kind.encode(record), subject=kind.subject)
    assert longest < 1000, "an error must not carry the message it refuses"
    assert sum(reasons.values()) > COUNT // 2
    expected = {errors.Drop.UNDECODABLE, errors.Drop.WRONG_TYPE, errors.Drop.MISSING_FIELD, errors.Drop.OUT_OF_RANGE}
    assert expected <= reasons.keys()


def test_both_ways_through_a_subspace_agree() -> None:
    kind = next(kind for kind in kinds.ALL if kind.name == "subspace")
    # Without a lifetime, so that the short way takes the unchanged message.
    tree = msgpack.unpackb(kind.encode(kind.record))
    del tree["evidence"]["Job/default/pi"]["lifetime_s"]
    verdicts = {True: 0, False: 0}
    for bad in mutations.mutated(msgpack.packb(tree), is_json=False, count=COUNT, seed=12):
        try:
            expected: object = kinds.plain(subspace.read_carefully(codec.parse_msgpack(bad), subject=kind.subject))
        except errors.MessageError as error:
            expected = (error.reason, error.path)
        try:
            found: object = kinds.plain(kind.decode(bad, subject=kind.subject))
        except errors.MessageError as error:
            found = (error.reason, error.path)
        assert found == expected
        verdicts[isinstance(expected, dict)] += 1
    assert min(verdicts.values()) > 100


@pytest.mark.parametrize("name", ["advertisement", "advertisement-full"])
def test_both_ways_through_an_advertisement_agree(name: str) -> None:
    kind = next(kind for kind in kinds.ALL if kind.name == name)
    good = kind.encode(kind.record)
    assert capacity_quick.read(good, kind.subject) == kind.record, "the short way takes what agents send"
    verdicts = {True: 0, False: 0}
    for bad in mutations.mutated(good, is_json=True, count=COUNT, seed=11):
        found = capacity_quick.read(bad, kind.subject)
        try:
            expected = capacity.read_carefully(bad, subject=kind.subject)
        except errors.MessageError:
            assert found is None
        else:
            assert found is None or found == expected
        verdicts[found is None] += 1
    assert min(verdicts.values()) > 100


def test_a_bad_subspace_changes_nothing_about_the_others_of_its_batch() -> None:
    kind = next(kind for kind in kinds.ALL if kind.name == "subspace")
    tree = msgpack.unpackb(kind.encode(kind.record))
    del tree["evidence"]["Job/default/pi"]["lifetime_s"]
    good = msgpack.packb(tree)
    payloads = [good, *mutations.mutated(good, is_json=False, count=600, seed=13), good]
    together = wire.decode_subspaces([(kind.subject, payload) for payload in payloads])
    assert len(together) == len(payloads)
    for payload, found in zip(payloads, together, strict=True):
        if isinstance(found, errors.MessageError):
            with pytest.raises(errors.MessageError) as caught:
                kind.decode(payload, subject=kind.subject)
            assert (caught.value.reason, caught.value.path) == (found.reason, found.path)
        else:
            assert kinds.plain(kind.decode(payload, subject=kind.subject)) == kinds.plain(found)
    assert kinds.plain(together[0]) == kinds.plain(together[-1]) == kinds.plain(kind.decode(good, subject=kind.subject))


@pytest.mark.parametrize("kind", kinds.ALL, ids=lambda kind: kind.name)
def test_too_large_is_refused_before_it_is_read(kind: kinds.Kind) -> None:
    with pytest.raises(errors.MessageError) as caught:
        kind.decode(b"\0" * (kind.maximum_bytes + 1), subject=kind.subject)
    assert caught.value.reason is errors.Drop.OVERSIZED


@pytest.mark.parametrize("kind", kinds.ALL, ids=lambda kind: kind.name)
def test_deep_nesting_is_refused(kind: kinds.Kind) -> None:
    for payload in (mutations.DEEP_JSON, b"\x91" * 60_000, b"\xdd\xff\xff\xff\xff" * 10_000, b"\xdc\x40\x00" * 20_000):
        with pytest.raises(errors.MessageError):
            kind.decode(payload, subject=kind.subject)


@pytest.mark.parametrize("kind", kinds.ALL, ids=lambda kind: kind.name)
def test_another_version_is_refused(kind: kinds.Kind) -> None:
    payload = kind.encode(kind.record)
    tree = json.loads(payload) if kind.is_json else msgpack.unpackb(payload)
    tree["v"] = 2
    with pytest.raises(errors.MessageError) as caught:
        kind.decode(json.dumps(tree).encode() if kind.is_json else msgpack.packb(tree), subject=kind.subject)
    assert (caught.value.reason, caught.value.path) == (errors.Drop.WRONG_VERSION, "v")


@pytest.mark.parametrize("kind", [k for k in kinds.ALL if k.name != "model"], ids=lambda kind: kind.name)
def test_another_writer_than_the_subjects_is_refused(kind: kinds.Kind) -> None:
    with pytest.raises(errors.MessageError) as foreign:
        kind.decode(kind.encode(kind.record), subject=kind.subject + "x")
    assert foreign.value.reason is errors.Drop.FOREIGN_NODE
    with pytest.raises(errors.MessageError) as not_a_name:
        kind.decode(kind.encode(kind.record), subject=kind.subject + "-")
    assert not_a_name.value.reason is errors.Drop.BAD_NAME
