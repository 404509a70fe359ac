"""Records that a writer may send: whatever is within the bounds of readers."""

from typing import Any

import hypothesis.extra.numpy as arrays
import numpy as np
from hypothesis import strategies as st

from carico_core.domain import messages, pod_telemetry, usage
from carico_core.wire.messages import subspace

NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?(\.[a-z0-9]{1,5}){0,2}", fullmatch=True)
BOOTS = st.from_regex(r"[0-9a-f]{16}", fullmatch=True)
COUNTS = st.integers(0, 2**63 - 1)
DIM_NAMES = st.sampled_from(("cpu", "memory", "io", "network", "cache"))
QUANTITIES = st.floats(-1e18, 1e18)
ESTIMATES = st.builds(messages.Estimate, mean=QUANTITIES, sd=st.floats(0, 1e18))
BY_DIM = st.dictionaries(DIM_NAMES, ESTIMATES, max_size=5)
CLASS_NAMES = st.text(st.characters(categories=("L", "N", "P")), min_size=1, max_size=50)
EVIDENCE = st.dictionaries(
    CLASS_NAMES,
    st.builds(
        messages.ClassEvidence, pods=st.integers(0, 1000), cost=BY_DIM, growth=BY_DIM,
        lifetime_s=st.none() | ESTIMATES,
    ),
    max_size=3,
)  # fmt: skip
SHARES = st.dictionaries(DIM_NAMES, st.floats(0, 1))


@st.composite
def advertisements(draw: Any) -> messages.Advertisement:
    classes = st.dictionaries(
        CLASS_NAMES,
        st.builds(
            messages.ClassCapacity,
            cost_plus=st.dictionaries(DIM_NAMES, st.floats(0, 1e18)),
            pods=st.integers(0, 10**6),
            measured=st.booleans(),
        ),
        max_size=3,
    )
    return messages.Advertisement(
        node=draw(NAMES), boot=draw(BOOTS), seq=draw(COUNTS), ts_ns=draw(COUNTS), sampled_at_ns=draw(COUNTS),
        capacity=draw(st.floats(0, 1e6)), capacity_sd=draw(st.floats(0, 1e9)), bottleneck=draw(st.none() | DIM_NAMES),
        signal=draw(st.floats(-1e9, 1e9)), baseline=draw(BY_DIM), cost=draw(BY_DIM), pods=draw(st.integers(0, 10**6)),
        covers=draw(st.frozensets(st.uuids().map(str), max_size=5)), mode=draw(st.sampled_from(messages.Mode)),
        usage=draw(SHARES), parts=draw(SHARES), direction=draw(st.dictionaries(DIM_NAMES, st.floats(-1e9, 1e9))),
        headroom=draw(st.none() | st.dictionaries(DIM_NAMES, QUANTITIES)), classes=draw(st.none() | classes),
        limit=draw(st.none() | st.integers(0, 10**6)), ceiling=draw(st.none() | SHARES),
    )  # fmt: skip


_SHARE = st.floats(0, 1)
_POSITIVE = st.floats(0, 1e9)
_TEXTS = st.text(st.characters(categories=("L", "N", "P")), min_size=1, max_size=60)
EVENTS = st.builds(messages.ClusterEvent, at_ns=COUNTS, kind=_TEXTS, about=_TEXTS, state=_TEXTS)
SUMMARIES = st.builds(
    messages.ClusterSummary, boot=BOOTS, seq=COUNTS, ts_ns=COUNTS, span_s=_POSITIVE,
    nodes=st.dictionaries(_TEXTS, st.integers(0, 10**6), max_size=6), pods=st.integers(0, 10**6),
    capacity=st.floats(0, 1e6), capacity_sd=_POSITIVE,
    usage=st.dictionaries(DIM_NAMES, st.builds(messages.Percentiles, _SHARE, _SHARE, _SHARE)),
    waiting=st.integers(0, 10**6), oldest_s=_POSITIVE, placed=st.integers(0, 10**6), placed_waited_s=_POSITIVE,
    events=st.lists(EVENTS, max_size=5).map(tuple), left_off=st.integers(0, 10**6),
)  # fmt: skip


