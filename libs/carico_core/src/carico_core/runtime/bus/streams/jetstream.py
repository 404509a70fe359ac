"""Every stream, consumer and bucket of CARICO: defined here, once, and created where missing.

File storage, since memory streams vanish with the server, and an ordered reader then skips what came later (measured);
but claims are kept in memory: each one is needed for seconds, and schedulers notice that the stream is another one.
Nothing in them is irreplaceable: nodes report it again within one lease, and what classes of Pods use within days.
"""

from collections.abc import Iterator
from typing import Any

from nats.js import JetStreamContext, api
from nats.js.errors import NotFoundError

from carico_core.domain import errors
from carico_core.runtime.bus import port as buses
from carico_core.wire import codec, subjects
from carico_core.wire import streams as names

DECISIONS_AGE_S = 24 * 3600.0
DECISIONS_COUNT = 100_000
# The claims of a node that is gone leave the stream after this time; no claim is valid for as long.
CLAIMS_AGE_S = 3600.0
# A quarter of an hour of summaries of the cluster, one every 5 s, and a minute more, so that a reader that draws the
# quarter has its beginning. A few hundred bytes each, and 64 KiB at most.
HISTORY_AGE_S = 16 * 60.0
HISTORY_COUNT = 400
# How long a replica has for a batch before its messages go to another.
ACK_WAIT_S = 5.0
# Largest message of a node: no reader accepts more (`wire.codec`).
_REPORT_BYTES = codec.PAYLOAD_MAX_BYTES
# No service sets message ids, so that one which an agent sets suppresses nothing. The shortest that NATS allows.
_DUPLICATE_WINDOW_S = 0.1
# Limits on disk, together less than a third of what deploy/k8s gives JetStream. One message of each of 5,000 nodes is
# 20 MiB at most.
_CAPACITY_BYTES = 64 << 20
_SUBSPACES_BYTES = 64 << 20
_DECISIONS_BYTES = 128 << 20
_MODEL_BYTES = 8 << 20
# In memory, half of what deploy/k8s gives JetStream there: 6 KiB, or 30 claims, for each of 5,000 nodes.
_CLAIMS_BYTES = 32 << 20
# Sixteen keys of at most 1 MiB.
_USAGE_BYTES = 24 << 20
# A record names eight candidates at most: 2 KiB.
_DECISION_BYTES = 64 << 10
# Readers accept 64 KiB; its headers come on top.
_CLAIMS_MESSAGE_BYTES = codec.PAYLOAD_MAX_BYTES + (4 << 10)
_HISTORY_BYTES = 8 << 20
# Readers accept 1 MiB; its headers come on top.
_MODEL_MESSAGE_BYTES = (1 << 20) + (4 << 10)
# What is compared of a stream that exists; the server adds much that is not ours to judge.
_STREAM_FIELDS = (
    "subjects", "retention", "storage", "discard", "max_msgs_per_subject", "max_age", "max_msgs", "max_bytes",
    "max_msg_size", "no_ack", "allow_direct", "allow_atomic", "allow_msg_ttl", "num_replicas",
)  # fmt: skip
_CONSUMER_FIELDS = ("durable_name", "ack_policy", "ack_wait", "deliver_policy", "filter_subject")


def streams(lease_s: float, *, copies: int = 1) -> tuple[api.StreamConfig, ...]:
    """Return the definition of each stream; `copies`: how many servers keep it.

    Agents choose the reply subjects of their reports, and NATS would publish its acknowledgement there, among the
    services: `no_ack` on what they feed.
    """
    return (
        api.StreamConfig(
            name=names.CAPACITY, description="newest advertisement of each node", subjects=[subjects.CAPACITY_ALL],
            storage=api.StorageType.FILE, retention=api.RetentionPolicy.LIMITS, discard=api.DiscardPolicy.OLD,
            max_msgs_per_subject=1, max_age=lease_s, allow_direct=True, num_replicas=copies, no_ack=True,
            max_bytes=_CAPACITY_BYTES, max_msg_size=_REPORT_BYTES, duplicate_window=_DUPLICATE_WINDOW_S,
        ),
        api.StreamConfig(
            name=names.SUBSPACES, description="newest local subspace of each node, for the aggregators",
            subjects=[subjects.SUBSPACE_ALL], storage=api.StorageType.FILE,
            retention=api.RetentionPolicy.WORK_QUEUE, discard=api.DiscardPolicy.OLD, max_msgs_per_subject=1,
            max_age=lease_s / 3.0, num_replicas=copies, no_ack=True,
            max_bytes=_SUBSPACES_BYTES, max_msg_size=_REPORT_BYTES, duplicate_window=_DUPLICATE_WINDOW_S,
        ),
        api.StreamConfig(
            name=names.DECISIONS, description="what the scheduler decided and why", subjects=[subjects.DECISION_ALL],
            storage=api.StorageType.FILE, retention=api.RetentionPolicy.LIMITS, discard=api.DiscardPolicy.OLD,
            max_age=DECISIONS_AGE_S, max_msgs=DECISIONS_COUNT, allow_direct=True, num_replicas=copies,
            max_bytes=_DECISIONS_BYTES, max_msg_size=_DECISION_BYTES, duplicate_window=_DUPLICATE_WINDOW_S,
        ),
        api.StreamConfig(
            name=names.CLAIMS, description="room on nodes that schedulers have claimed",
            subjects=[subjects.CLAIM_ALL, subjects.CLAIMS_EPOCH], storage=api.StorageType.MEMORY,
            # A full stream refuses claims: dropping the oldest would give room away twice.
            retention=api.RetentionPolicy.LIMITS, discard=api.DiscardPolicy.NEW, max_msgs_per_subject=1,
            max_age=CLAIMS_AGE_S, allow_direct=True, allow_atomic=True, allow_msg_ttl=True, num_replicas=copies,
            republish=api.RePublish(src=subjects.CLAIM_ALL, dest=subjects.claimed("{{wildcard(1)}}")),
            max_bytes=_CLAIMS_BYTES, max_msg_size=_CLAIMS_MESSAGE_BYTES, duplicate_window=_DUPLICATE_WINDOW_S,
        ),
        api.StreamConfig(
            name=names.HISTORY, description="the cluster every five seconds of the last quarter of an hour",
            subjects=[subjects.SUMMARY], storage=api.StorageType.FILE, retention=api.RetentionPolicy.LIMITS,
            discard=api.DiscardPolicy.OLD, max_age=HISTORY_AGE_S, max_msgs=HISTORY_COUNT, allow_direct=True,
            num_replicas=copies, no_ack=True, max_bytes=_HISTORY_BYTES, max_msg_size=_REPORT_BYTES,
            duplicate_window=_DUPLICATE_WINDOW_S,
        ),
    )  # fmt: skip


