"""Decisions on `carico.v1.decision.<namespace>.<pod>`: JSON, for `carico explain` and for people."""

from carico_core.domain import decision as records
from carico_core.domain import errors, names
from carico_core.wire import codec, fields, header, subjects

_ID_MAX = 128
_MESSAGE_MAX = 4096
_CANDIDATES_MAX = 512
_DURATION_MAX = 1e12
_SCORE_MAX = 1e12
_OUTCOMES = frozenset(outcome.value for outcome in records.Outcome)
_REASONS = frozenset(reason.value for reason in records.Reason)


def encode_decision(decision: records.Decision) -> bytes:
    """The bytes of a decision."""
    d = decision
    return codec.format_json(
        {
            "namespace": d.namespace,
            "pod": d.pod,
            "uid": d.uid,
            "id": d.id,
            **header.format_header(boot=d.boot, seq=d.seq, ts_ns=d.ts_ns),
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
        }
    )


def decode_decision(payload: bytes, *, subject: str) -> records.Decision:
    """The decision in `payload`. Raises `MessageError` for whatever is wrong with it."""
    message = codec.parse_json(payload)
    origin = header.parse_header(message)
    namespace, pod = _parse_pod(message, subject)
    return records.Decision(
        id=message.text("id", maximum=_ID_MAX),
        boot=origin.boot,
        seq=origin.seq,
        ts_ns=origin.ts_ns,
        namespace=namespace,
        pod=pod,
        uid=message.text("uid", maximum=_ID_MAX),
        outcome=records.Outcome(message.choice("outcome", _OUTCOMES)),
        node=header.parse_name(message, "node", names.is_subdomain) if message.has("node") else None,
        free=_parse_signed(message, "free"),
        threshold=message.number("threshold", minimum=-fields.PODS_MAX, maximum=fields.PODS_MAX),
        attempt=message.integer("attempt", maximum=fields.INT64_MAX),
        waited_s=message.number("waited_s", maximum=_DURATION_MAX),
        decided_us=message.number("decided_us", maximum=_DURATION_MAX),
        candidates=tuple(_parse_candidate(item) for item in message.objects("candidates", count=_CANDIDATES_MAX)),
        refused=message.count_map("refused", maximum=fields.INT64_MAX),
        message=message.text("message", maximum=_MESSAGE_MAX, free=True),
    )


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


def _parse_candidate(item: fields.Fields) -> records.Candidate:
    return records.Candidate(
        node=header.parse_name(item, "node", names.is_subdomain),
        capacity=item.number("capacity", maximum=fields.PODS_MAX) if item.has("capacity") else None,
        reserved=item.number("reserved", maximum=fields.PODS_MAX),
        age_s=item.number("age_s", maximum=_DURATION_MAX) if item.has("age_s") else None,
        seq=item.integer("seq", maximum=fields.INT64_MAX) if item.has("seq") else None,
        score=item.number("score", minimum=-_SCORE_MAX, maximum=_SCORE_MAX) if item.has("score") else None,
        rejection=_parse_rejection(item.fields("rejection")) if item.has("rejection") else None,
    )


def _parse_rejection(item: fields.Fields) -> records.Rejection:
    reason = records.Reason(item.choice("reason", _REASONS))
    return records.Rejection(reason=reason, detail=item.text("detail", maximum=_MESSAGE_MAX, free=True))


def _parse_signed(message: fields.Fields, name: str) -> float | None:
    if not message.has(name):
        return None
    return message.number(name, minimum=-fields.PODS_MAX, maximum=fields.PODS_MAX)


def _parse_pod(message: fields.Fields, subject: str) -> tuple[str, str]:
    """Namespace and name of the Pod, which must be those of the subject. Raises `MessageError`."""
    pod = (message.text("namespace", maximum=63), message.text("pod", maximum=253))
    try:
        expected = subjects.pod_of(subject)
    except errors.BadName as error:
        raise message.fail(errors.Drop.BAD_NAME, "pod", str(error)) from None
    if pod != expected:
        detail = f"got {fields.shown('/'.join(pod))}, expected {'/'.join(expected)!r} as in the subject"
        raise message.fail(errors.Drop.FOREIGN_NODE, "pod", detail)
    return pod
