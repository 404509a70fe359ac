"""The model of the cluster (`carico.v1.model`, key `global`) and what aggregators tell each other: msgpack."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from carico_core.domain import errors, messages, names
from carico_core.wire import codec, evidence, fields, header, subspace

# Above what subspaces within their bounds add up to: rank x sigma^2 = 32 x 1e6.
GRAM_MAX = 1e9
# A Gram matrix is symmetric; the sums that make it round differently above and below the diagonal.
_SYMMETRY_ROUNDING = 1e-9
_WEIGHT_MAX = 1e12
_NODES_MAX = 1_000_000
_ENTRIES_MAX = 16_384
_AGE_MAX_S = 1e6
# A chunk leaves room below the limit for its own header and for one entry as large as a subspace may be.
_CHUNK_BYTES = codec.MODEL_MAX_BYTES // 2
_MERGES = frozenset({"round", "sequential"})


def encode_model(model: messages.GlobalModel) -> bytes:
    """The bytes of a model."""
    return codec.format_msgpack(
        {
            **_format_model(model),
            "gram": codec.pack_array(model.gram),
            "evidence": evidence.format_evidence(model.evidence),
        }
    )


def model_as_json(model: messages.GlobalModel) -> bytes:
    """The model as JSON, for people."""
    gram = {name: dict(zip(model.dims, row, strict=True)) for name, row in zip(model.dims, model.gram, strict=True)}
    return codec.format_json(
        {**_format_model(model), "gram": gram, "evidence": evidence.format_evidence(model.evidence)}
    )


def decode_model(payload: bytes, *, subject: str = "") -> messages.GlobalModel:
    """The model in `payload`. Raises `MessageError` for whatever is wrong. One subject serves all: it is not read."""
    del subject
    message = codec.parse_msgpack(payload, maximum_bytes=codec.MODEL_MAX_BYTES)
    origin = header.parse_header(message)
    dims = message.dims()
    return messages.GlobalModel(
        replica=header.parse_name(message, "replica", names.is_subdomain),
        boot=origin.boot,
        seq=origin.seq,
        ts_ns=origin.ts_ns,
        epoch=message.integer("epoch", maximum=fields.INT64_MAX),
        merge=message.choice("merge", _MERGES),
        contributors=message.integer("contributors", maximum=_NODES_MAX),
        weight=message.number("weight", maximum=_WEIGHT_MAX),
        dims=dims,
        gram=_parse_gram(message, len(dims)),
        evidence=evidence.parse_evidence(message),
        peak_pods_per_core=subspace.parse_peak(message),
    )


def encode_partial(partial: messages.Partial) -> bytes:
    """The bytes of a partial; those with many nodes are divided first (`split_partial`)."""
    return codec.format_msgpack(
        {
            "replica": partial.replica,
            **header.format_header(boot=partial.boot, seq=partial.seq, ts_ns=partial.ts_ns),
            "complete": partial.complete,
            "joining": partial.joining,
            "entries": [_format_entry(entry) for entry in partial.entries],
        }
    )


def split_partial(partial: messages.Partial) -> list[messages.Partial]:
    """The same entries in as many partials as the size of a message asks for, numbered on from `seq`; at least one."""
    chunks: list[list[messages.Entry]] = [[]]
    size_bytes = 0
    for entry in partial.entries:
        entry_bytes = len(codec.format_msgpack(_format_entry(entry)))
        if chunks[-1] and size_bytes + entry_bytes > _CHUNK_BYTES:
            chunks.append([])
            size_bytes = 0
        chunks[-1].append(entry)
        size_bytes += entry_bytes
    return [_with_entries(partial, number, chunk) for number, chunk in enumerate(chunks)]


def decode_partial(payload: bytes, *, subject: str) -> messages.Partial:
    """The partial in `payload`. Raises `MessageError` for whatever is wrong with it or with any of its entries."""
    message = codec.parse_msgpack(payload, maximum_bytes=codec.MODEL_MAX_BYTES)
    origin = header.parse_header(message)
    return messages.Partial(
        replica=header.parse_writer(message, "replica", subject),
        boot=origin.boot,
        seq=origin.seq,
        ts_ns=origin.ts_ns,
        complete=message.flag("complete"),
        joining=message.flag("joining"),
        entries=tuple(_parse_entry(item) for item in message.objects("entries", count=_ENTRIES_MAX)),
    )


def _with_entries(partial: messages.Partial, number: int, entries: Sequence[messages.Entry]) -> messages.Partial:
    return dataclasses.replace(partial, seq=partial.seq + number, entries=tuple(entries))


def _format_model(model: messages.GlobalModel) -> dict[str, object]:
    return {
        "replica": model.replica,
        **header.format_header(boot=model.boot, seq=model.seq, ts_ns=model.ts_ns),
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
        "gram": codec.pack_array(entry.gram),
        "weight": float(entry.weight),
        "scale": codec.pack_array(entry.scale),
        "peak_pods_per_core": float(entry.peak_pods_per_core),
        "evidence": evidence.format_evidence(entry.evidence),
    }


def _parse_entry(item: fields.Fields) -> messages.Entry:
    origin = header.parse_origin(item)
    dims = item.dims()
    return messages.Entry(
        node=header.parse_name(item, "node", names.is_subdomain),
        boot=origin.boot,
        seq=origin.seq,
        ts_ns=origin.ts_ns,
        age_s=item.number("age_s", maximum=_AGE_MAX_S),
        dims=dims,
        gram=_parse_gram(item, len(dims)),
        weight=item.number("weight", maximum=_WEIGHT_MAX),
        scale=subspace.parse_scale(item, len(dims)),
        evidence=evidence.parse_evidence(item),
        peak_pods_per_core=subspace.parse_peak(item),
    )


def _parse_gram(item: fields.Fields, count: int) -> messages.Array:
    """A symmetric matrix with a diagonal that is not negative. Raises `MessageError`."""
    gram = item.array("gram", (count, count), minimum=-GRAM_MAX, maximum=GRAM_MAX)
    diagonal = gram.diagonal()
    if diagonal.min() < 0.0:
        raise item.fail(errors.Drop.OUT_OF_RANGE, "gram", "got a negative diagonal, expected a Gram matrix")
    # |G_ij - G_ji| <= rounding x trace, which bounds every term of a positive semidefinite matrix.
    if np.abs(gram - gram.T).max() > _SYMMETRY_ROUNDING * float(diagonal.sum()):
        raise item.fail(errors.Drop.OUT_OF_RANGE, "gram", "got a matrix that is not symmetric")
    return gram
