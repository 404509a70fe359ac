"""The ledger: which claims count, and which may be left out of the next message."""

import hypothesis
import pytest
from hypothesis import strategies

from carico_core.domain import messages
from carico_core.runtime.bus.streams import jetstream
from carico_scheduler.sharing.claims import ledger

NODE = "node-1"
PodFate = ledger.PodFate


def claim(uid: str, at_ns: int = 1, scheduler: str = "a") -> messages.Claim:
    return messages.Claim(
        uid=uid, pod_class="pi", cores=0.0, size_bytes=0.0, others=(), scheduler=scheduler, at_ns=at_ns
    )


class World:
    """A ledger, and what is known of the Pods of its claims."""

    def __init__(self) -> None:
        self.fates: dict[str, PodFate] = {}
        self.ledger = ledger.Ledger(lambda uid, node: self.fates.get(uid, PodFate.UNKNOWN))
        # The nodes on which there was room, as reported.
        self.room: list[str] = []
        self.ledger.on_room = self.room.append

    def counted(self, now_s: float) -> list[str]:
        """The UIDs that count, which both ways of asking agree on."""
        found = sorted(each.uid for _, each in self.ledger.counted(now_s))
        assert found == sorted(each.uid for each in self.ledger.counted_on(NODE, now_s))
        return found

    def kept(self, now_s: float) -> list[str]:
        found = self.ledger.kept(NODE, now_s)
        assert found is not None
        return [each.uid for each in found]


@pytest.mark.parametrize(
    ("fate", "counts", "counts_later", "is_kept", "is_kept_later"),
    [
        (PodFate.UNKNOWN, True, False, True, False),
        (PodFate.OPEN, True, True, True, True),
        (PodFate.ASSUMED, False, False, True, True),
        (PodFate.BOUND, False, False, True, False),
        (PodFate.GONE, False, False, False, False),
    ],
)
def test_what_counts_and_what_is_kept(
    fate: PodFate, counts: bool, counts_later: bool, is_kept: bool, is_kept_later: bool
) -> None:
    made = World()
    made.fates["p"] = fate
    made.ledger.take(NODE, 7, [claim("p")], 0.0)
    later_s = ledger.LEASE_S + 0.1
    assert [bool(made.counted(now_s)) for now_s in (0.0, later_s)] == [counts, counts_later]
    assert [bool(made.kept(now_s)) for now_s in (0.0, later_s)] == [is_kept, is_kept_later]


@pytest.mark.parametrize("fate", [PodFate.BOUND, PodFate.GONE])
def test_a_claim_that_does_not_count_any_more_stays_so_when_its_pod_is_forgotten(fate: PodFate) -> None:
    made = World()
    made.fates["p"] = fate
    made.ledger.take(NODE, 7, [claim("p"), claim("q")], 0.0)
    assert made.counted(0.0) == ["q"]
    # Only so many Pods that are gone are remembered.
    del made.fates["p"]
    assert (made.counted(1.0), made.kept(1.0)) == (["q"], ["p", "q"])
    assert [each.uid for each in made.ledger.restart(1.0)[NODE]] == ["q"]


def test_a_new_stream_does_not_get_the_claims_of_pods_that_must_have_ended() -> None:
    made = World()
    made.ledger.take(NODE, 7, [claim("p")], 0.0)
    assert made.counted(ledger.LEASE_S + 0.1) == []
    assert made.ledger.restart(ledger.LEASE_S + 0.1) == {}


def test_an_older_message_changes_nothing() -> None:
    made = World()
    made.ledger.take(NODE, 7, [claim("p")], 0.0)
    made.ledger.take(NODE, 6, [], 0.0)
    made.ledger.take(NODE, 7, [], 0.0)
    assert (made.ledger.seq(NODE), made.counted(0.0), made.room) == (7, ["p"], [])


def test_the_age_of_a_claim_survives_later_messages_and_starts_again_with_a_new_claim() -> None:
    made = World()
    made.fates["p"] = PodFate.OPEN
    made.ledger.take(NODE, 1, [claim("p")], 0.0)
    made.ledger.take(NODE, 2, [claim("p"), claim("q")], 50.0)
    assert [each.uid for _, each in made.ledger.orphans(61.0)] == ["p"]
    made.ledger.take(NODE, 3, [claim("p", at_ns=2)], 61.0)
    assert made.ledger.orphans(61.0) == []


