"""No message can stop the intake: bad ones are dropped and counted; of good ones the newest is kept."""

import collections
import random
from typing import Any

from carico_core.domain import errors
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_scheduler.intake import advertisements
from tests.unit.scheduler import objects

NS = 10**9
SUBJECT = subjects.capacity("node-0")


def make() -> tuple[advertisements.Advertisements, collections.Counter[str]]:
    drops: collections.Counter[str] = collections.Counter()
    return advertisements.Advertisements(lease_s=10.0, on_drop=lambda _, reason, __: drops.update([reason])), drops


def encoded(seq: int = 1, *, sent_s: float = 100.0, lag_s: float = 0.2, **changes: Any) -> bytes:
    advertisement = objects.make_advertisement(
        seq=seq, ts_ns=round(sent_s * NS), sampled_at_ns=round((sent_s - lag_s) * NS), **changes
    )
    return wire.encode_advertisement(advertisement)


def test_only_the_newest_of_a_node_is_decoded() -> None:
    taken, drops = make()
    for seq in range(1, 50):
        taken.store(SUBJECT, encoded(seq), 100.0)
    heard = taken.drain()
    assert [each.advertisement.seq for each in heard] == [49]
    assert len(taken) == 0
    assert not drops


def test_age_is_free_of_the_difference_between_clocks_and_counts_delay() -> None:
    taken, _ = make()
    taken.store(SUBJECT, encoded(1, sent_s=5_000.0), 100.0)
    taken.drain()
    taken.store(SUBJECT, encoded(2, sent_s=5_001.0), 101.5)
    (heard,) = taken.drain()
    # 0.2 s between sample and message, 0.5 s longer on the way than the fastest.
    assert abs(101.5 - heard.sampled_s - 0.7) < 1e-6


def test_replayed_older_and_old_messages_are_dropped_by_reason() -> None:
    taken, drops = make()
    for payload in (
        encoded(5, boot=objects.LATER_BOOT),
        encoded(5, boot=objects.LATER_BOOT),
        encoded(9, boot=objects.BOOT),
        encoded(6, boot=objects.LATER_BOOT, lag_s=30.0),
        b"{",
        encoded(7, node="node-1"),
    ):
        taken.store(SUBJECT, payload, 100.0)
        taken.drain()
    assert drops == {
        errors.Drop.REPLAYED.value: 1,
        errors.Drop.OLDER_BOOT.value: 1,
        errors.Drop.TOO_OLD.value: 1,
        errors.Drop.UNDECODABLE.value: 1,
        errors.Drop.FOREIGN_NODE.value: 1,
    }


def test_what_the_bus_had_kept_is_aged_by_the_wall_clock() -> None:
    taken, drops = make()
    young = taken.recall(SUBJECT, encoded(1), now_s=50.0, wall_ns=103 * NS)
    assert young is not None
    assert abs(young.sampled_s - (50.0 - 3.2)) < 1e-6
    assert taken.recall(SUBJECT, encoded(2), now_s=50.0, wall_ns=200 * NS) is None
    assert drops == {"too_old": 1}


def test_ten_thousand_mutated_messages_are_dropped_or_read_and_nothing_else() -> None:
    rng = random.Random(3)
    plain = objects.make_advertisement(covers=frozenset({"a", "b"}))
    good = wire.encode_advertisement(objects.with_headroom(plain, {"cpu": 4.0}, {"cpu": 1.0}))
    taken, drops = make()
    read = 0
    for number in range(10_000):
        mutated = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(mutated))
            verb = rng.randrange(3)
            if verb == 0:
                mutated[at] = rng.randrange(256)
            elif verb == 1:
                del mutated[at : at + rng.randint(1, 9)]
            else:
                mutated[at:at] = bytes(rng.randrange(256) for _ in range(rng.randint(1, 5)))
            mutated = mutated or bytearray(b"x")
        taken.store(SUBJECT, bytes(mutated), 100.0 + number)
        read += len(taken.drain())
    assert read + sum(drops.values()) == 10_000
    assert sum(drops.values()) > 5_000


def test_subjects_held_are_bounded() -> None:
    taken, drops = make()
    for number in range(50_003):
        taken.store(f"carico.v1.capacity.n{number}", b"{}", 0.0)
    assert len(taken) == 50_000
    assert drops == {"too_many": 3}
