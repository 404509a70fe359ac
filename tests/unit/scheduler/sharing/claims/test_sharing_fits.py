"""Whether a Pod still fits once its node's claims have changed."""

import pytest

from carico_core.domain import messages
from carico_scheduler.nodes import fleet, snapshot
from carico_scheduler.pods import demand, reservations
from carico_scheduler.rules import policy, registry
from carico_scheduler.sharing.claims import fits
from tests.unit.scheduler import objects

WANTED = demand.Demand(pod_class="pi", request_cores=0.5)
STAGES = registry.by_capacity(policy.Policy())


def row_of(capacity: float) -> snapshot.NodeRow:
    made = fleet.Fleet(policy.Policy())
    made.put_node(objects.make_node("node-0"), reservations.Load())
    made.put_advertisement(objects.make_advertisement("node-0", capacity, pods=1), 0.0)
    return made.snapshot(0.0).row(0)


def claims(count: int, cores: float = 0.0) -> list[messages.Claim]:
    return [
        messages.Claim(
            uid=f"uid-{index}", pod_class="pi", cores=cores, size_bytes=0.0, others=(), scheduler="a", at_ns=1
        )
        for index in range(count)
    ]  # fmt: skip


@pytest.mark.parametrize(("others", "expected"), [(0, True), (2, True), (3, False)])
def test_claims_of_others_take_room(others: int, expected: bool) -> None:
    assert fits.fits(row_of(3.0), WANTED, claims(others), STAGES) is expected


@pytest.mark.parametrize(("cores", "expected"), [(3.5, True), (3.6, False)])
def test_claims_of_others_take_what_they_request(cores: float, expected: bool) -> None:
    assert fits.fits(row_of(3.0), WANTED, claims(1, cores), STAGES) is expected


def test_a_pod_that_is_counted_already_is_not_counted_twice() -> None:
    counted = row_of(1.0).with_pod(WANTED)
    booking = reservations.Booking(
        uid="own", key="default/own", node="node-0", cores=0.5, size_bytes=0.0, others=(), is_baseline=False,
        pod_class="pi", is_pending=True, since_s=0.0,
    )  # fmt: skip
    assert not fits.fits(counted, WANTED, (), STAGES)
    assert fits.fits(counted.counting([(booking, True)], -1), WANTED, (), STAGES)
    assert not fits.fits(counted.counting([(booking, True)], -1), WANTED, claims(1), STAGES)
