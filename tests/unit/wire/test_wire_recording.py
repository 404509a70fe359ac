"""Recordings: what is written comes back, whatever was cut off; what cannot be read says where and why."""

import contextlib
import dataclasses
import pathlib
import zlib

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carico_core.domain import errors, recording
from carico_core.wire import recording as wire

GOLDEN = pathlib.Path(__file__).parents[2] / "fixtures" / "golden" / "recordings" / "version-1.rec"
FACTS = recording.NodeFacts(
    node="node-1",
    dims=("cpu", "memory"),
    scale=(8.0, 8e9),
    cores=4.0,
    source="host",
    parts=("cpu_utilisation", "cpu_pressure"),
    sample_hz=10.0,
    started_ns=1_700_000_000_000_000_000,
    started_s=12.5,
    notes=("no CPU pressure",),
)
SHARES = st.floats(0.0, 1.0)
EVENTS = st.builds(
    recording.PodEvent,
    at_s=st.floats(0.0, 1e6),
    kind=st.sampled_from(recording.EventKind),
    uid=st.uuids().map(str),
    workload=st.sampled_from(["", "Job/default/pi"]),
)


@st.composite
def samples(draw: st.DrawFn) -> recording.Samples:
    rows = draw(st.lists(st.tuples(st.floats(0.0, 1e6), SHARES, SHARES, SHARES, SHARES), max_size=30))
    table = np.array(sorted(rows)).reshape(-1, 5)
    return recording.Samples(times_s=table[:, 0], values=table[:, 1:3], parts=table[:, 3:])


def run(start_s: float, *, count: int = 20) -> recording.Samples:
    times = start_s + np.arange(count) / 10
    return recording.Samples(times_s=times, values=np.full((count, 2), 0.25), parts=np.full((count, 2), np.nan))


def event(at_s: float) -> recording.PodEvent:
    return recording.PodEvent(at_s=at_s, kind=recording.EventKind.STARTED, uid="u-1")


def same(a: recording.Samples, b: recording.Samples) -> bool:
    return all(
        getattr(a, name).shape == getattr(b, name).shape
        and np.array_equal(getattr(a, name), getattr(b, name), equal_nan=True)
        for name in ("times_s", "values", "parts")
    )


@given(samples(), st.lists(EVENTS, max_size=10), st.booleans())
def test_what_is_written_comes_back_to_the_bit(
    some: recording.Samples, events: list[recording.PodEvent], ended: bool
) -> None:
    written = wire.encode_header(FACTS) + wire.encode_block(some, tuple(events)) + (wire.encode_end() if ended else b"")
    back = wire.decode(written, name="x")
    assert back.facts == FACTS
    assert back.events == tuple(events)
    assert back.ended == ended
    assert same(back.samples, some)


def test_a_file_of_version_1_is_read_for_ever() -> None:
    back = wire.decode(GOLDEN.read_bytes(), name="x")
    times = 12.5 + np.arange(4) / 8
    values = np.column_stack([times / 32, times / 64])
    parts = np.column_stack([times / 16, [0.25, 0.25, 0.25, np.nan]])
    assert back.facts == FACTS
    assert back.ended
    np.testing.assert_array_equal(back.samples.times_s, np.concatenate([times, times + 1]))
    np.testing.assert_array_equal(back.samples.values, np.concatenate([values, values]))
    np.testing.assert_array_equal(back.samples.parts, np.concatenate([parts, parts]))
    assert [(event.at_s, event.kind.value, event.uid, event.workload) for event in back.events] == [
        (12.5 + index / 4, kind, f"uid-{index % 2}", "Job/default/pi" if index % 2 else "")
        for index, kind in enumerate(["created", "started", "ended", "removing", "removed", "settled"])
    ]


def test_what_a_later_writer_adds_is_ignored() -> None:
    assert wire.decode(header(later=[1, 2]), name="x").facts == FACTS


def three_blocks() -> list[bytes]:
    return [wire.encode_header(FACTS), *(wire.encode_block(run(at), [event(at)]) for at in (0.0, 2.0, 4.0))]


def test_a_file_without_its_end_is_whole_up_to_its_last_block() -> None:
    back = wire.decode(b"".join(three_blocks()), name="x")
    assert len(back.samples.times_s) == 60
    assert len(back.events) == 3
    assert not back.ended


