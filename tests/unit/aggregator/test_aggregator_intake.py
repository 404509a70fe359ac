"""One replica fed with whatever may arrive: it counts, drops and goes on."""

import asyncio
import dataclasses
import itertools
import time
from collections.abc import Sequence

import numpy as np
import orjson
import pytest
import structlog

from carico_aggregator import app, instruments, model
from carico_aggregator import settings as setting
from carico_core.domain import errors, messages
from carico_core.runtime.bus import port as buses
from carico_core.runtime.bus import serving
from carico_core.runtime.observe import metrics
from carico_core.runtime.process import clock
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from tests.fixtures.golden import records
from tests.tools.memory import memory_bus
from tests.unit import paged_answers
from tests.unit.aggregator import reports
from tests.unit.wire import kinds, mutations

COUNT = 2000


@dataclasses.dataclass
class Item:
    """A queued message that remembers what was answered."""

    subject: str
    payload: bytes
    answers: list[str] = dataclasses.field(default_factory=list)

    async def term(self) -> None:
        self.answers.append("term")


class Bus(memory_bus.MemoryBus):
    """A bus of such messages."""

    async def acknowledge(self, items: Sequence[buses.QueueItem]) -> None:
        """Have each remember it."""
        for item in items:
            assert isinstance(item, Item)
            item.answers.append("ack")


class Replica:
    """An aggregator on a bus in memory, and its counters."""

    def __init__(
        self, merge: setting.Merge = setting.Merge.ROUND, *, name: str = "r0", boot: str = "0" * 16,
        hub: memory_bus.Hub | None = None,
    ) -> None:  # fmt: skip
        self.clock = clock.FakeClock()
        self.metrics = metrics.Metrics("aggregator")
        self.hub = hub or memory_bus.Hub()
        self.app = app.Aggregator(
            setting.AggregatorSettings(merge=merge), Bus(self.hub),
            instruments.Instruments(self.metrics, clock=self.clock), replica=name, boot=boot, clock=self.clock,
        )  # fmt: skip

    def drops(self, kind: str) -> dict[str, float]:
        """Reason -> how many."""
        return {
            sample.labels["reason"]: sample.value
            for family in self.metrics.registry.collect()
            for sample in family.samples
            if sample.name == "carico_aggregator_drops_total" and sample.labels["kind"] == kind
        }


@pytest.fixture
def replica() -> Replica:
    return Replica()


def golden(name: str) -> tuple[bytes, str]:
    kind = next(kind for kind in kinds.ALL if kind.name == name)
    return kind.encode(kind.record), kind.subject


async def test_damaged_reports_are_terminated_and_counted(replica: Replica) -> None:
    payload, subject = golden("subspace")
    items = [Item(subject, bad) for bad in mutations.mutated(payload, is_json=False, count=COUNT, seed=21)]
    for start in range(0, COUNT, 100):
        await replica.app._take(list(items[start : start + 100]))
    assert {tuple(item.answers) for item in items} == {("ack",), ("term",)}
    terminated = sum(item.answers == ["term"] for item in items)
    counted = [replica.metrics.value("subspaces_total", {"result": result}) for result in ("taken", "not_newer")]
    read = sum(value for value in counted if value is not None)
    assert sum(replica.drops("subspace").values()) == COUNT - read >= terminated > COUNT // 2
    good = reports.report("n1", 1)
    await replica.app._take([Item(subjects.subspace("n1"), wire.encode_subspace(good))])
    assert "n1" in {entry.node for entry in replica.app.members.entries(0.0)}


async def test_damaged_partials_and_models_are_counted_and_nothing_ends(replica: Replica) -> None:
    payload, subject = golden("partial")
    for bad in mutations.mutated(payload, is_json=False, count=COUNT, seed=22):
        replica.app.on_partial(subject, bad)
    assert sum(replica.drops("partial").values()) > COUNT // 2
    led = Replica(setting.Merge.SEQUENTIAL)
    payload, subject = golden("model")
    for bad in mutations.mutated(payload, is_json=False, count=COUNT, seed=23):
        led.app.following.take(subject, bad)
        # Where every replica makes the same model, those of others are not read.
        replica.app.following.take(subject, bad)
    assert sum(led.drops("model").values()) > COUNT // 2
    assert replica.drops("model") == {}