def consumer() -> api.ConsumerConfig:
    """Return the one durable consumer that all replicas of the aggregator pull from."""
    return api.ConsumerConfig(
        name=names.CONSUMER, durable_name=names.CONSUMER, description="shared by all replicas of the aggregator",
        deliver_policy=api.DeliverPolicy.ALL, ack_policy=api.AckPolicy.EXPLICIT, ack_wait=ACK_WAIT_S,
        filter_subject=subjects.SUBSPACE_ALL, max_ack_pending=20_000,
    )  # fmt: skip


async def ensure(js: JetStreamContext, *, lease_s: float, copies: int = 1) -> list[str]:
    """Create what is missing, and return its names.

    Raises `StreamMismatch` where something exists with another configuration.
    """
    made = []
    for wanted in streams(lease_s, copies=copies):
        try:
            found = (await js.stream_info(str(wanted.name))).config
        except NotFoundError:
            await js.add_stream(wanted)
            made.append(str(wanted.name))
        else:
            _compare(str(wanted.name), wanted, found, _STREAM_FIELDS)
    wanted_consumer = consumer()
    try:
        found_consumer = (await js.consumer_info(names.SUBSPACES, names.CONSUMER)).config
    except NotFoundError:
        await js.add_consumer(names.SUBSPACES, wanted_consumer)
        made.append(f"{names.SUBSPACES}/{names.CONSUMER}")
    else:
        _compare(f"{names.SUBSPACES} consumer {names.CONSUMER}", wanted_consumer, found_consumer, _CONSUMER_FIELDS)
    for bucket in _buckets(copies):
        try:
            await js.key_value(bucket.bucket)
        except NotFoundError:
            await js.create_key_value(bucket)
            made.append(f"KV_{bucket.bucket}")
    return made


def _buckets(copies: int) -> tuple[api.KeyValueConfig, ...]:
    """Return the definition of each bucket."""
    return (
        api.KeyValueConfig(
            bucket=names.MODEL_BUCKET, description="the model of the cluster, for late joiners", history=1,
            storage=api.StorageType.FILE, direct=True, replicas=copies,
            max_bytes=_MODEL_BYTES, max_value_size=_MODEL_MESSAGE_BYTES,
        ),
        api.KeyValueConfig(
            bucket=names.USAGE_BUCKET, description="what the Pods of each class use, for recommended requests",
            history=1, storage=api.StorageType.FILE, direct=True, replicas=copies,
            max_bytes=_USAGE_BYTES, max_value_size=_MODEL_MESSAGE_BYTES,
        ),
    )  # fmt: skip


async def backlog(js: JetStreamContext) -> buses.Backlog:
    """Return how each stream and the consumer stand."""
    held = []
    for name in names.ALL:
        state = (await js.stream_info(name)).state
        held.append(buses.Stored(stream=name, messages=state.messages, size_bytes=state.bytes))
    queue = await js.consumer_info(names.SUBSPACES, names.CONSUMER)
    return buses.Backlog(
        streams=tuple(held),
        pending=queue.num_pending or 0,
        unacknowledged=queue.num_ack_pending or 0,
        redelivered=queue.num_redelivered or 0,
    )


def _compare(name: str, wanted: Any, found: Any, fields: tuple[str, ...]) -> None:
    differences = tuple(_differences(wanted, found, fields))
    if differences:
        raise errors.StreamMismatch(name=name, differences=differences)


def _differences(wanted: Any, found: Any, fields: tuple[str, ...]) -> Iterator[str]:
    for field in fields:
        ours, theirs = _plain(getattr(wanted, field)), _plain(getattr(found, field))
        if ours is not None and ours != theirs:
            yield f"{field} is {theirs}, expected {ours}"


def _plain(value: Any) -> Any:
    """Comparable whatever form the client gives it: enumerations as text, seconds rounded."""
    if isinstance(value, float):
        return round(value, 3)
    return getattr(value, "value", value)
