"""Bytes of released versions decode for ever, to the same values, and writers still write them."""

import json

import msgpack
import pytest

from tests.fixtures.golden import records
from tests.unit.wire import kinds


@pytest.mark.parametrize("kind", kinds.ALL, ids=lambda kind: kind.name)
def test_golden_bytes_decode_to_their_record(kind: kinds.Kind) -> None:
    payload = (records.FOLDER / kind.file).read_bytes()
    assert kinds.plain(kind.decode(payload, subject=kind.subject)) == kinds.plain(kind.record)


@pytest.mark.parametrize("kind", kinds.ALL, ids=lambda kind: kind.name)
def test_this_version_still_writes_the_golden_bytes(kind: kinds.Kind) -> None:
    assert kind.encode(kind.record) == (records.FOLDER / kind.file).read_bytes()


@pytest.mark.parametrize("kind", kinds.ALL, ids=lambda kind: kind.name)
def test_readers_ignore_fields_of_later_versions(kind: kinds.Kind) -> None:
    payload = kind.encode(kind.record)
    tree = json.loads(payload) if kind.is_json else msgpack.unpackb(payload)
    tree["added_later"] = {"anything": [1, None, "x"]}
    later = json.dumps(tree).encode() if kind.is_json else msgpack.packb(tree)
    assert kinds.plain(kind.decode(later, subject=kind.subject)) == kinds.plain(kind.record)


def test_every_golden_file_is_read_by_a_test() -> None:
    assert sorted(path.name for path in records.FOLDER.iterdir()) == sorted(kind.file for kind in kinds.ALL)
