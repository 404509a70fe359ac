"""The members's entries, and that replicas with the same entries make the same model."""

import dataclasses
import itertools
import math
import pathlib
import re
import tracemalloc

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico_aggregator import evidence, members, merges, model
from carico_core.domain import errors, messages
from carico_core.numerics import subspace
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from tests.unit.aggregator import reports

LEASE_S = 10.0
MANIFEST = pathlib.Path(__file__).parents[3] / "deploy" / "k8s" / "base" / "aggregator.yaml"


def new_members(horizon_s: float | None = 10.0) -> members.Members:
    return members.Members(lease_s=LEASE_S, horizon_s=horizon_s)


def gram_of(found: members.Members) -> messages.Array:
    return members.mean_gram(found.mergeable().entries)


def test_a_node_that_reports_twice_counts_once() -> None:
    one = new_members(None)
    one.take([reports.report("a", 1), reports.report("b", 1), reports.report("a", 2)], 0.0)
    other = new_members(None)
    other.take([reports.report("a", 2), reports.report("b", 1)], 0.0)
    assert len(one) == 2
    np.testing.assert_array_equal(gram_of(one), gram_of(other))


def test_what_is_not_newer_changes_nothing() -> None:
    found = new_members()
    assert len(found.take([reports.report("a", 5)], 0.0)) == 1
    before = found.version
    assert found.take([reports.report("a", 5), reports.report("a", 4)], 1.0) == []
    assert found.version == before


def test_a_later_boot_is_taken_and_an_older_one_only_after_the_lease() -> None:
    found = new_members()
    found.take([reports.report("a", 90, boot="1" * 16)], 0.0)
    assert found.take([reports.report("a", 1, boot="2" * 16)], 1.0)
    assert not found.take([reports.report("a", 91, boot="1" * 16)], 2.0)
    assert found.expire(11.5) == ["a"]
    assert found.take([reports.report("a", 92, boot="1" * 16)], 12.0)


def test_a_silent_node_leaves_after_its_lease() -> None:
    found = new_members()
    found.take([reports.report("a", 1)], 0.0)
    found.take([reports.report("b", 1)], 5.0)
    assert found.expire(9.9) == []
    assert found.expire(10.0) == ["a"]
    assert [entry.node for entry in found.mergeable().entries] == ["b"]


def test_the_mean_is_weighted_by_cores() -> None:
    found = new_members(None)
    small, large = reports.report("a", 1, weight=2.0), reports.report("b", 1, weight=6.0)
    found.take([small, large], 0.0)
    first, second = members.measured([small, large])[0]
    np.testing.assert_allclose(gram_of(found), 0.25 * first + 0.75 * second, rtol=1e-12)


def test_filtering_in_the_entries_equals_the_recursion_over_rounds() -> None:
    """Rounds of all nodes, some of them late: mean of filtered entries against G <- rho G + (1 - rho) mean(G_n)."""
    found = new_members(10.0)
    expected: messages.Array | None = None
    before = 0
    for seq in (1, 2, 3, 5, 6, 7, 8, 13, 14):
        batch = [reports.report(node, seq) for node in ("a", "b", "c")]
        found.take(batch, float(seq))
        mean = merges.mean(np.stack(members.measured(batch)[0]), np.full(3, 4.0))
        rho = math.exp((before - seq) / 10.0)
        expected = mean if expected is None else subspace.merge_gram(expected, mean, weight_a=rho)
        before = seq
    assert expected is not None
    np.testing.assert_allclose(gram_of(found), expected, rtol=1e-12)


