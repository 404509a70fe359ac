"""Recordings: bytes <-> domain.recording. The format is described in docs/recordings.md.

A file is MAGIC, one header frame, any number of block frames and, if its writer closed it, an end frame. A frame has
a kind, a length, the CRC-32 of kind and payload, and the payload: zlib over one msgpack map. Blocks do not depend on
each other, so a file can be read up to the point where its writer was killed.
"""

import dataclasses
import struct
import zlib
from collections.abc import Iterator, Sequence

import msgpack
import numpy as np

from carico_core.domain import errors, messages, recording
from carico_core.wire import fields

MAGIC = b"CARICOR\n"
VERSION = 1
HEADER, BLOCK, END = 1, 2, 3
_FRAME = struct.Struct("<BII")
# A block holds a few seconds of samples; these limits bound what a broken file can make a reader allocate.
FRAME_MAX_BYTES = 4 * 2**20
_PAYLOAD_MAX_BYTES = 32 * 2**20
_ROWS_MAX = 100_000
_EVENTS_MAX = 100_000
# Shares are 0 to 1, except for rounding and late reads; larger numbers are no shares and would overflow a model.
_SHARE_MAX = 10.0
_KINDS = tuple(recording.EventKind)
# About 30,000 years: more than any clock shows.
_TIME_MAX_S = 1e12


def encode_header(facts: recording.NodeFacts) -> bytes:
    """Return the start of a file."""
    values = {"version": VERSION, **dataclasses.asdict(facts)}
    return MAGIC + _frame(HEADER, values)


def encode_block(samples: recording.Samples, events: Sequence[recording.PodEvent]) -> bytes:
    """Return samples and events as bytes to append."""
    pods = {(event.uid, event.workload): None for event in events}
    index = {pod: number for number, pod in enumerate(pods)}
    return _frame(
        BLOCK,
        {
            "rows": len(samples.times_s),
            "times_s": _pack(samples.times_s[:, None]),
            "values": _pack(samples.values),
            "parts": _pack(samples.parts),
            "pods": [list(pod) for pod in pods],
            "event_times_s": _pack(np.array([event.at_s for event in events], dtype=np.float64)[:, None]),
            "event_pods": np.array([index[event.uid, event.workload] for event in events], dtype="<u4").tobytes(),
            "event_kinds": bytes(_KINDS.index(event.kind) for event in events),
        },
    )


def encode_end() -> bytes:
    """Return the end mark."""
    return _frame(END, {})


def decode(data: bytes, *, name: str, partial: bool = False) -> recording.Recording:
    """Return the recording in these bytes; with `partial`, a truncated one up to its last whole block.

    Raises `RecordingError` with the offset of the error.
    """
    frames = _frames(data, name, partial=partial)
    facts = _header(next(frames, None), name)
    blocks: list[_Block] = []
    ended = False
    for frame in frames:
        if frame.kind == END:
            ended = True
            if frame.next_offset != len(data):
                raise errors.RecordingError(
                    name, f"offset {frame.next_offset}", got="more bytes", expected="the end of the file"
                )
            break
        blocks.append(_block(frame, facts, name, blocks[-1] if blocks else None))
    return _joined(facts, blocks, ended=ended)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Frame:
    kind: int
    offset: int
    next_offset: int
    values: fields.Fields


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Block:
    samples: recording.Samples
    events: tuple[recording.PodEvent, ...]
    newest_s: float


def _frames(data: bytes, name: str, *, partial: bool) -> Iterator[_Frame]:
    if not data.startswith(MAGIC):
        raise errors.RecordingError(name, "offset 0", got=fields.shown(data[:16]), expected="a recording of CARICO")
    offset = len(MAGIC)
    while offset < len(data):
        found = _frame_at(data, offset, name)
        if found is None:
            if partial:
                return
            raise errors.RecordingError(
                name,
                f"offset {offset}",
                got=f"the end of the file within a block ({len(data) - offset} bytes of it)",
                expected="a whole block: the file is truncated; --partial replays what comes before",
            )
        yield found
        offset = found.next_offset