def test_the_age_of_a_claim_survives_a_new_stream() -> None:
    made = World()
    made.fates["p"] = PodFate.OPEN
    made.ledger.take(NODE, 7, [claim("p")], 0.0)
    made.ledger.restart(30.0)
    made.ledger.take(NODE, 1, [claim("p"), claim("q")], 31.0)
    assert [each.uid for _, each in made.ledger.orphans(61.0)] == ["p"]


def test_the_age_of_a_claim_survives_a_stream_that_is_replaced_before_it_was_read() -> None:
    made = World()
    made.fates["p"] = PodFate.OPEN
    made.ledger.take(NODE, 7, [claim("p")], 0.0)
    made.ledger.restart(30.0)
    made.ledger.restart(40.0)
    made.ledger.take(NODE, 1, [claim("p"), claim("q")], 41.0)
    assert [each.uid for _, each in made.ledger.orphans(61.0)] == ["p"]


def test_a_claim_that_leaves_the_stream_gives_room() -> None:
    made = World()
    made.ledger.take(NODE, 1, [claim("p"), claim("q")], 0.0)
    assert made.room == []
    made.ledger.take(NODE, 2, [claim("q")], 0.0)
    assert made.room == [NODE]
    made.ledger.take(NODE, 3, [claim("q")], 0.0)
    assert (made.room, made.counted(0.0)) == ([NODE], ["q"])
    made.ledger.note_missing(NODE)
    assert (made.room, made.counted(0.0)) == ([NODE] * 2, [])


def test_a_claim_that_ends_gives_room_once() -> None:
    made = World()
    made.fates["p"] = PodFate.OPEN
    made.ledger.take(NODE, 1, [claim("p")], 0.0)
    assert made.ledger.void(NODE, claim("p"))
    assert made.room == [NODE]
    made.ledger.take(NODE, 2, [], 0.0)
    assert made.room == [NODE]


def test_a_void_claim_does_not_count_and_is_dropped_unless_it_was_made_again() -> None:
    made = World()
    made.fates["p"] = PodFate.OPEN
    made.ledger.take(NODE, 1, [claim("p")], 0.0)
    assert not made.ledger.void(NODE, claim("p", at_ns=2))
    assert made.ledger.void(NODE, claim("p"))
    assert (made.counted(0.0), made.kept(0.0), made.ledger.orphans(100.0)) == ([], [], [])
    made.ledger.take(NODE, 2, [claim("p", at_ns=2)], 0.0)
    assert made.counted(0.0) == ["p"]


def test_a_claim_that_has_ended_stays_so_wherever_it_is_read_again() -> None:
    made = World()
    made.fates |= {"p": PodFate.OPEN, "q": PodFate.OPEN}
    made.ledger.take(NODE, 1, [claim("p")], 0.0)
    made.ledger.void(NODE, claim("p"))
    made.ledger.note_ended(claim("q"))
    made.ledger.restart(0.5)
    made.ledger.take(NODE, 1, [claim("p"), claim("q")], 1.0)
    assert (made.counted(1.0), made.kept(1.0), made.ledger.voided()) == ([], [], [NODE])


def test_what_cannot_be_read_blocks_the_node_until_its_claims_have_ended() -> None:
    made = World()
    made.ledger.take(NODE, 1, [claim("p")], 0.0)
    made.ledger.take_unreadable(NODE, 2, 10.0)
    assert made.ledger.kept(NODE, 10.0 + ledger.LEASE_S - 0.1) is None
    assert made.ledger.kept(NODE, 10.0 + ledger.LEASE_S + 0.1) == []
    made.ledger.take(NODE, 3, [claim("q")], 10.0)
    assert made.kept(10.0) == ["q"]


def test_claims_from_before_a_message_that_cannot_be_read_are_kept() -> None:
    made = World()
    made.fates["p"] = PodFate.OPEN
    made.ledger.take(NODE, 1, [claim("p")], 0.0)
    made.ledger.take_unreadable(NODE, 2, 10.0)
    assert made.kept(10.0 + ledger.LEASE_S + 0.1) == ["p"]


def test_a_node_without_messages_for_longer_than_the_stream_keeps_them_is_forgotten() -> None:
    made = World()
    made.ledger.take("gone", 1, [claim("p")], 0.0)
    made.ledger.take(NODE, 2, [claim("q")], 100.0)
    made.ledger.forget_old(ledger.FORGET_S + 1.0)
    assert (made.ledger.seq("gone"), made.ledger.seq(NODE), len(made.ledger)) == (0, 2, 1)
    assert list(made.ledger.counted(100.0)) == [(NODE, claim("q"))]
    assert jetstream.CLAIMS_AGE_S < ledger.FORGET_S


