"""What is written is read back, for whatever a writer may say."""

import dataclasses

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from carico_core.domain import errors, messages, usage
from carico_core.wire import codec, subjects
from carico_core.wire import messages as wire
from carico_core.wire.messages import model, subspace, summary
from tests.fixtures.golden import records
from tests.unit.wire import kinds, strategies

QUICKLY = hypothesis.settings(max_examples=60, deadline=None)


@QUICKLY
@hypothesis.given(strategies.advertisements())
def test_advertisements(record: messages.Advertisement) -> None:
    payload = wire.encode_advertisement(record)
    assert wire.decode_advertisement(payload, subject=subjects.capacity(record.node)) == record


@QUICKLY
@hypothesis.given(strategies.local_subspaces())
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


@QUICKLY
@hypothesis.given(strategies.USAGE_REPORTS)
def test_usage_reports(record: usage.UsageReport) -> None:
    assert wire.decode_usage(wire.encode_usage(record), subject=subjects.usage(record.node)) == record


@QUICKLY
@hypothesis.given(strategies.SUMMARIES)
def test_summaries(record: messages.ClusterSummary) -> None:
    assert wire.decode_summary(wire.encode_summary(record), subject=subjects.SUMMARY) == record


def test_of_too_many_events_a_summary_carries_the_first_and_counts_the_rest() -> None:
    longest = messages.ClusterEvent(2**63 - 1, "n" * 64, "a" * 320, "s" * 64)
    record = dataclasses.replace(records.SUMMARY, events=(longest,) * 100, left_off=3)
    payload = wire.encode_summary(record)
    assert len(payload) <= codec.PAYLOAD_MAX_BYTES
    found = wire.decode_summary(payload, subject=subjects.SUMMARY)
    assert (found.events, found.left_off) == ((longest,) * summary.EVENTS_MAX, 3 + 100 - summary.EVENTS_MAX)


def test_a_summary_on_another_subject_is_refused() -> None:
    with pytest.raises(errors.MessageError, match=r"expected 'carico\.v1\.summary'"):
        wire.decode_summary(wire.encode_summary(records.SUMMARY), subject=subjects.MODEL)


@QUICKLY
@hypothesis.given(st.lists(strategies.KEPT, max_size=3))
def test_what_is_kept_of_classes(classes: list[usage.KeptClass]) -> None:
    assert wire.decode_kept(wire.encode_kept(classes)) == classes


def test_a_bucket_that_is_reported_twice_is_refused() -> None:
    payload = wire.encode_usage(records.USAGE).replace(b"[[0,1.0],[141,3.5]]", b"[[141,1.0],[141,3.5]]")
    with pytest.raises(errors.MessageError, match=r"seconds\.cpu: got a bucket twice"):
        wire.decode_usage(payload, subject=subjects.usage(records.NODE))


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        (b"[141,3.5]", b"[352,3.5]"),
        (b"[141,3.5]", b"[141,-1.0]"), (b"[141,3.5]", b"[141]"), (b'"pods":2', b'"pods":-2'),
        (b'"containers":["main"]', b'"containers":["\\u0007"]'), (b'"cpu":1.0625', b'"cpu":1e300'),
    ],
)  # fmt: skip
def test_usage_outside_of_its_bounds_is_refused(good: bytes, bad: bytes) -> None:
    payload = wire.encode_usage(records.USAGE)
    assert good in payload
    with pytest.raises(errors.MessageError):
        wire.decode_usage(payload.replace(good, bad), subject=subjects.usage(records.NODE))


def test_kept_classes_of_another_version_are_refused() -> None:
    with pytest.raises(errors.MessageError, match="wrong_version"):
        wire.decode_kept(b'{"v":2,"classes":[]}')


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


# As it is, as an escape, and in several bytes.
@pytest.mark.parametrize("text", ["\x7f", "\x1b", "\N{ZERO WIDTH SPACE}"])
def test_a_text_of_an_advertisement_that_is_not_printable_is_refused(text: str) -> None:
    payload = wire.encode_advertisement(records.ADVERTISEMENT._replace(bottleneck=text))
    with pytest.raises(errors.MessageError, match="printable"):
        wire.decode_advertisement(payload, subject=subjects.capacity(records.NODE))
