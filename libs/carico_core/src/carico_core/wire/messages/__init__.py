"""Every message of the bus, bytes to record and back: `capacity`, `subspace`, `model` (with partials), `decision`.

`elements` has what several of them share. New fields are optional, readers ignore unknown fields, and a change of
meaning is a new version: tests/fixtures/golden keeps bytes of every released version, which must still decode.
"""

from carico_core.wire.messages.capacity import decode_advertisement, encode_advertisement
from carico_core.wire.messages.decision import decode_decision, encode_decision
from carico_core.wire.messages.model import (
    decode_model,
    decode_partial,
    encode_model,
    encode_partial,
    model_as_json,
    split_partial,
)
from carico_core.wire.messages.subspace import decode_subspace, decode_subspaces, encode_subspace

__all__ = [
    "decode_advertisement",
    "decode_decision",
    "decode_model",
    "decode_partial",
    "decode_subspace",
    "decode_subspaces",
    "encode_advertisement",
    "encode_decision",
    "encode_model",
    "encode_partial",
    "encode_subspace",
    "model_as_json",
    "split_partial",
]