@pytest.mark.parametrize(
    ("age_s", "expected"),
    [(5.0, ["bound", "open", "own", "unknown"]), (ledger.LEASE_S + 1.0, ["open", "own"])],
)  # fmt: skip
@pytest.mark.parametrize("is_looked_at", [False, True])
def test_a_new_stream_gets_the_claims_that_a_member_may_need(
    age_s: float, expected: list[str], is_looked_at: bool
) -> None:
    made = World()
    made.fates |= {"open": PodFate.OPEN, "own": PodFate.ASSUMED, "bound": PodFate.BOUND, "gone": PodFate.GONE}
    made.ledger.take(NODE, 9, [claim(uid) for uid in ("open", "own", "bound", "gone", "unknown")], 0.0)
    if is_looked_at:
        made.counted(age_s)
    left = made.ledger.restart(age_s)
    assert sorted(each.uid for each in left[NODE]) == expected
    assert (made.ledger.seq(NODE), made.counted(0.0), len(made.ledger)) == (0, [], 0)


STEPS = strategies.lists(
    strategies.tuples(
        strategies.sampled_from(["take", "void", "fate"]), strategies.sets(strategies.sampled_from("pqr")),
        strategies.sampled_from(list(PodFate)), strategies.floats(0.0, 40.0),
    ),
    max_size=20,
)  # fmt: skip


@hypothesis.given(STEPS)
def test_no_claim_of_a_pod_that_may_still_be_bound_is_ever_left_out(
    steps: list[tuple[str, set[str], PodFate, float]],
) -> None:
    made = World()
    now_s, seq = 0.0, 0
    for verb, uids, fate, pause_s in steps:
        now_s += pause_s
        if verb == "take":
            seq += 1
            made.ledger.take(NODE, seq, [claim(uid) for uid in sorted(uids)], now_s)
        elif verb == "fate":
            # A Pod that is bound or gone stays so.
            ended = {uid for uid, known in made.fates.items() if known in (PodFate.BOUND, PodFate.GONE)}
            made.fates |= dict.fromkeys(uids - ended, fate)
        else:
            for uid in uids:
                made.ledger.void(NODE, claim(uid))
        kept = set(made.kept(now_s))
        for uid in made.counted(now_s):
            assert uid in kept


def test_the_rival_on_a_node_has_the_claim_that_came_last() -> None:
    found = World().ledger
    assert found.rival(NODE, "a") is None
    found.take(NODE, 1, [claim("p"), claim("q", scheduler="b")], 1.0)
    assert (found.rival(NODE, "a"), found.rival(NODE, "b"), found.rival("node-2", "a")) == ("b", "a", None)
    found.take(NODE, 2, [claim("p"), claim("q", scheduler="b"), claim("r", scheduler="c")], 2.0)
    assert found.rival(NODE, "a") == "c"


def test_a_node_is_closed_until_a_message_can_be_read_or_its_time_is_over() -> None:
    made = World()
    made.ledger.take_unreadable(NODE, 1, 0.0)
    made.ledger.note_full("node-2", 0.0)
    made.ledger.note_full("node-3", 0.0)
    assert closed_at(made, ledger.FULL_S - 0.1) == [NODE, "node-2", "node-3"]
    made.ledger.take("node-3", 1, [], 1.0)
    assert made.room == ["node-3"]
    assert closed_at(made, ledger.FULL_S - 0.1) == [NODE, "node-2"]
    # Pods that it alone can take have waited for it.
    assert closed_at(made, ledger.FULL_S) == [NODE] and made.room == ["node-3", "node-2"]
    made.ledger.take(NODE, 2, [], 10.0)
    made.ledger.note_missing(NODE)
    assert closed_at(made, 10.0) == []
    assert made.room == ["node-3", "node-2", NODE]
    made.ledger.take_unreadable(NODE, 3, 20.0)
    assert closed_at(made, 20.0 + ledger.LEASE_S - 0.1) == [NODE]
    assert closed_at(made, 20.0 + ledger.LEASE_S) == []


def closed_at(made: World, now_s: float) -> list[str]:
    """On which nodes no claim can be made, after a round of the janitor at that time."""
    made.ledger.forget_old(now_s)
    return list(made.ledger.closed())
