"""Whatever reports pass the wire, the model and the partials made of them pass it too: no node silences the others."""

import dataclasses

import hypothesis
from hypothesis import strategies as st

from carico_aggregator import members, model
from carico_core.domain import messages
from carico_core.wire import codec, subjects
from carico_core.wire import messages as wire
from tests.unit.aggregator import reports
from tests.unit.wire import strategies

TINY = 1e-160


def told(content: model.Content) -> messages.GlobalModel:
    names = {field.name for field in dataclasses.fields(content)} - {"doubted"}
    values = {name: getattr(content, name) for name in names}
    return messages.GlobalModel(replica="a", boot="0" * 16, seq=1, ts_ns=1, **values)


@hypothesis.settings(max_examples=80, deadline=None)
@hypothesis.given(st.lists(strategies.local_subspaces(), min_size=1, max_size=6))
def test_models_and_partials_of_any_reports_are_read(found: list[messages.LocalSubspace]) -> None:
    held = members.Members(lease_s=10.0, horizon_s=10.0)
    held.take(found, 0.0)
    for merger in (model.RoundMerger(), model.SequentialMerger()):
        merger.arrived(list(held.entries(0.0)), len(held))
        content = model.make(held.mergeable(), merger)
        if content is not None:
            assert wire.decode_model(model.encode(told(content))).contributors == content.contributors
    partial = messages.Partial(
        replica="a", boot="0" * 16, seq=1, ts_ns=1, complete=True, joining=False, entries=held.entries(0.0)
    )
    parts = [
        wire.decode_partial(wire.encode_partial(part), subject=subjects.partial("a"))
        for part in wire.split_partial(partial)
    ]
    assert sum(len(part.entries) for part in parts) == len(partial.entries)


def report(number: int, evidence: dict[str, messages.ClassEvidence]) -> messages.LocalSubspace:
    return dataclasses.replace(reports.report(f"n{number}", 1), evidence=evidence)


def one(mean: float, sd: float, *, pods: int = 1, dims: tuple[str, ...] = ("cpu",)) -> messages.ClassEvidence:
    return messages.ClassEvidence(pods=pods, cost={dim: messages.Estimate(mean=mean, sd=sd) for dim in dims})


def test_evidence_at_the_edges_makes_a_model_that_is_read() -> None:
    held = members.Members(lease_s=10.0, horizon_s=10.0)
    dims = [tuple(f"d{number}-{index}" for index in range(32)) for number in range(4)]
    held.take(
        [
            report(0, {"tiny": one(TINY, TINY), "huge": one(8.0, 1e18), "zero": one(0.0, 0.0), "many": one(1, 1)}),
            report(1, {"tiny": one(TINY, 0.0), "far": one(1e18, 1e18, dims=("gpu",)), "many": one(1, 1, pods=97)}),
            report(2, {"far": one(-1e18, 0.0, dims=("gpu",))}),
            report(3, {"far": one(0.0, 0.0, dims=("gpu",))}),
            *(report(4 + number, {"odd": one(1.0, 1.0, dims=dims[number])}) for number in range(4)),
        ],
        0.0,
    )
    content = model.make(held.mergeable(), model.RoundMerger())
    assert content is not None
    found = wire.decode_model(model.encode(told(content)))
    assert found.contributors == 8
    assert found.evidence["many"].pods == 98
    assert len(found.evidence["odd"].cost) == 32


def test_a_model_of_too_many_classes_keeps_those_with_most_pods() -> None:
    held = members.Members(lease_s=10.0, horizon_s=10.0)
    dims = tuple(f"{index:02}" + "d" * 60 for index in range(32))
    for number in range(10):
        evidence = {f"{number}-{index}-" + "c" * 780: one(1.0, 1.0, pods=index // 3, dims=dims) for index in range(64)}
        held.take([report(number, evidence)], 0.0)
    content = model.make(held.mergeable(), model.RoundMerger())
    assert content is not None
    assert len(content.evidence) == 512
    payload = model.encode(told(content))
    assert len(payload) <= codec.MODEL_MAX_BYTES
    found = wire.decode_model(payload)
    assert 0 < len(found.evidence) < 512
    assert min(each.pods for each in found.evidence.values()) > 10
