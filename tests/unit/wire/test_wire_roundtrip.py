"""What is written is read back, for whatever a writer may say."""

from typing import Any

import hypothesis
import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
from hypothesis import strategies as st

from carico_core.domain import errors, messages
from carico_core.wire import messages as wire
from carico_core.wire import model, subjects, subspace
from tests.fixtures.golden import records
from tests.unit.wire import kinds

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
QUICKLY = hypothesis.settings(max_examples=60, deadline=None)


@st.composite
def advertisements(draw: Any) -> messages.Advertisement:
    classes = st.dictionaries(
        CLASS_NAMES,
        st.builds(
            messages.ClassCapacity,
            cost_plus=st.dictionaries(DIM_NAMES, st.floats(0, 1e18)),
            pods=st.integers(0, 10**6),
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
        limit=draw(st.none() | st.integers(0, 10**6)),
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


@QUICKLY
@hypothesis.given(advertisements())
def test_advertisements(record: messages.Advertisement) -> None:
    payload = wire.encode_advertisement(record)
    assert wire.decode_advertisement(payload, subject=subjects.capacity(record.node)) == record


@QUICKLY
@hypothesis.given(local_subspaces())
def test_subspaces_and_what_aggregators_make_of_them(record: messages.LocalSubspace) -> None:
    found = wire.decode_subspace(wire.encode_subspace(record), subject=subjects.subspace(record.node))
    assert kinds.plain(found) == kinds.plain(record)
    assert not found.u.flags.writeable
    # Whatever a subspace may hold fits into the bounds of partials and models: one node cannot have all refused.
    scaled = record.u * record.sigma
    entry = messages.Entry(
        node=record.node, boot=record.boot, seq=record.seq, ts_ns=record.ts_ns, age_s=0.0, dims=record.dims,
        gram=scaled @ scaled.T, weight=record.weight, scale=record.scale, evidence=record.evidence,
        peak_pods_per_core=record.peak_pods_per_core,
    )  # fmt: skip
    partial = messages.Partial(
        replica="a", boot=record.boot, seq=1, ts_ns=1, complete=True, joining=False, entries=(entry,)
    )
    again = wire.decode_partial(wire.encode_partial(partial), subject=subjects.partial("a"))
    assert kinds.plain(again) == kinds.plain(partial)


def test_the_largest_gram_of_a_subspace_is_within_the_bounds_of_a_model() -> None:
    assert 32 * subspace.SIGMA_MAX**2 <= model.GRAM_MAX


def test_many_entries_are_divided_into_messages_within_their_size() -> None:
    entries = tuple(
        messages.Entry(
            node=f"node-{number}", boot=records.BOOT, seq=1, ts_ns=1, age_s=0.0, dims=records.DIMS,
            gram=records.ENTRY.gram, weight=1.0, scale=records.ENTRY.scale, evidence=records.EVIDENCE,
            peak_pods_per_core=0.0,
        )
        for number in range(3000)
    )  # fmt: skip
    partial = messages.Partial(
        replica="a", boot=records.BOOT, seq=5, ts_ns=1, complete=True, joining=False, entries=entries
    )
    parts = wire.split_partial(partial)
    assert [part.seq for part in parts] == list(range(5, 5 + len(parts)))
    assert len(parts) > 1
    found = [
        entry.node
        for part in parts
        for entry in wire.decode_partial(wire.encode_partial(part), subject=subjects.partial("a")).entries
    ]
    assert found == [entry.node for entry in entries]


def test_a_share_that_overshoots_by_rounding_is_clipped() -> None:
    payload = wire.encode_advertisement(records.ADVERTISEMENT).replace(b'"memory":0.5}', b'"memory":1.0000001}')
    found = wire.decode_advertisement(payload, subject=subjects.capacity(records.NODE))
    assert found.usage["memory"] == 1.0


@pytest.mark.parametrize("gram", [[[1.0, 0.5], [0.4, 1.0]], [[-1.0, 0.0], [0.0, 1.0]]])
def test_a_matrix_that_is_no_gram_matrix_is_refused(gram: list[list[float]]) -> None:
    bad = messages.GlobalModel(
        replica="a", boot=records.BOOT, seq=1, ts_ns=1, epoch=1, merge="round", contributors=1, weight=1.0,
        dims=records.DIMS, gram=np.array(gram), evidence={}, peak_pods_per_core=0.0,
    )  # fmt: skip
    with pytest.raises(errors.MessageError) as caught:
        wire.decode_model(wire.encode_model(bad))
    assert caught.value.path == "gram"


def test_the_model_is_readable_as_json() -> None:
    assert b'"gram":{"cpu":{"cpu":0.25,"memory":0.125}' in wire.model_as_json(records.MODEL)