def _frame_at(data: bytes, offset: int, name: str) -> _Frame | None:
    """Return the frame at `offset`; None if the bytes end within it."""
    body = offset + _FRAME.size
    if body > len(data):
        return None
    kind, length, checksum = _FRAME.unpack_from(data, offset)
    if kind not in (HEADER, BLOCK, END) or length > FRAME_MAX_BYTES:
        got = f"a frame of kind {kind} with {length} bytes"
        expected = f"kind {HEADER}, {BLOCK} or {END}, at most {FRAME_MAX_BYTES} bytes"
        raise errors.RecordingError(name, f"offset {offset}", got=got, expected=expected)
    payload = data[body : body + length]
    if len(payload) < length:
        return None
    if _checksum(kind, payload) != checksum:
        raise errors.RecordingError(
            name, f"offset {offset}", got="a block whose bytes were changed", expected=f"CRC-32 {checksum:08x}"
        )
    return _Frame(kind=kind, offset=offset, next_offset=body + length, values=_unpacked(payload, offset, name))


def _unpacked(payload: bytes, offset: int, name: str) -> fields.Fields:
    try:
        inflate = zlib.decompressobj()
        plain = inflate.decompress(payload, _PAYLOAD_MAX_BYTES)
        if not inflate.eof:
            raise ValueError(f"more than {_PAYLOAD_MAX_BYTES} bytes, or no end")
        return fields.Fields(msgpack.unpackb(plain))
    except (errors.MessageError, ValueError, TypeError, RecursionError, zlib.error, msgpack.UnpackException) as error:
        raise errors.RecordingError(
            name, f"offset {offset}", got=f"a block that does not unpack ({error})", expected="zlib over a msgpack map"
        ) from None


def _header(frame: _Frame | None, name: str) -> recording.NodeFacts:
    if frame is None or frame.kind != HEADER:
        got = "the end of the file" if frame is None else f"a frame of kind {frame.kind}"
        raise errors.RecordingError(name, f"offset {len(MAGIC)}", got=got, expected="a header")
    values, where = frame.values, f"offset {frame.offset}"
    try:
        version = values.integer("version", maximum=fields.INT64_MAX)
        if version != VERSION:
            raise errors.RecordingError(
                name, where, got=f"version {version}", expected=f"version {VERSION}: use the carico that recorded it"
            )
        return _facts(values)
    except (errors.MessageError, ValueError) as error:
        raise errors.RecordingError(name, where, got=f"a header with {error}", expected="as documented") from None


def _facts(values: fields.Fields) -> recording.NodeFacts:
    most = fields.QUANTITY_MAX
    scale = values.raw.get("scale")
    if type(scale) is not list or not all(type(number) is float and abs(number) <= most for number in scale):
        raise values.fail(errors.Drop.WRONG_TYPE, "scale", f"expected a list of numbers up to {most:g}")
    return recording.NodeFacts(
        node=values.text("node", maximum=fields.CLASS_NAME_MAX, free=True),
        dims=values.dims("dims"),
        scale=tuple(scale),
        cores=values.number("cores", maximum=most),
        source=values.text("source", maximum=fields.NAME_MAX, free=True),
        parts=values.texts("parts", maximum=fields.NAME_MAX, count=fields.DIMS_MAX),
        sample_hz=values.number("sample_hz", maximum=most),
        started_ns=values.integer("started_ns", maximum=fields.INT64_MAX),
        started_s=values.number("started_s", maximum=_TIME_MAX_S, minimum=-_TIME_MAX_S),
        notes=tuple(str(note) for note in values.raw.get("notes", ())),
    )


def _block(frame: _Frame, facts: recording.NodeFacts, name: str, before: _Block | None) -> _Block:
    where = f"offset {frame.offset}"
    try:
        if frame.kind != BLOCK:
            raise ValueError(f"kind {frame.kind}, expected {BLOCK}")
        samples = _samples(frame.values, facts)
        events = _events(frame.values)
    except (errors.MessageError, ValueError, KeyError, TypeError) as error:
        raise errors.RecordingError(name, where, got=f"a block with {error}", expected="as documented") from None
    newest_s = _in_order(samples.times_s.tolist(), before.newest_s if before else -np.inf, where, name)
    return _Block(samples=samples, events=events, newest_s=newest_s)


