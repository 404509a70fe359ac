"""Decisions on `carico.v1.decision.<namespace>.<pod>`: JSON, for `carico explain` and for people."""

from typing import Annotated

import msgspec
from msgspec import Meta

from carico_core.domain import decision as records
from carico_core.domain import errors
from carico_core.wire import codec, fields, schemas, subjects
from carico_core.wire.messages import elements

_ID_MAX = 128
_MESSAGE_MAX = 4096
_CANDIDATES_MAX = 512
_LOST_MAX = 16
_DURATION_MAX = 1e12
_SCORE_MAX = 1e12
_Id = Annotated[str, Meta(min_length=1, max_length=_ID_MAX)]
_FreeText = Annotated[str, Meta(max_length=_MESSAGE_MAX)]
_Duration = Annotated[float, Meta(ge=0.0, le=_DURATION_MAX)]
_Pods = Annotated[float, Meta(ge=0.0, le=fields.PODS_MAX)]
_SignedPods = Annotated[float, Meta(ge=-fields.PODS_MAX, le=fields.PODS_MAX)]


class _Rejection(msgspec.Struct, gc=False):
    reason: records.Reason
    detail: _FreeText


class _Candidate(msgspec.Struct, kw_only=True, gc=False):
    node: elements.ObjectName
    reserved: _Pods
    capacity: _Pods | None = None
    age_s: _Duration | None = None
    seq: elements.Int64 | None = None
    score: Annotated[float, Meta(ge=-_SCORE_MAX, le=_SCORE_MAX)] | None = None
    rejection: _Rejection | None = None


class _Decision(elements.Message, kw_only=True, gc=False):
    namespace: Annotated[str, Meta(min_length=1, max_length=63)]
    pod: elements.ObjectName
    uid: _Id
    id: _Id
    outcome: records.Outcome
    threshold: _SignedPods
    attempt: elements.Int64
    waited_s: _Duration
    decided_us: _Duration
    candidates: Annotated[list[_Candidate], Meta(max_length=_CANDIDATES_MAX)]
    refused: Annotated[dict[elements.Name, elements.Int64], Meta(max_length=fields.CLASSES_MAX)]
    message: _FreeText
    node: elements.ObjectName | None = None
    free: _SignedPods | None = None
    lost: Annotated[dict[elements.ObjectName, elements.Int64], Meta(max_length=_LOST_MAX)] = msgspec.field(
        default_factory=dict
    )
    scheduler: elements.ObjectName | None = None


_DECODER = schemas.Decoder(_Decision, is_json=True)


def encode_decision(decision: records.Decision) -> bytes:
    """Return the bytes of a decision."""
    d = decision
    return codec.format_json(
        {
            "namespace": d.namespace,
            "pod": d.pod,
            "uid": d.uid,
            "id": d.id,
            **elements.format_header(boot=d.boot, seq=d.seq, ts_ns=d.ts_ns),
            "outcome": d.outcome.value,
            "node": d.node,
            "free": d.free,
            "threshold": d.threshold,
            "attempt": d.attempt,
            "waited_s": d.waited_s,
            "decided_us": d.decided_us,
            "message": d.message,
            "candidates": [_format_candidate(candidate) for candidate in d.candidates],
            "refused": dict(d.refused),
            # Only schedulers that share the work lose claims.
            **({"lost": dict(d.lost)} if d.lost else {}),
            **({"scheduler": d.scheduler} if d.scheduler else {}),
        }
    )


def decode_decision(payload: bytes, *, subject: str) -> records.Decision:
    """Return the decision in `payload`. Raises `MessageError` if anything in it is wrong."""
    d = _DECODER.read(payload)
    elements.check_version(d)
    _check_pod(d, subject)
    if d.node is not None:
        elements.check_name("node", d.node)
    if d.scheduler is not None:
        elements.check_name("scheduler", d.scheduler)
    elements.check_printable("id", (d.id,))
    elements.check_printable("uid", (d.uid,))
    elements.check_printable("refused", d.refused)
    elements.check_printable("lost", d.lost)
    return records.Decision(
        id=d.id, boot=d.boot, seq=d.seq, ts_ns=d.ts, namespace=d.namespace, pod=d.pod, uid=d.uid, outcome=d.outcome,
        node=d.node, free=d.free, threshold=d.threshold, attempt=d.attempt, waited_s=d.waited_s,
        decided_us=d.decided_us, candidates=tuple([_read_candidate(item) for item in d.candidates]),
        refused=d.refused, message=d.message, lost=d.lost, scheduler=d.scheduler or "",
    )  # fmt: skip


def _format_candidate(candidate: records.Candidate) -> dict[str, object]:
    rejection = candidate.rejection
    return {
        "node": candidate.node,
        "capacity": candidate.capacity,
        "reserved": candidate.reserved,
        "age_s": candidate.age_s,
        "seq": candidate.seq,
        "score": candidate.score,
        "rejection": None if rejection is None else {"reason": rejection.reason.value, "detail": rejection.detail},
    }


def _read_candidate(item: _Candidate) -> records.Candidate:
    elements.check_name("candidates[...].node", item.node)
    rejection = item.rejection
    return records.Candidate(
        node=item.node, capacity=item.capacity, reserved=item.reserved, age_s=item.age_s, seq=item.seq,
        score=item.score,
        rejection=None if rejection is None else records.Rejection(reason=rejection.reason, detail=rejection.detail),
    )  # fmt: skip


def _check_pod(found: _Decision, subject: str) -> None:
    """Raise `MessageError` where a decision is not about the Pod of its subject."""
    try:
        expected = subjects.pod_of(subject)
    except errors.BadName as error:
        raise errors.MessageError(errors.Drop.BAD_NAME, "pod", str(error)) from None
    pod = (found.namespace, found.pod)
    if pod != expected:
        detail = f"got {fields.shown('/'.join(pod))}, expected {'/'.join(expected)!r} as in the subject"
        raise errors.MessageError(errors.Drop.FOREIGN_NODE, "pod", detail)
