"""Nothing that was refused, and nothing long, stays in memory: peers and tenants choose how much they send.

What is measured is all that a process allocates, so a process of its own does it: in that of the tests, threads and
caches of other tests allocate too. Only CPython's cache of attributes of types is emptied first (`traced_bytes`).
"""

import concurrent.futures
import ctypes
import gc
import json
import multiprocessing
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgpack
import orjson
import pytest

from carico_core.domain import amounts, errors
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_core.wire.kubernetes import api_objects, lease, storage
from carico_core.wire.kubernetes.pods import status
from tests.unit.wire import kinds

REFUSED = 10_000
# What the allocator and the measurement itself account for, over all messages: half a byte for each, while the least
# that could be kept, a reference, has eight.
NOISE_BYTES = 5_000
MILLION = 1_000_000
# Of a million that would leave a block each at least. What the C library keeps for its next calls counts as in use.
NOISE_BLOCKS = 100
NOISE_C_BYTES = 64_000
# Enough to fill every cache, so that only growth is measured.
WARM_UP = 5_000


@pytest.fixture(scope="module")
def measuring() -> Iterator[concurrent.futures.Executor]:
    """A process in which nothing else runs."""
    fresh = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(max_workers=1, mp_context=fresh) as process:
        yield process


def kept_bytes(make: Callable[..., Callable[[int], None]], name: str, count: int) -> int:
    """Return how many bytes `count` calls of `make(name)`, each with another number, leave in this process's memory."""
    refuse = make(name)
    tracemalloc.start()
    try:
        # Measured as well: what a full cache holds afterwards takes the place of what it held before.
        for number in range(WARM_UP):
            refuse(number)
        before = traced_bytes()
        for number in range(WARM_UP, WARM_UP + count):
            refuse(number)
        return traced_bytes() - before
    finally:
        tracemalloc.stop()


def traced_bytes() -> int:
    """Return how many bytes are in use, without CPython's cache of attributes of types.

    To match a pattern, msgspec makes a new string "search" each time, with 55 bytes, and that cache keeps up to 4,096
    names of attributes by their addresses: 225 kB at most, of good messages as of refused ones, whatever is in them.
    """
    sys._clear_type_cache()
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


class InUse(NamedTuple):
    """What a process has allocated: blocks of at most 512 bytes by Python's allocator, and bytes by the C library's."""

    blocks: int
    c_bytes: int


def growth(make: Callable[..., Callable[[int], None]], name: str, count: int) -> InUse:
    """Return what `count` calls of `make(name)`, each with another number, leave in this process's memory.

    Without a record of each allocation, which `kept_bytes` needs, and with which a call takes six times as long.
    """
    refuse = make(name)
    for number in range(WARM_UP):
        refuse(number)
    before = in_use()
    for number in range(WARM_UP, WARM_UP + count):
        refuse(number)
    after = in_use()
    return InUse(blocks=after.blocks - before.blocks, c_bytes=after.c_bytes - before.c_bytes)


def in_use() -> InUse:
    """Return what is in use, without CPython's cache of attributes of types."""
    sys._clear_type_cache()
    gc.collect()
    found = _mallinfo2()
    return InUse(blocks=sys.getallocatedblocks(), c_bytes=found.in_use + found.mapped)


class _Mallinfo(ctypes.Structure):
    """https://man7.org/linux/man-pages/man3/mallinfo.3.html"""

    _fields_ = [
        *((name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "mapped", "usmblks", "fsmblks")),
        ("in_use", ctypes.c_size_t), ("fordblks", ctypes.c_size_t), ("keepcost", ctypes.c_size_t),
    ]  # fmt: skip
    in_use: int
    mapped: int


def _mallinfo2() -> _Mallinfo:
    ask = ctypes.CDLL(None).mallinfo2
    ask.restype = _Mallinfo
    found: _Mallinfo = ask()
    return found


def check_in_use(grown: InUse, name: str) -> None:
    """Fail if a million calls have left anything, and print what they have: for docs/measurements.md."""
    print(f"{name}: {grown.blocks} blocks, {grown.c_bytes} bytes")
    assert grown.blocks < NOISE_BLOCKS and grown.c_bytes < NOISE_C_BYTES, grown


def refused_message(name: str) -> Callable[[int], None]:
    """Return what decodes a message of this kind that is refused for its unique contents."""
    kind = next(kind for kind in kinds.ALL if kind.name == name)
    tree = json.loads(kind.encode(kind.record)) if kind.is_json else msgpack.unpackb(kind.encode(kind.record))
    writer = next(name for name in ("replica", "pod", "node", "boot") if name in tree)
    by_class = next(
        (name for name in ("evidence", "classes", "refused", "flows", "claims", "events") if name in tree), None
    )

    def refuse(number: int) -> None:
        unique = f"{number:08x}" * 8
        wrong: dict[str, object] = {"boot": unique} if number % 2 else {writer: f"n{unique}", unique: unique}
        if by_class is not None:
            # Well-formed until the last field of all: what comes before must not be kept either.
            wrong[by_class] = dict.fromkeys([f"class-{unique}"], 1) if number % 3 else {}
        bad = {**tree, **wrong}
        try:
            kind.decode(orjson.dumps(bad) if kind.is_json else msgpack.packb(bad), subject=kind.subject)
        except errors.MessageError:
            return
        # A model names no writer in its subject: any replica may send one.
        assert kind.name == "model" and not number % 2, "refused"

    return refuse