@st.composite
def local_subspaces(draw: Any) -> messages.LocalSubspace:
    dims = draw(st.lists(DIM_NAMES, min_size=1, max_size=5, unique=True))
    rank = draw(st.integers(1, len(dims)))
    return messages.LocalSubspace(
        node=draw(NAMES), boot=draw(BOOTS), seq=draw(COUNTS), ts_ns=draw(COUNTS), sampled_at_ns=draw(COUNTS),
        dims=tuple(dims), u=draw(arrays.arrays(np.float64, (len(dims), rank), elements=st.floats(-1, 1))),
        sigma=draw(arrays.arrays(np.float64, rank, elements=st.floats(0, subspace.SIGMA_MAX))),
        samples=draw(st.integers(0, 10**9)), weight=draw(st.floats(0, 1e6)),
        scale=draw(arrays.arrays(np.float64, len(dims), elements=st.floats(1e-9, 1e18))),
        evidence=draw(EVIDENCE), peak_pods_per_core=draw(st.floats(0, 1e6)),
    )  # fmt: skip


BUCKETS = st.dictionaries(
    st.integers(0, usage.BUCKETS - 1), st.integers(1, 10**9).map(lambda count: count / 1000.0), max_size=20
)
AMOUNTS = st.dictionaries(st.sampled_from(usage.DIMS), st.floats(0, 1e18))
TEMPLATES = st.builds(
    usage.Template, image=st.from_regex(r"[0-9a-f]{16}", fullmatch=True),
    containers=st.lists(st.sampled_from(("main", "sidecar", "proxy")), max_size=3).map(tuple), requests=AMOUNTS,
)  # fmt: skip
WEIGHTS = st.integers(0, 10**9).map(float)
DISTRIBUTIONS = st.dictionaries(st.sampled_from(usage.DIMS), BUCKETS)
CONTAINERS = st.dictionaries(
    st.sampled_from(("main", "proxy")), st.builds(usage.ContainerUsage, cpu=BUCKETS, peaks=AMOUNTS)
)
CLASS_USAGES = st.builds(
    usage.ClassUsage, containers=CONTAINERS,
    pods=st.integers(0, 10**6), failed=st.integers(0, 10**6), running=st.integers(0, 10**6),
    seconds=DISTRIBUTIONS, pod_means=BUCKETS, peaks=AMOUNTS, template=st.none() | TEMPLATES,
)  # fmt: skip
USAGE_REPORTS = st.builds(
    usage.UsageReport, node=NAMES, boot=BOOTS, seq=COUNTS, ts_ns=COUNTS,
    classes=st.dictionaries(CLASS_NAMES, CLASS_USAGES, max_size=3),
)  # fmt: skip
KEPT = st.builds(
    usage.KeptClass, containers=CONTAINERS,
    name=CLASS_NAMES, at_ns=COUNTS, first_ns=COUNTS, last_ns=COUNTS, pods=COUNTS, failed=COUNTS,
    measured_s=st.integers(0, 10**9).map(float), seconds=DISTRIBUTIONS, pod_means=BUCKETS, peaks=AMOUNTS,
    nodes=st.frozensets(st.integers(0, 2**32 - 1), max_size=64), recent_pods=WEIGHTS, recent_failed=WEIGHTS,
    node_size=AMOUNTS,
    images=st.dictionaries(st.from_regex(r"[0-9a-f]{16}", fullmatch=True), COUNTS, max_size=8),
    template=st.none() | TEMPLATES,
)  # fmt: skip
MILLIS = st.integers(0, 10**9).map(lambda count: count / 1000.0)
LOADS = st.builds(
    pod_telemetry.PodLoad, pod_class=CLASS_NAMES, cores=MILLIS, waiting=MILLIS,
    memory_bytes=st.integers(0, 10**15).map(float),
)  # fmt: skip
POD_LOADS = st.builds(
    pod_telemetry.PodLoads, node=NAMES, boot=BOOTS, seq=COUNTS, ts_ns=COUNTS,
    loads=st.dictionaries(st.uuids().map(str), LOADS, max_size=5), left_out=st.integers(0, 10**6),
)  # fmt: skip
ENDPOINTS = st.builds(pod_telemetry.Endpoint, address=st.ip_addresses().map(str), port=st.integers(0, 65_535))
FLOWS = st.builds(
    pod_telemetry.PodFlow, pod=st.none() | st.uuids().map(str), local=ENDPOINTS, remote=ENDPOINTS,
    sent_bytes=st.integers(0, 10**15), received_bytes=st.integers(0, 10**15),
)  # fmt: skip
POD_TRAFFIC = st.builds(
    pod_telemetry.PodTraffic, node=NAMES, boot=BOOTS, seq=COUNTS, ts_ns=COUNTS,
    interval_s=MILLIS,
    network=st.from_regex(r"([0-9a-f]{16})?", fullmatch=True), flows=st.lists(FLOWS, max_size=5).map(tuple),
    left_out_bytes=st.integers(0, 10**15),
    skipped=st.dictionaries(st.sampled_from(("decreased", "unreadable", "not_finite")), st.integers(0, 10**15)),
)  # fmt: skip