@given(st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_replicas_that_share_a_queue_make_one_model_to_the_bit(count: int, seed: int) -> None:
    """Whichever replica takes a message, and in whatever order entries arrive, all end with the same bits."""
    rng = np.random.default_rng(seed)
    members = [new_members() for _ in range(count)]
    for seq in range(1, 6):
        batch = [reports.report(f"n{number}", seq, seed=seed) for number in range(5)]
        for index in rng.permutation(len(batch)):
            taker = int(rng.integers(count))
            changed = members[taker].take([batch[index]], float(seq))
            for other in range(count):
                if other != taker:
                    assert all(members[other].adopt(entry, float(seq)) for entry in changed)
    grams = [gram_of(member) for member in members]
    for first, second in itertools.pairwise(grams):
        np.testing.assert_array_equal(first, second)


def test_entries_that_arrive_late_or_twice_change_nothing() -> None:
    found = new_members()
    old = found.take([reports.report("a", 1)], 0.0)[0]
    found.take([reports.report("a", 2)], 1.0)
    before = gram_of(found)
    assert not found.adopt(old, 2.0)
    assert not found.adopt(dataclasses.replace(old, node="b", age_s=LEASE_S), 2.0)
    np.testing.assert_array_equal(gram_of(found), before)


def test_an_adopted_entry_keeps_its_age() -> None:
    writer, reader = new_members(), new_members()
    writer.take([reports.report("a", 1)], 0.0)
    (entry,) = writer.entries(7.0)
    assert entry.age_s == pytest.approx(7.0)
    assert reader.adopt(entry, 100.0)
    assert reader.expire(102.9) == []
    assert reader.expire(103.1) == ["a"]


def test_nodes_with_other_dimensions_than_most_are_left_out_and_named() -> None:
    found = new_members()
    found.take([reports.report("a", 1), reports.report("b", 1), reports.report("odd", 1, dims=("cpu",))], 0.0)
    mergeable = found.mergeable()
    assert mergeable.dims == ("cpu", "memory")
    assert mergeable.odd == ("odd",)


def test_reports_are_held_up_to_a_size_and_known_nodes_come_first() -> None:
    """With a key of all nodes, one can report under any number of names."""
    found, seqs, size_bytes = new_members(), itertools.count(1), 64 << 10

    def take(name: str, size_bytes: int) -> list[messages.Entry]:
        return found.take([reports.report(name, next(seqs))], 0.0, [size_bytes])

    assert take("real", 1000)
    around_bytes = found._size_bytes - 1000
    fits = (members.ENTRIES_MOST_BYTES - found._size_bytes) // (size_bytes + around_bytes)
    taken = [bool(take(f"made-up-{number}", size_bytes)) for number in range(fits + 5)]
    assert (taken.count(True), len(found)) == (fits, fits + 1)
    ((name, error),) = found.refused
    assert (name, error.reason) == (f"made-up-{fits + 4}", errors.Drop.TOO_MANY)
    # Reports of a node grow and shrink a little.
    assert take("real", 1200) and take("real", 900) and take("real", 2000)
    entry = found.entry("made-up-0")
    assert entry is not None
    assert not found.adopt(dataclasses.replace(entry, node="adopted"), 0.0, size_bytes)
    assert len(found.expire(LEASE_S)) == fits + 1
    assert take("new", size_bytes)


def largest(class_name: str, dim_name: str, dims: int) -> bytes:
    """The report of a node `nnnn` with as many estimates as its bytes can hold, under names of their own."""
    report = msgspec.msgpack.decode(wire.encode_subspace(reports.report("nnnn", 1)))
    cost, growth = ({f"{dim_name}{letter}{number}": {"mean": 1, "sd": 1} for number in range(dims)} for letter in "cg")
    of_class = {"pods": 1, "cost": cost, "growth": growth}
    report["evidence"] = {f"{class_name}{number}": of_class for number in range(messages.REPORTED_MOST)}
    return msgspec.msgpack.encode(report)


WIDE = "\N{SLIGHTLY SMILING FACE}"


@pytest.mark.parametrize(
    "payload",
    [
        largest("c", "", 30), largest("c", WIDE + 20 * "q", 9), largest("c", WIDE + 59 * "q", 5),
        largest(WIDE + 760 * "c", "", 1),
    ],
    ids=["many", "wide", "long", "names"],
)  # fmt: skip
def test_whatever_is_reported_takes_a_part_of_the_memory_of_an_aggregator(
    payload: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a key of all nodes, one can report under any number of names; what is decoded is larger than a message."""
    monkeypatch.setattr(members, "ENTRIES_MOST_BYTES", 8 << 20)
    found, number = new_members(), itertools.count(100)
    tracemalloc.start()
    try:
        while not found.refused:
            node = f"n{next(number)}"
            report = wire.decode_subspace(payload.replace(b"nnnn", node.encode()), subject=subjects.subspace(node))
            found.take([report], 0.0, [len(payload)])
        del report
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(found) > 5
    assert held_bytes < 1.5 * members.ENTRIES_MOST_BYTES


def test_entries_take_two_thirds_of_the_memory_that_an_aggregator_has() -> None:
    (limit,) = re.findall(r"limits: \{memory: (\d+)Mi\}", MANIFEST.read_text())
    most_bytes = 1.5 * (members.ENTRIES_MOST_BYTES + members.LARGER_MOST_BYTES)
    assert most_bytes <= 2 / 3 * int(limit) * 2**20


def test_no_node_no_model() -> None:
    assert model.make(new_members().mergeable(), model.RoundMerger()) is None


def test_sequential_follows_the_arrivals_and_a_follower_goes_on_from_the_leader() -> None:
    found = new_members(None)
    leader = model.SequentialMerger()
    expected = None
    for seq in (1, 2):
        for node in ("a", "b"):
            batch = [reports.report(node, seq)]
            leader.arrived(found.take(batch, float(seq)), len(found))
            expected = merges.sequential(expected, members.measured(batch)[0][0], len(found))
    made = leader.gram(found.mergeable())
    assert made is not None and expected is not None
    np.testing.assert_array_equal(made, expected)
    content = model.make(found.mergeable(), leader)
    assert content is not None
    follower = model.SequentialMerger()
    follower.follow(
        messages.GlobalModel(
            replica="r1",
            boot="0" * 16,
            seq=1,
            ts_ns=1,
            epoch=content.epoch,
            merge="sequential",
            contributors=2,
            weight=8.0,
            dims=content.dims,
            gram=content.gram,
            evidence={},
            peak_pods_per_core=0.0,
        )
    )
    np.testing.assert_array_equal(follower.gram(found.mergeable()), made)


def test_one_node_of_other_dimensions_does_not_end_the_sequential_model() -> None:
    found, plain = new_members(None), new_members(None)
    merger, expected = model.SequentialMerger(), model.SequentialMerger()
    for seq in range(1, 4):
        for node in ("a", "b"):
            batch = [reports.report(node, seq)]
            expected.arrived(plain.take(batch, float(seq)), 3)
            merger.arrived(found.take(batch, float(seq)), 3)
        odd = found.take([reports.report("c", seq, dims=("cpu", "memory", "gpu"))], float(seq))
        merger.arrived(odd, 3)
    np.testing.assert_array_equal(merger.gram(found.mergeable()), expected.gram(plain.mergeable()))


def test_an_impossible_gram_matrix_is_left_out_from_agents_and_replicas() -> None:
    found, other = new_members(None), members.Members(lease_s=10.0, horizon_s=None)
    lie = dataclasses.replace(reports.report("liar", 1), sigma=np.array([3.0, 1.0]))
    honest = found.take([reports.report("a", 1), lie], 0.0)
    assert [entry.node for entry in honest] == ["a"]
    assert [node for node, _ in found.refused] == ["liar"]
    content = model.make(found.mergeable(), model.RoundMerger())
    assert content is not None
    assert content.contributors == 1
    # What a replica of an earlier version tells of it.
    told = dataclasses.replace(honest[0], node="liar", gram=members.measured([lie])[0][0])
    assert not other.adopt(told, 0.0)
    found.take([], 1.0)
    assert not found.refused


def test_the_sequential_models_states_are_bounded() -> None:
    found, merger = new_members(None), model.SequentialMerger()
    for number in range(3 * model.DIMENSIONS_KEPT):
        merger.arrived(found.take([reports.report(f"n{number}", 1, dims=("cpu", f"d{number}"))], 1.0), len(found))
    assert len(merger._grams) == model.DIMENSIONS_KEPT


def test_lifetimes_are_fused_by_how_many_pods_have_ended() -> None:
    # Four ended of 100 s, one of 300 s; a node of weeks is far from the median, and no reason to doubt that node.
    said = [messages.Estimate(100.0, 50.0), messages.Estimate(300.0, 300.0), messages.Estimate(1e6, 1e5)]
    reports_of = [{"job": messages.ClassEvidence(pods=1, cost={}, lifetime_s=each)} for each in (*said, None)]
    found, doubted = evidence.fuse(reports_of)
    fused = found["job"].lifetime_s
    assert fused is not None and not doubted
    assert fused.mean == pytest.approx((4 * 100.0 + 300.0) / 5)
    assert fused.sd == pytest.approx(fused.mean / math.sqrt(5))
    impossible = messages.ClassEvidence(pods=1, cost={}, lifetime_s=messages.Estimate(-1.0, 0.0))
    assert evidence.fuse([{"job": impossible}])[0]["job"].lifetime_s is None


def test_a_node_on_which_pods_fail_does_not_say_how_long_those_of_all_nodes_live() -> None:
    failing = messages.ClassEvidence(pods=1, cost={}, lifetime_s=messages.Estimate(30.0, 5.0))
    others = [{"job": messages.ClassEvidence(pods=1, cost={})} for _ in range(2)]
    assert evidence.fuse([{"job": failing}, *others])[0]["job"].lifetime_s is None
    assert evidence.fuse([{"job": failing}, *others[:1]])[0]["job"].lifetime_s is not None


def test_evidence_is_fused_by_variance_and_pods_are_summed() -> None:
    sure = messages.ClassEvidence(pods=3, cost={"cpu": messages.Estimate(mean=1.0, sd=0.1)})
    unsure = messages.ClassEvidence(pods=1, cost={"cpu": messages.Estimate(mean=2.0, sd=1.0)})
    found, doubted = evidence.fuse([{"job": sure}, {"job": unsure}])
    fused = found["job"]
    # w = 1 / (v + (0.2 c)^2)
    first, second = 1 / (0.1**2 + 0.2**2), 1 / (1.0**2 + 0.4**2)
    assert fused.pods == 4
    assert fused.cost["cpu"].mean == pytest.approx((first * 1.0 + second * 2.0) / (first + second))
    assert fused.cost["cpu"].sd == pytest.approx(math.sqrt(1 / (first + second)))
    assert not doubted


def test_growth_of_older_agents_is_not_in_the_model() -> None:
    said = messages.Estimate(mean=1.0, sd=0.1)
    found, _ = evidence.fuse([{"job": messages.ClassEvidence(pods=3, cost={"cpu": said}, growth={"cpu": said})}])
    assert found["job"] == messages.ClassEvidence(pods=3, cost=found["job"].cost)
