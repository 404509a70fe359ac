"""Whatever bytes arrive, a decoder gives a record or a `MessageError`, and nothing else."""

import json
import tracemalloc

import msgpack
import pytest

from carico_core.domain import errors
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


@pytest.mark.parametrize("kind", kinds.ALL, ids=lambda kind: kind.name)
def test_refused_messages_leave_nothing_in_memory(kind: kinds.Kind) -> None:
    tree = json.loads(kind.encode(kind.record)) if kind.is_json else msgpack.unpackb(kind.encode(kind.record))
    writer = next(name for name in ("replica", "pod", "node", "boot") if name in tree)

    def refuse(count: int) -> None:
        for number in range(count):
            unique = f"{number:08x}" * 1000
            for wrong in ({"boot": unique}, {writer: unique}, {unique: 1, "boot": "0" * 15}):
                bad = {**tree, **wrong}
                with pytest.raises(errors.MessageError):
                    kind.decode(json.dumps(bad).encode() if kind.is_json else msgpack.packb(bad), subject=kind.subject)

    refuse(10)
    tracemalloc.start()
    try:
        refuse(200)
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept_bytes < 200_000, "200 messages of 8 kB each, three times"


def test_a_refusal_says_where_what_was_got_and_what_was_expected() -> None:
    kind = next(kind for kind in kinds.ALL if kind.name == "subspace")
    tree = msgpack.unpackb(kind.encode(kind.record))

    def said(**wrong: object) -> tuple[errors.Drop, str, str]:
        with pytest.raises(errors.MessageError) as caught:
            kind.decode(msgpack.packb({**tree, **wrong}), subject=kind.subject)
        return caught.value.reason, caught.value.path, caught.value.detail

    assert said(weight=-1.0) == (errors.Drop.OUT_OF_RANGE, "weight", "got -1.0, expected `float` >= 0.0")
    assert said(weight=float("nan"))[:2] == (errors.Drop.NON_FINITE, "weight")
    assert said(samples=True) == (errors.Drop.WRONG_TYPE, "samples", "expected `int`, got `bool`")
    assert said(u={"shape": [2, 1]})[:2] == (errors.Drop.MISSING_FIELD, "u.data")
    assert said(u={"shape": [2, 1], "data": b""})[:2] == (errors.Drop.WRONG_SHAPE, "u")
    evidence = {"pi": {"pods": 1, "cost": {"cpu": {"mean": float("inf"), "sd": 1.0}}}}
    assert said(evidence=evidence)[:2] == (errors.Drop.NON_FINITE, "evidence[...].cost[...].mean")
    assert said(dims=["cpu", "c\x00"])[:2] == (errors.Drop.OUT_OF_RANGE, "dims")
    assert said(v=2, weight=-1.0)[:2] == (errors.Drop.WRONG_VERSION, "v")


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


@pytest.mark.parametrize(
    "kind", [k for k in kinds.ALL if k.name not in ("model", "summary")], ids=lambda kind: kind.name
)
def test_another_writer_than_the_subjects_is_refused(kind: kinds.Kind) -> None:
    with pytest.raises(errors.MessageError) as foreign:
        kind.decode(kind.encode(kind.record), subject=kind.subject + "x")
    assert foreign.value.reason is errors.Drop.FOREIGN_NODE
    with pytest.raises(errors.MessageError) as not_a_name:
        kind.decode(kind.encode(kind.record), subject=kind.subject + "-")
    assert not_a_name.value.reason is errors.Drop.BAD_NAME
