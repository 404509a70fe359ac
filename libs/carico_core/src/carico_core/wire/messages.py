"""Every message of the bus, bytes to record and back; one module per family holds the code.

Fields are added only as optional ones, readers ignore those they do not know, and a change of meaning is a new
version: golden bytes of every released version are kept under tests/fixtures/golden and still decode.
"""

from carico_core.wire.capacity import decode_advertisement, encode_advertisement
from carico_core.wire.decision import decode_decision, encode_decision
from carico_core.wire.model import (
    decode_model,
    decode_partial,
    encode_model,
    encode_partial,
    model_as_json,
    split_partial,
)
from carico_core.wire.subspace import decode_subspace, decode_subspaces, encode_subspace

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
