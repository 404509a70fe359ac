"""Every kind of message: its record, subject, encoder and decoder, so that each test holds for all of them."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from carico_core.domain import messages
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from tests.fixtures.golden import records


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One golden message."""

    name: str
    record: Any
    subject: str
    encode: Callable[[Any], bytes]
    decode: Callable[..., Any]
    is_json: bool
    maximum_bytes: int = 64 * 1024

    @property
    def file(self) -> str:
        """The name of its golden file."""
        return f"{self.name}.{'json' if self.is_json else 'msgpack'}"


def _advertisement(name: str, record: messages.Advertisement) -> Kind:
    return Kind(
        name=name, record=record, subject=subjects.capacity(record.node), encode=wire.encode_advertisement,
        decode=wire.decode_advertisement, is_json=True,
    )  # fmt: skip


def _decision(name: str, record: Any) -> Kind:
    return Kind(
        name=name, record=record, subject=subjects.decision(record.namespace, record.pod),
        encode=wire.encode_decision, decode=wire.decode_decision, is_json=True,
    )  # fmt: skip


def _heartbeat(name: str, record: messages.Heartbeat) -> Kind:
    return Kind(
        name=name, record=record, subject=subjects.member(record.replica), encode=wire.encode_heartbeat,
        decode=wire.decode_heartbeat, is_json=True,
    )  # fmt: skip


def _claims(name: str, record: messages.NodeClaims) -> Kind:
    return Kind(
        name=name, record=record, subject=subjects.claim(record.node), encode=wire.encode_claims,
        decode=wire.decode_claims, is_json=True,
    )  # fmt: skip


def _partial(name: str, record: messages.Partial) -> Kind:
    return Kind(
        name=name, record=record, subject=subjects.partial(record.replica), encode=wire.encode_partial,
        decode=wire.decode_partial, is_json=False, maximum_bytes=1024 * 1024,
    )  # fmt: skip


ALL = (
    _advertisement("advertisement", records.ADVERTISEMENT),
    _advertisement("advertisement-full", records.ADVERTISEMENT_FULL),
    Kind(
        name="subspace", record=records.SUBSPACE, subject=subjects.subspace(records.NODE), encode=wire.encode_subspace,
        decode=wire.decode_subspace, is_json=False,
    ),
    _partial("partial", records.PARTIAL),
    _partial("partial-joining", records.PARTIAL_JOINING),
    Kind(
        name="model", record=records.MODEL, subject=subjects.MODEL, encode=wire.encode_model,
        decode=lambda payload, *, subject: wire.decode_model(payload), is_json=False, maximum_bytes=1024 * 1024,
    ),
    Kind(
        name="usage", record=records.USAGE, subject=subjects.usage(records.NODE), encode=wire.encode_usage,
        decode=wire.decode_usage, is_json=True,
    ),
    Kind(
        name="pods", record=records.LOADS, subject=subjects.pods(records.NODE), encode=wire.encode_loads,
        decode=wire.decode_loads, is_json=True,
    ),
    Kind(
        name="traffic", record=records.TRAFFIC, subject=subjects.traffic(records.NODE), encode=wire.encode_traffic,
        decode=wire.decode_traffic, is_json=True,
    ),
    _decision("decision", records.DECISION),
    _decision("decision-waiting", records.DECISION_WAITING),
    _decision("decision-shared", records.DECISION_SHARED),
    _decision("decision-named", records.DECISION_NAMED),
    _claims("claims", records.CLAIMS),
    _claims("claims-apart", records.CLAIMS_APART),
    _heartbeat("heartbeat", records.HEARTBEAT),
    _heartbeat("heartbeat-report", records.HEARTBEAT_REPORT),
    _heartbeat("heartbeat-corrections", records.HEARTBEAT_CORRECTIONS),
    Kind(
        name="summary", record=records.SUMMARY, subject=subjects.SUMMARY, encode=wire.encode_summary,
        decode=wire.decode_summary, is_json=True,
    ),
    Kind(
        name="roster", record=records.ROSTER, subject=subjects.roster(records.NODE), encode=wire.encode_roster,
        decode=wire.decode_roster, is_json=True,
    ),
)  # fmt: skip


def plain(value: Any) -> Any:
    """A record as plain values that compare by content, arrays included."""
    if isinstance(value, np.ndarray):
        return (value.shape, value.dtype.str, value.tolist())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    return value