def _in_order(times_s: list[float], newest_s: float, where: str, name: str) -> float:
    for at_s in times_s:
        if at_s < newest_s:
            raise errors.RecordingError(
                name, where, got=f"a sample at {at_s:.3f} s after one at {newest_s:.3f} s", expected="times in order"
            )
        newest_s = at_s
    return newest_s


def _samples(values: fields.Fields, facts: recording.NodeFacts) -> recording.Samples:
    rows = values.integer("rows", maximum=_ROWS_MAX)
    samples = recording.Samples(
        times_s=_unpack(values.raw["times_s"], rows, 1)[:, 0],
        values=_unpack(values.raw["values"], rows, len(facts.dims)),
        parts=_unpack(values.raw["parts"], rows, len(facts.parts)),
    )
    if not (np.isfinite(samples.times_s).all() and np.isfinite(samples.values).all()):
        raise ValueError("a time or a share that is not finite")
    if samples.values.size and np.abs(samples.values).max() > _SHARE_MAX:
        raise ValueError(f"a share of {np.abs(samples.values).max():.4g}, expected 0 to 1")
    return samples


def _events(values: fields.Fields) -> tuple[recording.PodEvent, ...]:
    pods = [(str(uid), str(workload)) for uid, workload in values.raw["pods"]]
    kinds: bytes = values.raw["event_kinds"]
    if len(kinds) > _EVENTS_MAX:
        raise ValueError(f"{len(kinds)} events, expected at most {_EVENTS_MAX}")
    times = _unpack(values.raw["event_times_s"], len(kinds), 1)[:, 0]
    places = np.frombuffer(values.raw["event_pods"], dtype="<u4")
    if len(places) != len(kinds) or any(place >= len(pods) for place in places) or max(kinds, default=0) >= len(_KINDS):
        raise ValueError("events of Pods or kinds that are not named")
    if not np.isfinite(times).all():
        raise ValueError("an event at no time")
    return tuple(
        recording.PodEvent(at_s=at_s, kind=_KINDS[kind], uid=pods[place][0], workload=pods[place][1])
        for at_s, kind, place in zip(times.tolist(), kinds, places.tolist(), strict=True)
    )


def _joined(facts: recording.NodeFacts, blocks: Sequence[_Block], *, ended: bool) -> recording.Recording:
    empty = recording.Samples(
        times_s=np.empty(0), values=np.empty((0, len(facts.dims))), parts=np.empty((0, len(facts.parts)))
    )
    each = [block.samples for block in blocks] or [empty]
    samples = recording.Samples(
        times_s=np.concatenate([one.times_s for one in each]),
        values=np.concatenate([one.values for one in each]),
        parts=np.concatenate([one.parts for one in each]),
    )
    events = tuple(event for block in blocks for event in block.events)
    return recording.Recording(facts=facts, samples=samples, events=events, ended=ended)


def _frame(kind: int, values: dict[str, object]) -> bytes:
    payload = zlib.compress(msgpack.packb(values))
    return _FRAME.pack(kind, len(payload), _checksum(kind, payload)) + payload


def _checksum(kind: int, payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(bytes([kind])))


def _pack(array: messages.Array) -> bytes:
    """Return (n, k) numbers by column, all first bytes before all second ones: zlib compresses that better."""
    columns = np.ascontiguousarray(array.T, dtype=fields.FLOAT64)
    return columns.reshape(-1).view(np.uint8).reshape(-1, 8).T.tobytes()


def _unpack(data: bytes, rows: int, columns: int) -> messages.Array:
    """Return the (n, k) numbers of `_pack`. Raises `ValueError` if the number of bytes is wrong."""
    if len(data) != rows * columns * 8:
        raise ValueError(f"{len(data)} bytes for {rows} x {columns} numbers")
    flat = np.ascontiguousarray(np.frombuffer(data, dtype=np.uint8).reshape(8, -1).T)
    return flat.reshape(-1).view(fields.FLOAT64).reshape(columns, rows).T
