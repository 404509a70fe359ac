"""Messages of containerd: what is read of them, and what is malformed."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico_agent.pod_events import containerd_wire as wire
from carico_core.wire import protobuf
from tests.conformance import fake_containerd

POD = "2f6a0d5f-0000-4000-8000-000000000001"


def test_every_kind_of_event() -> None:
    for kind in wire.Kind:
        assert wire.parse_envelope(fake_containerd.envelope(kind, "abc")) == wire.Event(kind=kind, container="abc")
    assert wire.parse_envelope(fake_containerd.envelope("/tasks/oom", "abc")) is None
    assert wire.parse_envelope(fake_containerd.envelope("/tasks/exit", "abc", process="exec")) is None


def test_states_of_tasks() -> None:
    states = {"unknown": 0, "created": 1, "running": 2, "stopped": 3, "paused": 4, "pausing": 5}
    assert wire.parse_running(fake_containerd.tasks(states)) == {"running", "paused", "pausing"}
    assert wire.parse_running(b"") == frozenset()


def test_unknown_fields_are_skipped() -> None:
    odd = bytes([15 * 8 + 1 - 0]) + b"12345678" + bytes([14 * 8 + 5]) + b"1234" + bytes([13 * 8, 7])
    data = fake_containerd.container("abc", {"io.kubernetes.pod.uid": POD}) + odd
    found = wire.parse_container(fake_containerd.field(1, data))
    assert found == wire.Container(id="abc", pod_uid=POD, is_sandbox=False)


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a",
        b"\x0a\x05ab",
        b"\x0b",
        b"\xff" * 11,
        fake_containerd.field(1, 7),
        fake_containerd.field(1, fake_containerd.field(1, b"\xff\xfe")),
        b"",
    ],
)
def test_what_is_not_a_container_is_malformed(data: bytes) -> None:
    with pytest.raises(wire.Malformed):
        wire.parse_container(data)


@given(st.binary(max_size=200))
def test_any_bytes_are_parsed_or_malformed(data: bytes) -> None:
    for parse, kind in (
        (wire.parse_envelope, wire.Event | None), (wire.parse_container, wire.Container),
        (wire.parse_running, frozenset),
    ):  # fmt: skip
        with contextlib.suppress(wire.Malformed):
            assert isinstance(parse(data), kind)


@given(st.data())
def test_a_message_with_one_byte_changed_is_parsed_or_malformed(data: st.DataObject) -> None:
    message = bytearray(fake_containerd.envelope("/tasks/exit", "abc"))
    message[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(wire.Malformed):
        assert isinstance(wire.parse_envelope(bytes(message)), wire.Event | None)


@given(st.integers(0, 2**63 - 1))
def test_numbers_go_round(value: int) -> None:
    data = protobuf.encode_varint(1 << 3) + protobuf.encode_varint(value)
    assert list(wire.fields(data, what="x")) == [(1, value)]
    assert protobuf.encode_varint(value) == fake_containerd.varint(value)
