"""Claims: whatever a Pod contains, what a scheduler writes can be read by all others."""

import dataclasses

import pytest

from carico_core.wire import messages as wire
from carico_core.wire import subjects
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
