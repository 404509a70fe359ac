"""What bounds the Pods of one kind that a node takes: each bound in Pods, with its reason in words, tightest first."""

import dataclasses
import math

from carico_core.domain import messages
from carico_scheduler import demand as demands
from carico_scheduler import headroom, snapshot

# Sums of floats: a node with room for exactly one more must not be found to have room for none.
_SLACK = 1e-9
# What a bound is called besides a dimension ("cpu") or a requested resource ("requests.cpu").
LIMIT, POD_LIMIT, PODS_PER_CORE = "limit", "pod_limit", "pods_per_core"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """One bound: `pods` more of the kind. `is_believed`: it counts down to the threshold of the policy, not to 0."""

    what: str
    pods: float
    detail: str
    is_believed: bool = True

    def count(self, threshold: float) -> int:
        """Whole Pods that this bound allows.

        >>> Bound(what="cpu", pods=2.5, detail="").count(1.0), Bound(what="cpu", pods=0.9, detail="").count(1.0)
        (2, 0)
        """
        least = threshold if self.is_believed else 1.0
        return max(math.floor(self.pods - least + _SLACK) + 1, 0)

    def row(self) -> dict[str, object]:
        """As JSON."""
        return {"what": self.what, "pods": round(self.pods, 4), "detail": self.detail}


def bounds(row: snapshot.NodeRow, demand: demands.Demand, advertisement: messages.Advertisement | None) -> list[Bound]:
    """Every bound on the Pods of this demand that a node takes, by what it advertises, caps and requests."""
    found = [*_dimensions(row, demand.pod_class, advertisement), *_caps(row), *_requests(row, demand)]
    return sorted(found, key=lambda each: each.pods)


def _dimensions(row: snapshot.NodeRow, pod_class: str, advertisement: messages.Advertisement | None) -> list[Bound]:
    """What is free per dimension over what one Pod costs there."""
    if row.offer is None or advertisement is None:
        return []
    names = headroom.dimensions_of(advertisement)
    parts = zip(names, row.offer.headroom, row.taken, row.offer.cost(pod_class), strict=True)
    found = []
    for name, free, reserved, cost in parts:
        if cost > 0.0:
            detail = f"{free:.4g} free, {reserved:.4g} of it reserved, {cost:.4g} a Pod"
            found.append(Bound(what=name, pods=(free - reserved) / cost, detail=detail))
    return found


def _caps(row: snapshot.NodeRow) -> list[Bound]:
    """What is believed of a node at most, whatever it advertises."""
    cores = row.node.allocatable_cores
    found = [
        Bound(
            what=POD_LIMIT, pods=float(row.pod_limit - row.placed),
            detail=f"{row.placed} Pods of at most {row.pod_limit}",
        ),
    ]  # fmt: skip
    if row.offer is None:
        return found
    found.append(
        Bound(
            what=PODS_PER_CORE, pods=row.most_per_core * cores - row.workloads,
            detail=f"{row.workloads} Pods of at most {row.most_per_core:g} a core on {cores:g} cores",
        )
    )  # fmt: skip
    if math.isfinite(row.limit):
        detail = f"{row.pods} Pods and {row.reserved} reserved of at most {row.limit:g} for now"
        found.append(Bound(what=LIMIT, pods=row.limit - row.pods - row.reserved, detail=detail))
    return found


def _requests(row: snapshot.NodeRow, demand: demands.Demand) -> list[Bound]:
    """What is not requested yet, over what one Pod requests."""
    asked = [
        ("cpu", demand.request_cores, row.node.allocatable_cores - row.used_cores),
        ("memory", demand.request_bytes, row.node.allocatable_bytes - row.used_bytes),
        *((name, amount, row.left(name)) for name, amount in demand.request_others),
    ]
    return [
        Bound(
            what=f"requests.{name}", pods=left / amount, detail=f"{left:g} not requested yet, {amount:g} a Pod",
            is_believed=False,
        )
        for name, amount, left in asked
        if amount > 0.0
    ]  # fmt: skip
