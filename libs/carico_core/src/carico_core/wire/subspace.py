"""Local subspaces on `carico.v1.subspace.<node>`: msgpack, arrays as raw little-endian float64."""

from collections.abc import Sequence

from carico_core.domain import errors, messages
from carico_core.wire import codec, evidence, fields, header, subspace_quick

# Columns of u have length 1.
_UNIT_ROUNDING = 1e-6
# Usage per dimension is at most 1, so sigma is at most sqrt(d) for a Gram matrix divided by its samples; the rest is
# room for writers that do not divide. What passes here must fit into the bounds of partials and of the model
# (`model.GRAM_MAX`), or one node that lies would have the messages of all refused.
SIGMA_MAX = 1e3
_CORES_MAX = 1e6


def encode_subspace(subspace: messages.LocalSubspace) -> bytes:
    """The bytes of a local subspace."""
    s = subspace
    return codec.format_msgpack(
        {
            "node": s.node,
            **header.format_header(boot=s.boot, seq=s.seq, ts_ns=s.ts_ns),
            "sampled_at": s.sampled_at_ns,
            "dims": list(s.dims),
            "u": codec.pack_array(s.u),
            "sigma": codec.pack_array(s.sigma),
            "samples": int(s.samples),
            "weight": float(s.weight),
            "scale": codec.pack_array(s.scale),
            "peak_pods_per_core": float(s.peak_pods_per_core),
            "evidence": evidence.format_evidence(s.evidence),
        }
    )


def decode_subspace(payload: bytes, *, subject: str) -> messages.LocalSubspace:
    """The local subspace in `payload`; its arrays are read-only. Raises `MessageError` for whatever is wrong."""
    found = decode_subspaces([(subject, payload)])[0]
    if isinstance(found, errors.MessageError):
        raise found
    return found


def decode_subspaces(found: Sequence[tuple[str, bytes]]) -> list[messages.LocalSubspace | errors.MessageError]:
    """The local subspace in each (subject, payload), or what is wrong with it; together they cost half as much."""
    verdicts: list[messages.LocalSubspace | errors.MessageError | None] = [None] * len(found)
    parsed: list[tuple[int, fields.Fields]] = []
    for index, (_, payload) in enumerate(found):
        try:
            parsed.append((index, codec.parse_msgpack(payload)))
        except errors.MessageError as error:
            verdicts[index] = error
    quick = subspace_quick.read_all(
        [(found[index][0], message.raw) for index, message in parsed],
        sigma_max=SIGMA_MAX, unit_max=1.0 + _UNIT_ROUNDING, cores_max=_CORES_MAX,
    )  # fmt: skip
    for (index, message), record in zip(parsed, quick, strict=True):
        verdicts[index] = _verdict(message, found[index][0]) if record is None else record
    return [verdict for verdict in verdicts if verdict is not None]


def _verdict(message: fields.Fields, subject: str) -> messages.LocalSubspace | errors.MessageError:
    try:
        return read_carefully(message, subject=subject)
    except errors.MessageError as error:
        return error


def read_carefully(message: fields.Fields, *, subject: str) -> messages.LocalSubspace:
    """The local subspace in `message`, field by field. Raises `MessageError` for whatever is wrong."""
    origin = header.parse_header(message)
    dims = message.dims()
    u = message.array("u", (len(dims), None), minimum=-1.0 - _UNIT_ROUNDING, maximum=1.0 + _UNIT_ROUNDING)
    rank = u.shape[1]
    if not 1 <= rank <= len(dims):
        raise message.fail(errors.Drop.WRONG_SHAPE, "u", f"got rank {rank}, expected 1 to {len(dims)}")
    return messages.LocalSubspace(
        node=header.parse_writer(message, "node", subject),
        boot=origin.boot,
        seq=origin.seq,
        ts_ns=origin.ts_ns,
        sampled_at_ns=message.integer("sampled_at", maximum=fields.INT64_MAX),
        dims=dims,
        u=u,
        sigma=message.array("sigma", (rank,), maximum=SIGMA_MAX),
        samples=message.integer("samples", maximum=fields.INT64_MAX),
        weight=message.number("weight", maximum=_CORES_MAX),
        scale=parse_scale(message, len(dims)),
        evidence=evidence.parse_evidence(message),
        peak_pods_per_core=parse_peak(message),
    )


def parse_scale(message: fields.Fields, count: int) -> messages.Array:
    """What 1.0 is in each dimension: positive numbers. Raises `MessageError`."""
    scale = message.array("scale", (count,), maximum=fields.QUANTITY_MAX)
    if 0.0 in scale.tolist():
        raise message.fail(errors.Drop.OUT_OF_RANGE, "scale", "got 0, expected positive numbers")
    return scale


def parse_peak(message: fields.Fields) -> float:
    """`peak_pods_per_core`, 0 where it is not told. Raises `MessageError`."""
    name = "peak_pods_per_core"
    return message.number(name, maximum=fields.PODS_MAX) if message.has(name) else 0.0
