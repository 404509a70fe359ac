"""Claims on `carico.v1.claim.<node>`, and heartbeats of schedulers: JSON, which people can read with `nats sub`."""

import itertools
from collections.abc import Callable, Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from carico_core.domain import errors, messages
from carico_core.wire import codec, fields, schemas
from carico_core.wire.messages import elements

# A claim is about 200 bytes, so 64 KiB hold some 300. A node runs 110 to 250 Pods, and a claim leaves with its Pod.
CLAIMS_MAX = 512
_IDENTITY_MAX = 512
_REASON_MAX = 1024
_NAMES_MAX = 64
# Of a Pod that requests more resources, or has more terms about other Pods, no more are counted
# (`kubernetes.pods.constraints.TERMS_MOST`).
_OTHERS_MAX = _TERMS_MAX = 64
# In one heartbeat: at most 6 KB.
HANDED_MAX = 64
# Others take what is not announced, so that no Pods are evicted for more at a time: as many as a large Deployment has.
# They have half of the 64 KiB of a heartbeat: enough for names of usual length, and for more than 100 of the longest.
HELD_MAX = 512
HELD_BYTES = 32 << 10
# Names of resources: an RFC 1123 subdomain, a slash, and a label of 63 characters.
_Resource = Annotated[str, Meta(min_length=1, max_length=317)]
# Keys of labels are built in the same way.
_Label = _Resource
_Replica = Annotated[str, Meta(min_length=1, max_length=253)]


class _Claim(msgspec.Struct, kw_only=True, gc=False):
    uid: elements.Uid
    pod_class: Annotated[str, Meta(max_length=fields.CLASS_NAME_MAX)] = msgspec.field(name="class")
    cores: elements.Quantity
    bytes: elements.Quantity
    others: Annotated[dict[_Resource, elements.Quantity], Meta(max_length=_OTHERS_MAX)] = {}
    scheduler: _Replica
    at: elements.Int64
    apart: Annotated[list[_Label], Meta(max_length=_TERMS_MAX)] = []


class _NodeClaims(elements.Message, kw_only=True, gc=False):
    node: elements.ObjectName
    epoch: elements.Boot
    claims: Annotated[list[_Claim], Meta(max_length=CLAIMS_MAX)]


class _Report(msgspec.Struct, kw_only=True, gc=False):
    names: Annotated[list[elements.ObjectName], Meta(max_length=_NAMES_MAX)]
    lease: bool
    why_not: Annotated[str, Meta(max_length=_REASON_MAX)]
    intruder: Annotated[str, Meta(max_length=_IDENTITY_MAX)]
    ready_s: elements.Quantity
    stored: elements.Int64
    conflicts: elements.Int64
    requeued: elements.Int64
    recent: elements.Int64
    orphans: elements.Int64
    view_age_s: elements.Quantity | None = None


class _Corrections(msgspec.Struct, kw_only=True, gc=False):
    handed: Annotated[dict[elements.Uid, elements.Quantity], Meta(max_length=HANDED_MAX)]
    held: Annotated[dict[elements.Uid, elements.ObjectName], Meta(max_length=HELD_MAX)]


class _Heartbeat(elements.Message, kw_only=True, gc=False):
    replica: elements.ObjectName
    identity: Annotated[str, Meta(min_length=1, max_length=_IDENTITY_MAX)]
    leaving: bool
    report: _Report | None = None
    corrections: _Corrections | None = None


_CLAIMS = schemas.Decoder(_NodeClaims, is_json=True)
_HEARTBEAT = schemas.Decoder(_Heartbeat, is_json=True)


def encode_claims(found: messages.NodeClaims) -> bytes:
    """Return the bytes of the claims on a node."""
    return codec.format_json(
        {
            "node": found.node,
            **elements.format_header(boot=found.boot, seq=found.seq, ts_ns=found.ts_ns),
            "epoch": found.epoch,
            "claims": [_format_claim(each) for each in found.claims],
        }
    )


def decode_claims(
    payload: bytes, *, subject: str, known: Callable[[str], messages.Claim | None] = lambda uid: None
) -> messages.NodeClaims:  # fmt: skip
    """Return the claims in `payload`. Raises `MessageError` if anything in it is wrong.

    `known(uid)` returns a claim that was read before. The same one is not read again: a claim is in each message about
    its node for a minute, and a busy node has dozens.
    """
    c = _CLAIMS.read(payload)
    elements.check_version(c)
    elements.check_writer("node", c.node, subject)
    if len({each.uid for each in c.claims}) != len(c.claims):
        raise errors.MessageError(errors.Drop.OUT_OF_RANGE, "claims", "got a UID twice, expected each once")
    claims = tuple([_read_claim(each, known(each.uid)) for each in c.claims])
    return messages.NodeClaims(node=c.node, epoch=c.epoch, boot=c.boot, seq=c.seq, ts_ns=c.ts, claims=claims)