async def test_a_replayed_report_is_acknowledged_and_changes_nothing(replica: Replica) -> None:
    payload = wire.encode_subspace(reports.report("n1", 5))
    for _ in range(3):
        await replica.app._take([Item(subjects.subspace("n1"), payload)])
    assert replica.metrics.value("subspaces_total", {"result": "taken"}) == 1
    assert replica.metrics.value("subspaces_total", {"result": "not_newer"}) == 2
    assert replica.app.members.version == 1


async def test_a_report_that_no_shares_make_is_counted_and_comes_no_more(replica: Replica) -> None:
    lie = dataclasses.replace(reports.report("liar", 1), sigma=np.array([900.0, 1.0]))
    item = Item(subjects.subspace("liar"), wire.encode_subspace(lie))
    await replica.app._take([item])
    assert item.answers == ["ack"]
    assert replica.drops("subspace") == {"out_of_range": 1.0}
    assert replica.metrics.value("subspaces_total", {"result": "not_newer"}) == 0
    assert not replica.app.members.entries(0.0)


async def test_a_joining_replica_gets_all_entries(replica: Replica) -> None:
    said = messages.Partial(replica="r1", boot="1" * 16, seq=1, ts_ns=1, complete=False, joining=True, entries=())
    replica.app.on_partial(subjects.partial("r1"), wire.encode_partial(said))
    assert replica.app._complete_due.is_set()
    # Our own messages come back to us and change nothing.
    own = dataclasses.replace(said, replica="r0")
    replica.app._complete_due.clear()
    replica.app.on_partial(subjects.partial("r0"), wire.encode_partial(own))
    assert not replica.app._complete_due.is_set()


async def test_a_store_that_is_not_ready_yet_does_not_subscribe_twice(
    replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "RETRY_S", 0.0)
    asked: list[str] = []

    async def get_model() -> None:
        asked.append("model")
        if len(asked) <= 3:
            raise errors.BusUnavailable("JetStream is not ready")

    monkeypatch.setattr(replica.app._bus, "get_model", get_model)
    await replica.app.listen()
    assert len(asked) == 4
    subscribed = sorted(subject for subject, _ in replica.hub.subscriptions)
    assert subscribed == sorted([subjects.PARTIAL_ALL, subjects.MODEL, subjects.USAGE_ALL])


async def test_a_store_that_refuses_is_named_once_a_minute(replica: Replica) -> None:
    async def refuse() -> None:
        raise errors.BusUnavailable("the model: insufficient resources")

    with structlog.testing.capture_logs() as said:
        for _ in range(3):
            assert not await replica.app._try_publish("model", refuse())
    assert [(line["log_level"], line["kind"], line["error"]) for line in said] == [
        ("warning", "model", "the model: insufficient resources")
    ]
    assert replica.metrics.value("publish_errors_total", {"kind": "model"}) == 3.0


def leaders_model(ts_ns: int, *, seq: int, of: str, largest: float = 0.5) -> messages.GlobalModel:
    return messages.GlobalModel(
        replica=of, boot="0" * 16, seq=seq, ts_ns=ts_ns, epoch=1, merge="sequential", contributors=2, weight=8.0,
        dims=("cpu", "memory"), gram=np.diag([largest, 0.25]), evidence={}, peak_pods_per_core=0.0,
    )  # fmt: skip