@given(st.data())
def test_a_cut_file_says_so_and_its_whole_blocks_can_still_be_read(data: st.DataObject) -> None:
    pieces = [*three_blocks(), wire.encode_end()]
    file = b"".join(pieces)
    kept = data.draw(st.integers(len(pieces[0]), len(file) - 1))
    boundaries = np.cumsum([len(piece) for piece in pieces]).tolist()
    whole_blocks = sum(boundary <= kept for boundary in boundaries[1:4])
    if kept not in boundaries:
        with pytest.raises(errors.RecordingError, match=rf"x, offset {boundaries[whole_blocks]}: got the end of the"):
            wire.decode(file[:kept], name="x")
    back = wire.decode(file[:kept], name="x", partial=True)
    assert len(back.samples.times_s) == 20 * whole_blocks
    assert not back.ended


@given(st.binary(max_size=200))
def test_any_bytes_are_a_recording_or_a_recording_error(junk: bytes) -> None:
    for data in (junk, wire.MAGIC + junk, wire.encode_header(FACTS) + junk):
        with contextlib.suppress(errors.RecordingError):
            assert isinstance(wire.decode(data, name="x"), recording.Recording)


@settings(max_examples=300)
@given(st.data())
def test_a_changed_byte_is_found(data: st.DataObject) -> None:
    file = bytearray(b"".join(three_blocks()))
    place = data.draw(st.integers(0, len(file) - 1))
    file[place] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(errors.RecordingError, match=r"got .* expected"):
        wire.decode(bytes(file), name="x")


def crafted(kind: int, values: dict[str, object]) -> bytes:
    payload = zlib.compress(msgpack.packb(values))
    checksum = zlib.crc32(bytes([kind]) + payload)
    return bytes([kind]) + len(payload).to_bytes(4, "little") + checksum.to_bytes(4, "little") + payload


def header(**changes: object) -> bytes:
    return wire.MAGIC + crafted(wire.HEADER, {"version": 1, **dataclasses.asdict(FACTS), **changes})


def share(value: float) -> recording.Samples:
    return recording.Samples(times_s=np.zeros(1), values=np.array([[value, 0.0]]), parts=np.zeros((1, 2)))


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (b"", "offset 0: got b'', expected a recording"),
        (b"%PDF-1.4 something", "offset 0: got b'%PDF-1.4 somethi', expected a recording"),
        (wire.MAGIC, "offset 8: got the end of the file, expected a header"),
        (header(version=2), "offset 8: got version 2, expected version 1: use the carico that recorded it"),
        (header(dims=[]), "offset 8: got a header with .* at dims"),
        (header(cores=0.0), "offset 8: got a header with cores: got 0.0, expected a positive"),
        (header(scale=[8.0]), "offset 8: got a header with scale: got 1 numbers"),
        (header(scale=[8.0, 1e30]), "offset 8: got a header with .* at scale"),
        (header() + wire.encode_block(share(1e9), []), r"got a block with a share of 1e\+09, expected 0 to 1"),
        (header() + wire.encode_block(share(np.nan), []), "got a block with a time or a share that is not finite"),
        (header() + crafted(7, {}), "got a frame of kind 7"),
        (header() + crafted(wire.BLOCK, {}), "got a block with missing_field at rows"),
        (header() + crafted(wire.END, {}) + b"x", "got more bytes, expected the end of the file"),
        (
            header() + wire.encode_block(run(9.0), []) + wire.encode_block(run(3.0), []),
            r"got a sample at 3.000 s after one at 10.900 s, expected times in order",
        ),
    ],
)
def test_what_cannot_be_read_is_one_line_with_the_place(file: bytes, said: str) -> None:
    with pytest.raises(errors.RecordingError, match=said) as raised:
        wire.decode(file, name="node.rec")
    assert str(raised.value).startswith("node.rec, offset ")
    assert "\n" not in str(raised.value)


def test_an_hour_of_an_emulated_node_stays_small() -> None:
    # Jiffies make utilisation a ratio of small whole numbers: what is recorded is far from random.
    rng = np.random.default_rng(1)
    count = 30
    busy = rng.integers(0, 20, size=count) / 20
    waiting = rng.integers(0, 100_000, size=count) / 1e5
    memory = 0.05 + np.cumsum(rng.integers(0, 2, size=count)) * 4096 / 8e9
    block = wire.encode_block(
        recording.Samples(
            times_s=1e5 + np.arange(count) / 10 + rng.random(count) * 1e-3,
            values=np.column_stack([(busy + waiting) / 2, memory]),
            parts=np.column_stack([busy, waiting]),
        ),
        [],
    )
    # Of forty bytes of plain numbers a sample: an hour at 10 Hz then stays below 1.2 MB.
    assert len(block) / count < 33