# One golden message of each kind, the one with most fields.
KINDS = (
    "advertisement-full", "subspace", "partial", "model", "usage", "pods", "traffic", "decision", "claims",
    "heartbeat-corrections", "summary", "roster",
)  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_refused_messages_with_unique_contents_leave_nothing(name: str, measuring: concurrent.futures.Executor) -> None:
    assert measuring.submit(kept_bytes, refused_message, name, REFUSED).result() < NOISE_BYTES


def keeping(name: str) -> Callable[[int], None]:
    """Return what keeps something of each message."""
    kept: list[object] = []
    size = {"text": 3, "much": 1_000}[name]
    return lambda number: kept.append(f"{number:08x}" * size)


@pytest.mark.parametrize(("name", "blocks", "c_bytes"), [("text", 1_000, 0), ("much", 0, 8_000_000)])
def test_what_is_kept_is_seen(name: str, blocks: int, c_bytes: int, measuring: concurrent.futures.Executor) -> None:
    grown = measuring.submit(growth, keeping, name, 1_000).result()
    assert grown.blocks >= blocks and grown.c_bytes >= c_bytes, grown


@pytest.mark.upstream
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", KINDS)
def test_a_million_refused_messages_leave_nothing(name: str, measuring: concurrent.futures.Executor) -> None:
    check_in_use(measuring.submit(growth, refused_message, name, MILLION).result(), name)


def bad_pod(unique: str) -> dict[str, object]:
    """A Pod all of whose texts are unique, and whose last container cannot be read."""
    return {
        "metadata": {
            "namespace": f"n{unique}", "name": unique, "uid": unique, "creationTimestamp": "2025-01-01T00:00:00Z",
            "labels": {unique: unique},
            "ownerReferences": [{"controller": True, "kind": "Job", "name": unique, "uid": unique}],
        },
        "spec": {
            "nodeName": unique, "schedulerName": unique, "nodeSelector": {unique: unique},
            "tolerations": [{"key": unique, "operator": "Exists"}],
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": unique, "labelSelector": {"matchLabels": {unique: unique}}}
            ]}},
            "containers": [{"image": unique}, {"resources": {"requests": {"cpu": f"{unique}x"}}}],
        },
    }  # fmt: skip


OBJECTS: dict[str, Callable[[str], object]] = {
    "pod": lambda unique: api_objects.parse_pod(bad_pod(unique)),
    "node": lambda unique: api_objects.parse_node(
        {"metadata": {"name": unique, "labels": {unique: unique}}, "status": {"allocatable": {"cpu": f"{unique}x"}}}
    ),
    "run": lambda unique: status.parse_run({"metadata": {"uid": unique}, "status": {"phase": [unique]}}),
    "lease": lambda unique: lease.parse_lease({"metadata": {}, "spec": {"holderIdentity": unique}}),
    "claim": lambda unique: storage.parse_volume_claim({"metadata": {"name": unique, "namespace": ""}}),
    "quantity": lambda unique: amounts.parse_quantity(f"{unique}x"),
    "long quantity": lambda unique: amounts.parse_quantity("1" * 100 + str(int(unique, 16))),
}


def refused_object(name: str) -> Callable[[int], None]:
    """Return what parses an object of the API that is refused for its unique contents."""
    parse = OBJECTS[name]

    def refuse(number: int) -> None:
        try:
            parse(f"{number:08x}")
        except ValueError:
            return
        raise AssertionError(f"{name} {number} was not refused")

    return refuse


@pytest.mark.parametrize("name", OBJECTS)
def test_refused_objects_of_the_api_leave_nothing(name: str, measuring: concurrent.futures.Executor) -> None:
    assert measuring.submit(kept_bytes, refused_object, name, REFUSED).result() < NOISE_BYTES


@pytest.mark.upstream
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", OBJECTS)
def test_a_million_refused_objects_of_the_api_leave_nothing(name: str, measuring: concurrent.futures.Executor) -> None:
    check_in_use(measuring.submit(growth, refused_object, name, MILLION).result(), name)


def accepted_pod(name: str) -> Callable[[int], None]:
    """Return what parses a Pod whose texts have 4 kB each."""

    def take(number: int) -> None:
        text = f"{number:08x}" * 512
        pod = bad_pod(text)
        pod["spec"] = {**pod["spec"], "containers": [{"image": text}]}  # type: ignore[dict-item]
        assert api_objects.parse_pod(pod).labels == {text: text}, name

    return take


def test_long_texts_of_accepted_pods_are_not_shared_and_so_not_kept(measuring: concurrent.futures.Executor) -> None:
    kept = measuring.submit(kept_bytes, accepted_pod, "pod", 2_000).result()
    assert kept < NOISE_BYTES, "2,000 Pods with 40 kB of texts each"


def limited_warning(name: str) -> Callable[[int], None]:
    """Return what warns with a key of 4 kB."""
    limited = logs.RateLimited(logs.get(name), clock=clocks.FakeClock())
    limited._log = _Silent()  # type: ignore[assignment]
    return lambda number: limited.warning(("x", f"{number:08x}" * 512), "refused")


def test_what_rate_limited_warnings_keep_does_not_depend_on_the_length_of_their_keys(
    measuring: concurrent.futures.Executor,
) -> None:
    kept = measuring.submit(kept_bytes, limited_warning, "test", 5_000).result()
    assert kept < 200 * logs.RATE_LIMIT_KEYS, "keys of 4 kB each"


class _Silent:
    def warning(self, event: str, **fields: object) -> None:
        """Drop the line."""
