"""The bounds on Pods of one kind that a node takes: each in Pods, with its reason in words, tightest first."""

import dataclasses
import functools
import math
from collections.abc import Callable

from carico_core.domain import amounts, messages
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.rules.filters import requests

# For rounding in sums of floats: a node with room for exactly one more Pod must not be counted as full.
SLACK = 1e-9
# Names of bounds, in addition to dimensions ("cpu") and requested resources ("requests.cpu").
CAPACITY, LIMIT, POD_LIMIT, PODS_PER_CORE = "capacity", "limit", "pod_limit", "pods_per_core"

_pods = functools.partial(amounts.plural, what="Pod")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """One bound: `pods` more of the kind. `has_threshold`: the policy's threshold applies, as to advertised capacity.

    `say` formats its words, of which few are ever shown.
    """

    what: str
    pods: float
    say: Callable[[], str]
    has_threshold: bool = True

    @property
    def detail(self) -> str:
        """The bound in words."""
        return self.say()

    def count(self, threshold: float) -> int:
        """Return how many whole Pods this bound allows.

        >>> Bound(what="cpu", pods=2.5, say=str).count(1.0), Bound(what="cpu", pods=0.9, say=str).count(1.0)
        (2, 0)
        """
        least = threshold if self.has_threshold else 1.0
        return max(math.floor(self.pods - least + SLACK) + 1, 0)

    def row(self) -> dict[str, object]:
        """Return the bound as JSON."""
        return {"what": self.what, "pods": round(self.pods, 4), "detail": self.detail}


def bounds(row: snapshot.NodeRow, demand: demands.Demand) -> list[Bound]:
    """Return every bound on the Pods of this demand that a node takes: its dimensions, the caps, and requests."""
    return _sorted([*_dimensions(row, demand), *_caps(row), *_requests(row, demand)])


def typical_bounds(row: snapshot.NodeRow, advertised: messages.Advertisement | None) -> list[Bound]:
    """Return the bounds on typical Pods, the unit of advertised capacity: a mixture of the Pods in the cluster."""
    found = _caps(row)
    if advertised is not None and row.is_advertised:
        reserved = f", {row.reserved} reserved" if row.reserved else ""
        found.append(
            Bound(
                what=advertised.bottleneck or CAPACITY, pods=row.capacity - row.reserved,
                say=lambda: f"capacity {round(row.capacity, 2):g} advertised{reserved}",
            )
        )  # fmt: skip
    return _sorted(found)


def typical_count(row: snapshot.NodeRow, bounds: list[Bound], threshold: float) -> int:
    """Return how many typical Pods fit; an empty node takes one if its capacity allows it (`headroom.NodeRoom`)."""
    is_empty = row.pods == 0 and row.reserved == 0
    least = int(is_empty and row.typical_free() >= threshold)
    return max(min(each.count(threshold) for each in bounds), least)


def _sorted(found: list[Bound]) -> list[Bound]:
    return sorted(found, key=lambda each: each.pods)


def _dimensions(row: snapshot.NodeRow, demand: demands.Demand) -> list[Bound]:
    """Return the bound of each dimension: what is free over what one Pod costs."""
    room = row.room_under(demand.ceiling_offset)
    offer = room.offer
    if offer is None:
        return []
    costs = offer.cost(demand.pod_class)
    parts = zip(offer.dimensions, offer.headroom, room.taken, costs, room.by_dimension(costs), strict=True)
    return [
        Bound(what=name, pods=pods, say=functools.partial(_say_dimension, name, free, reserved, cost))
        for name, free, reserved, cost, pods in parts
        if cost > 0.0
    ]


def _say_dimension(name: str, free: float, reserved: float, cost: float) -> str:
    """Return the words of a dimension: what is free, and what a Pod costs.

    >>> _say_dimension("cpu", 2.75, 1.31, 1.31), _say_dimension("memory", 9.5e9, 0.0, 4.33e8)
    ('2.75 tasks free, 1.31 of it reserved, 1.31 a Pod', '9.5 GB free, 433 MB a Pod')
    """
    left, held, each = _in_one_unit(*(amounts.text(name, value) for value in (free, reserved, cost)))
    return ", ".join([f"{left} free", *([f"{held} of it reserved"] if reserved else []), f"{each} a Pod"])


def _in_one_unit(first: str, *more: str) -> list[str]:
    """Return the amounts, with the unit only at the first."""
    unit = first.partition(" ")[2]
    return [first, *(each.removesuffix(f" {unit}") for each in more)]


def _caps(row: snapshot.NodeRow) -> list[Bound]:
    """Return the bounds that do not depend on headroom."""
    room, cores = row.room, row.node.allocatable_cores
    found = [
        Bound(
            what=POD_LIMIT, pods=room.pod_limit, say=lambda: f"{_pods(row.placed)} of at most {row.pod_limit}",
        ),
    ]  # fmt: skip
    if room.offer is None:
        return found
    most = row.policy.max_pods_per_core
    found.append(
        Bound(
            what=PODS_PER_CORE, pods=room.pods_per_core,
            say=lambda: f"{_pods(row.workloads)} of at most {most:g} a core on {cores:g} cores",
        )
    )  # fmt: skip
    if math.isfinite(row.limit):
        found.append(
            Bound(
                what=LIMIT, pods=room.limit,
                say=lambda: f"{_pods(row.pods)} and {row.reserved} reserved of at most {row.limit:g} for now",
            )
        )  # fmt: skip
    return found


def _requests(row: snapshot.NodeRow, demand: demands.Demand) -> list[Bound]:
    """Return the bound of each requested resource: what is unrequested over what one Pod requests."""
    asked = [(name, amount, float(requests.left(row, name))) for name, amount in demand.requests]
    return [
        Bound(
            what=f"requests.{name}", pods=left / amount, has_threshold=False,
            say=functools.partial(_say_request, name, left, amount),
        )
        for name, amount, left in asked
    ]  # fmt: skip


def _say_request(name: str, left: float, amount: float) -> str:
    """Return the words of a resource: what is unrequested, and what a Pod requests.

    >>> _say_request("cpu", 1.5, 0.25), _say_request("ephemeral-storage", 3.2e10, 1e9)
    ('1.5 cores not requested yet, 0.25 a Pod', '32.0 GB not requested yet, 1.0 a Pod')
    >>> _say_request("example.com/card", 2.0, 1.0)
    '2 not requested yet, 1 a Pod'
    """
    found = _in_one_unit(*(_requested(name, value) for value in (left, amount)))
    return f"{found[0]} not requested yet, {found[1]} a Pod"


def _requested(name: str, value: float) -> str:
    if name.startswith(amounts.RESOURCES_IN_BYTES):
        return amounts.text("memory", value)
    return f"{value:g} cores" if name == "cpu" else f"{value:g}"
