"""Local subspaces on `carico.v1.subspace.<node>`: msgpack, arrays as raw little-endian float64."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import Meta

from carico_core.domain import errors, messages
from carico_core.wire import codec, schemas
from carico_core.wire.messages import elements

# Columns of u have length 1.
_UNIT_MAX = 1.0 + 1e-6
# Usage per dimension is at most 1, so sigma is at most sqrt(d) if the Gram matrix is divided by its samples; the rest
# is a margin for writers that do not divide. What is accepted here must be within the bounds of partials and of the
# model (`model.GRAM_MAX`); otherwise one lying node would get the messages of all nodes refused.
SIGMA_MAX = 1e3
_CORES_MAX = 1e6


class _LocalSubspace(elements.Message, kw_only=True, gc=False):
    node: elements.ObjectName
    sampled_at: elements.Int64
    dims: elements.Dims
    u: elements.Array
    sigma: elements.Array
    samples: elements.Int64
    weight: Annotated[float, Meta(ge=0.0, le=_CORES_MAX)]
    scale: elements.Array
    evidence: elements.Evidence
    peak_pods_per_core: elements.PodsPerCore | None = None


_DECODER = schemas.Decoder(_LocalSubspace)


def encode_subspace(subspace: messages.LocalSubspace) -> bytes:
    """Return the bytes of a local subspace; classes with the longest names are left out where it would be too large."""
    payload = _format(subspace, subspace.evidence)
    over_bytes = len(payload) - codec.PAYLOAD_MAX_BYTES
    if over_bytes <= 0:
        return payload

    def size(name: str, found: messages.ClassEvidence) -> int:
        # The map's own first byte counts once.
        return len(schemas.format_msgpack(elements.format_evidence({name: found}))) - 1

    return _format(subspace, elements.fitting(subspace.evidence, over_bytes, size))


def _format(s: messages.LocalSubspace, evidence: Mapping[str, messages.ClassEvidence]) -> bytes:
    return schemas.format_msgpack(
        {
            "node": s.node,
            **elements.format_header(boot=s.boot, seq=s.seq, ts_ns=s.ts_ns),
            "sampled_at": s.sampled_at_ns,
            "dims": list(s.dims),
            "u": schemas.pack_array(s.u),
            "sigma": schemas.pack_array(s.sigma),
            "samples": int(s.samples),
            "weight": float(s.weight),
            "scale": schemas.pack_array(s.scale),
            "peak_pods_per_core": float(s.peak_pods_per_core),
            "evidence": elements.format_evidence(evidence),
        }
    )


def decode_subspace(payload: bytes, *, subject: str) -> messages.LocalSubspace:
    """Return the local subspace in `payload`; its arrays are read-only. Raises `MessageError` if anything is wrong."""
    s = _DECODER.read(payload)
    elements.check_version(s)
    elements.check_writer("node", s.node, subject)
    dims = elements.read_dims(s.dims)
    count = len(dims)
    rank = s.u.shape[-1] if s.u.shape else 0
    if not 1 <= rank <= count:
        raise errors.MessageError(errors.Drop.WRONG_SHAPE, "u", f"got rank {rank}, expected 1 to {count}")
    return messages.LocalSubspace(
        node=s.node, boot=s.boot, seq=s.seq, ts_ns=s.ts, sampled_at_ns=s.sampled_at, dims=dims,
        u=elements.read_array("u", s.u, [count, rank], -_UNIT_MAX, _UNIT_MAX),
        sigma=elements.read_array("sigma", s.sigma, [rank], 0.0, SIGMA_MAX),
        samples=s.samples, weight=s.weight, scale=elements.read_scale(s.scale, count),
        evidence=elements.read_evidence(s.evidence), peak_pods_per_core=s.peak_pods_per_core or 0.0,
    )  # fmt: skip


def decode_subspaces(found: Sequence[tuple[str, bytes]]) -> list[messages.LocalSubspace | errors.MessageError]:
    """Return the local subspace in each (subject, payload), or the error."""
    return [_decoded(subject, payload) for subject, payload in found]


def _decoded(subject: str, payload: bytes) -> messages.LocalSubspace | errors.MessageError:
    try:
        return decode_subspace(payload, subject=subject)
    except errors.MessageError as error:
        return error
