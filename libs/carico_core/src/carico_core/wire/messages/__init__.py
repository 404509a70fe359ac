"""Every message of the bus, bytes to record and back.

`capacity`, `subspace`, `model` (with partials), `decision`, `roster`, `claims` (with heartbeats), `summary`, `usage`
(with what aggregators keep of it), `recommended` (the answer to a query), and `pod_telemetry` (loads and traffic of
single Pods).

`elements` has what several of them share. New fields are optional, readers ignore unknown fields, and a change of
meaning is a new version: tests/fixtures/golden keeps bytes of every released version, which must still decode.
"""

from carico_core.wire.messages.capacity import decode_advertisement, encode_advertisement
from carico_core.wire.messages.claims import decode_claims, decode_heartbeat, encode_claims, encode_heartbeat
from carico_core.wire.messages.decision import decode_decision, encode_decision
from carico_core.wire.messages.model import (
    decode_model,
    decode_partial,
    encode_model,
    encode_partial,
    model_as_json,
    split_partial,
)
from carico_core.wire.messages.pod_telemetry import decode_loads, decode_traffic, encode_loads, encode_traffic
from carico_core.wire.messages.recommended import decode_recommended
from carico_core.wire.messages.roster import decode_roster, encode_roster
from carico_core.wire.messages.subspace import decode_subspace, decode_subspaces, encode_subspace
from carico_core.wire.messages.summary import decode_summary, encode_summary
from carico_core.wire.messages.usage import decode_kept, decode_usage, encode_kept, encode_usage

__all__ = [
    "decode_advertisement",
    "decode_claims",
    "decode_decision",
    "decode_heartbeat",
    "decode_kept",
    "decode_loads",
    "decode_model",
    "decode_partial",
    "decode_recommended",
    "decode_roster",
    "decode_subspace",
    "decode_subspaces",
    "decode_summary",
    "decode_traffic",
    "decode_usage",
    "encode_advertisement",
    "encode_claims",
    "encode_decision",
    "encode_heartbeat",
    "encode_kept",
    "encode_loads",
    "encode_model",
    "encode_partial",
    "encode_roster",
    "encode_subspace",
    "encode_summary",
    "encode_traffic",
    "encode_usage",
    "model_as_json",
    "split_partial",
]