def encode_heartbeat(heartbeat: messages.Heartbeat) -> bytes:
    """Return the bytes of a heartbeat."""
    return codec.format_json(
        {
            "replica": heartbeat.replica,
            **elements.format_header(boot=heartbeat.boot, seq=heartbeat.seq, ts_ns=heartbeat.ts_ns),
            "identity": heartbeat.identity,
            "leaving": heartbeat.is_leaving,
            **({} if heartbeat.report is None else {"report": _format_report(heartbeat.report)}),
            **({} if heartbeat.corrections is None else {"corrections": _format_corrections(heartbeat.corrections)}),
        }
    )


def announced(held: Mapping[str, str]) -> dict[str, str]:
    """Return the first of these Pods and nodes for which a heartbeat has room."""
    found: dict[str, str] = {}
    left_bytes = HELD_BYTES
    for uid, node in itertools.islice(held.items(), HELD_MAX):
        # With quotes, colon and comma.
        left_bytes -= len(uid) + len(node) + 6
        if left_bytes < 0:
            break
        found[uid] = node
    return found


def decode_heartbeat(payload: bytes, *, subject: str) -> messages.Heartbeat:
    """Return the heartbeat in `payload`. Raises `MessageError` if anything in it is wrong."""
    h = _HEARTBEAT.read(payload)
    elements.check_version(h)
    elements.check_name("replica", h.replica)
    elements.check_writer("replica", h.replica, subject)
    elements.check_printable("identity", (h.identity,))
    return messages.Heartbeat(
        replica=h.replica, boot=h.boot, seq=h.seq, ts_ns=h.ts, identity=h.identity, is_leaving=h.leaving,
        report=None if h.report is None else _read_report(h.report),
        corrections=None if h.corrections is None else _read_corrections(h.corrections),
    )  # fmt: skip


def _format_claim(claim: messages.Claim) -> dict[str, object]:
    return {
        "uid": claim.uid,
        # It may be a Pod's image, which Kubernetes lets contain anything: readers would refuse the whole message.
        "class": _printable(claim.pod_class),
        "cores": claim.cores,
        "bytes": claim.size_bytes,
        "others": dict(claim.others),
        "scheduler": claim.scheduler,
        "at": claim.at_ns,
        **({"apart": list(claim.apart)} if claim.apart else {}),
    }


def _format_report(report: messages.MemberReport) -> dict[str, object]:
    return {
        "names": list(report.names),
        "lease": report.has_lease,
        # Answers of the API and names in the Lease may contain anything: a heartbeat that is refused costs the share.
        "why_not": _printable(report.why_not)[:_REASON_MAX],
        "intruder": _printable(report.intruder)[:_IDENTITY_MAX],
        "ready_s": report.ready_s,
        "stored": report.stored,
        "conflicts": report.conflicts,
        "requeued": report.requeued,
        "recent": report.recent,
        "view_age_s": report.view_age_s,
        "orphans": report.orphans,
    }


def _format_corrections(found: messages.Corrections) -> dict[str, object]:
    return {"handed": dict(found.handed), "held": announced(found.held)}


def _read_corrections(found: _Corrections) -> messages.Corrections:
    elements.check_printable("corrections", (*found.handed, *found.held, *found.held.values()))
    return messages.Corrections(handed=found.handed, held=found.held)


def _printable(text: str) -> str:
    return text if text.isprintable() else "".join(char if char.isprintable() else "?" for char in text)


def _read_report(found: _Report) -> messages.MemberReport:
    for name in found.names:
        elements.check_name("report.names", name)
    elements.check_printable("report", (found.why_not, found.intruder))
    return messages.MemberReport(
        names=tuple(found.names), has_lease=found.lease, why_not=found.why_not, intruder=found.intruder,
        ready_s=found.ready_s, stored=found.stored, conflicts=found.conflicts, requeued=found.requeued,
        recent=found.recent, view_age_s=found.view_age_s, orphans=found.orphans,
    )  # fmt: skip


def _read_claim(found: _Claim, before: messages.Claim | None) -> messages.Claim:
    if before is not None and (before.at_ns, before.scheduler) == (found.at, found.scheduler):
        return before
    elements.check_printable("claims", (found.uid, found.pod_class, found.scheduler, *found.others, *found.apart))
    return messages.Claim(
        uid=found.uid, pod_class=found.pod_class, cores=found.cores, size_bytes=found.bytes,
        others=tuple(sorted(found.others.items())), scheduler=found.scheduler, at_ns=found.at,
        apart=tuple(found.apart),
    )  # fmt: skip
