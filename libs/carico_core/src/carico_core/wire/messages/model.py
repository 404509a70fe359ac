"""The model of the cluster (`carico.v1.model`, key `global`), and the partials that aggregators exchange: msgpack."""

import dataclasses
from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta

from carico_core.domain import errors, messages
from carico_core.wire import codec, schemas
from carico_core.wire.messages import elements

# More than subspaces within their bounds can add up to: rank x sigma^2 = 32 x 1e6.
GRAM_MAX = 1e9
# A Gram matrix is symmetric, but its sums round differently above and below the diagonal.
_SYMMETRY_ROUNDING = 1e-9
_WEIGHT_MAX = 1e12
_NODES_MAX = 1_000_000
_ENTRIES_MAX = 16_384
_AGE_MAX_S = 1e6
# Half the limit: the rest is for the header and for one entry of the largest possible size.
_CHUNK_BYTES = codec.MODEL_MAX_BYTES // 2
_Weight = Annotated[float, Meta(ge=0.0, le=_WEIGHT_MAX)]


class _Entry(elements.Origin, kw_only=True, gc=False):
    node: elements.ObjectName
    age_s: Annotated[float, Meta(ge=0.0, le=_AGE_MAX_S)]
    dims: elements.Dims
    gram: elements.Array
    weight: _Weight
    scale: elements.Array
    evidence: elements.Evidence
    peak_pods_per_core: elements.PodsPerCore | None = None


class _Partial(elements.Message, kw_only=True, gc=False):
    replica: elements.ObjectName
    complete: bool
    joining: bool
    entries: Annotated[list[_Entry], Meta(max_length=_ENTRIES_MAX)]


class _Model(elements.Message, kw_only=True, gc=False):
    replica: elements.ObjectName
    epoch: elements.Int64
    merge: Literal["round", "sequential"]
    contributors: Annotated[int, Meta(ge=0, le=_NODES_MAX)]
    weight: _Weight
    dims: elements.Dims
    gram: elements.Array
    evidence: elements.Evidence
    peak_pods_per_core: elements.PodsPerCore | None = None


_PARTIALS = schemas.Decoder(_Partial, maximum_bytes=codec.MODEL_MAX_BYTES)
_MODELS = schemas.Decoder(_Model, maximum_bytes=codec.MODEL_MAX_BYTES)


def encode_model(model: messages.GlobalModel) -> bytes:
    """Return the bytes of a model."""
    return schemas.format_msgpack(
        {
            **_format_model(model),
            "gram": schemas.pack_array(model.gram),
            "evidence": elements.format_evidence(model.evidence),
        }
    )


def model_as_json(model: messages.GlobalModel) -> bytes:
    """Return the model as JSON, for people to read."""
    gram = {name: dict(zip(model.dims, row, strict=True)) for name, row in zip(model.dims, model.gram, strict=True)}
    return codec.format_json(
        {**_format_model(model), "gram": gram, "evidence": elements.format_evidence(model.evidence)}
    )


def decode_model(payload: bytes) -> messages.GlobalModel:
    """Return the model in `payload`. Raises `MessageError`. All replicas share the subject, which says nothing."""
    m = _MODELS.read(payload)
    elements.check_version(m)
    elements.check_name("replica", m.replica)
    dims = elements.read_dims(m.dims)
    return messages.GlobalModel(
        replica=m.replica, boot=m.boot, seq=m.seq, ts_ns=m.ts, epoch=m.epoch, merge=m.merge,
        contributors=m.contributors, weight=m.weight, dims=dims, gram=_read_gram(m.gram, len(dims)),
        evidence=elements.read_evidence(m.evidence), peak_pods_per_core=m.peak_pods_per_core or 0.0,
    )  # fmt: skip


def encode_partial(partial: messages.Partial) -> bytes:
    """Return the bytes of a partial. Use `split_partial` first, as those with many nodes are too large."""
    return schemas.format_msgpack(
        {
            "replica": partial.replica,
            **elements.format_header(boot=partial.boot, seq=partial.seq, ts_ns=partial.ts_ns),
            "complete": partial.complete,
            "joining": partial.joining,
            "entries": [_format_entry(entry) for entry in partial.entries],
        }
    )