@pytest.mark.parametrize("kept_by", ["r0", "r1"])
@pytest.mark.parametrize(("age_s", "is_followed"), [(2.0, True), (30.0, True), (31.0, False), (-31.0, False)])
async def test_a_stored_model_is_gone_on_from_as_long_as_agents_merge_it(
    age_s: float, is_followed: bool, kept_by: str
) -> None:
    replica = Replica(setting.Merge.SEQUENTIAL)
    kept = leaders_model(replica.clock.wall_ns() - round(age_s * 1e9), seq=7, of=kept_by)
    replica.hub.model = wire.encode_model(kept)
    with structlog.testing.capture_logs() as said:
        await replica.app.listen()
    assert isinstance(replica.app.merger, model.SequentialMerger)
    assert list(replica.app.merger._grams) == ([kept.dims] if is_followed else [])
    assert replica.drops("model") == ({} if is_followed else {"too_old": 1.0})
    assert [line["event"] for line in said] == [
        "continuing from the stored model" if is_followed else "message dropped"
    ]


async def test_lists_asked_for_without_end_leave_time_for_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    replica, took_s, at_s = Replica(), 0.01, list[float]()

    def entries(now_s: float) -> tuple[messages.Entry, ...]:
        at_s.append(asyncio.get_running_loop().time())
        time.sleep(took_s)
        return ()

    monkeypatch.setattr(replica.app.members, "entries", entries)
    ask = app.answers(replica.app, clock=replica.clock)["nodes.list"]
    assert await asyncio.gather(*(ask(b"") for _ in range(3))) == [b'{"nodes":[]}'] * 3
    assert all(after - before >= app.LIST_REST * took_s for before, after in itertools.pairwise(at_s))


async def test_a_list_of_many_nodes_comes_in_pages_that_nats_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    replica = Replica()
    names = [f"{number:05d}".ljust(253, "n") for number in range(2 * serving.NODES_MOST + 1)]
    entries = tuple(dataclasses.replace(records.ENTRY, node=name) for name in reversed(names))
    monkeypatch.setattr(replica.app.members, "entries", lambda now_s: entries)
    ask = app.answers(replica.app, clock=replica.clock)["nodes.list"]
    assert await paged_answers.every(ask, "nodes", "node") == (names, 3)
    for bad in (b"[]", b'{"after": 3}'):
        with pytest.raises(serving.BadQuestion):
            await ask(bad)


async def test_a_follower_answers_with_the_leaders_model() -> None:
    replica = Replica(setting.Merge.SEQUENTIAL)
    evidence = {"Job/default/pi": messages.ClassEvidence(pods=1, cost={"gpu": messages.Estimate(0.5, 0.1)})}
    said = dataclasses.replace(leaders_model(replica.clock.wall_ns(), seq=7, of="r1"), evidence=evidence)
    replica.app.following.take(subjects.MODEL, wire.encode_model(said))
    answer = await app.answers(replica.app, clock=replica.clock)["model.get"](b"")
    assert orjson.loads(answer)["replica"] == "r1"
    assert replica.app.last is not None and replica.app.last.evidence == evidence


async def test_of_the_leaders_models_the_latest_is_followed_in_whichever_order_they_come() -> None:
    replica = Replica(setting.Merge.SEQUENTIAL)
    now_ns = replica.clock.wall_ns()
    for seq, largest in ((8, 0.75), (7, 0.5)):
        said = leaders_model(now_ns, seq=seq, of="r1", largest=largest)
        replica.app.following.take(subjects.MODEL, wire.encode_model(said))
    assert largest_of(replica) == 0.75
    assert replica.drops("model") == {"replayed": 1.0}


async def test_a_model_heard_while_the_store_is_read_is_newer_than_what_was_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replica = Replica(setting.Merge.SEQUENTIAL)
    now_ns = replica.clock.wall_ns()
    heard, stored = leaders_model(now_ns, seq=3, of="r1", largest=0.75), leaders_model(now_ns, seq=9, of="gone")

    async def get_model() -> bytes:
        replica.app.following.take(subjects.MODEL, wire.encode_model(heard))
        return wire.encode_model(stored)

    monkeypatch.setattr(replica.app._bus, "get_model", get_model)
    await replica.app.listen()
    assert largest_of(replica) == 0.75


def largest_of(replica: Replica) -> float:
    """The largest element of the model that the replica would go on from."""
    assert isinstance(replica.app.merger, model.SequentialMerger)
    (gram,) = replica.app.merger._grams.values()
    return float(gram.max())
