"""Which replicas of a service are alive, and which of them leads."""

from carico_core.wire import replicas

LEASE_S = 10.0
BOOT = "0" * 16


def test_replicas_that_are_gone_are_forgotten() -> None:
    known = replicas.Replicas("r0", lease_s=LEASE_S)
    for number in range(100):
        assert known.take(f"r0-{number}", boot=BOOT, seq=1, now_s=float(number * 20))
    assert known.others(99 * 20.0) == ["r0-99"]
    assert len(known._last_seen_s) == 1


def test_the_first_live_replica_by_name_leads() -> None:
    found = replicas.Replicas("b", lease_s=LEASE_S)
    assert found.leader(0.0) == "b"
    assert found.take("a", boot=BOOT, seq=1, now_s=0.0)
    assert not found.take("a", boot=BOOT, seq=1, now_s=0.1), "the same message again"
    assert found.leader(9.0) == "a"
    assert found.leader(9.0, besides="a") == "b"
    assert found.leader(10.1) == "b", "silent for a lease"
    assert not found.take("b", boot=BOOT, seq=1, now_s=0.0), "its own"


def test_a_replica_that_has_left_is_gone_at_once() -> None:
    found = replicas.Replicas("b", lease_s=LEASE_S)
    assert found.take("a", boot=BOOT, seq=2, now_s=0.0)
    found.forget("a")
    assert found.others(0.0) == []
    assert not found.take("a", boot=BOOT, seq=1, now_s=0.1), "an older message does not bring it back"
    assert found.others(0.1) == []