def split_partial(partial: messages.Partial) -> list[messages.Partial]:
    """Return as many partials as the size of messages requires, at least one, numbered from `seq`."""
    chunks: list[list[messages.Entry]] = [[]]
    size_bytes = 0
    for entry in partial.entries:
        entry_bytes = len(schemas.format_msgpack(_format_entry(entry)))
        if chunks[-1] and size_bytes + entry_bytes > _CHUNK_BYTES:
            chunks.append([])
            size_bytes = 0
        chunks[-1].append(entry)
        size_bytes += entry_bytes
    return [_with_entries(partial, number, chunk) for number, chunk in enumerate(chunks)]


def decode_partial(payload: bytes, *, subject: str) -> messages.Partial:
    """Return the partial in `payload`. Raises `MessageError` if anything in it is wrong."""
    p = _PARTIALS.read(payload)
    elements.check_version(p)
    elements.check_writer("replica", p.replica, subject)
    return messages.Partial(
        replica=p.replica, boot=p.boot, seq=p.seq, ts_ns=p.ts, complete=p.complete, joining=p.joining,
        entries=tuple([_read_entry(entry) for entry in p.entries]),
    )  # fmt: skip


def _with_entries(partial: messages.Partial, number: int, entries: Sequence[messages.Entry]) -> messages.Partial:
    return dataclasses.replace(partial, seq=partial.seq + number, entries=tuple(entries))


def _format_model(model: messages.GlobalModel) -> dict[str, object]:
    return {
        "replica": model.replica,
        **elements.format_header(boot=model.boot, seq=model.seq, ts_ns=model.ts_ns),
        "epoch": int(model.epoch),
        "merge": model.merge,
        "contributors": int(model.contributors),
        "weight": float(model.weight),
        "dims": list(model.dims),
        "peak_pods_per_core": float(model.peak_pods_per_core),
    }


def _format_entry(entry: messages.Entry) -> dict[str, object]:
    return {
        "node": entry.node,
        "boot": entry.boot,
        "seq": entry.seq,
        "ts": entry.ts_ns,
        "age_s": float(entry.age_s),
        "dims": list(entry.dims),
        "gram": schemas.pack_array(entry.gram),
        "weight": float(entry.weight),
        "scale": schemas.pack_array(entry.scale),
        "peak_pods_per_core": float(entry.peak_pods_per_core),
        "evidence": elements.format_evidence(entry.evidence),
    }


def _read_entry(entry: _Entry) -> messages.Entry:
    elements.check_name("entries[...].node", entry.node)
    dims = elements.read_dims(entry.dims)
    return messages.Entry(
        node=entry.node, boot=entry.boot, seq=entry.seq, ts_ns=entry.ts, age_s=entry.age_s, dims=dims,
        gram=_read_gram(entry.gram, len(dims)), weight=entry.weight,
        scale=elements.read_scale(entry.scale, len(dims)),
        evidence=elements.read_evidence(entry.evidence), peak_pods_per_core=entry.peak_pods_per_core or 0.0,
    )  # fmt: skip


def _read_gram(found: elements.Array, count: int) -> messages.Array:
    """Return a symmetric matrix with a non-negative diagonal. Raises `MessageError`."""
    gram = elements.read_array("gram", found, [count, count], -GRAM_MAX, GRAM_MAX)
    diagonal = gram.diagonal()
    if diagonal.min() < 0.0:
        detail = "got a negative diagonal, expected a Gram matrix"
        raise errors.MessageError(errors.Drop.OUT_OF_RANGE, "gram", detail)
    # |G_ij - G_ji| <= rounding x trace, which bounds every term of a positive semidefinite matrix.
    if abs(gram - gram.T).max() > _SYMMETRY_ROUNDING * float(diagonal.sum()):
        raise errors.MessageError(errors.Drop.OUT_OF_RANGE, "gram", "got a matrix that is not symmetric")
    return gram
