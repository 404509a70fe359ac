"""A Pod of a run, and its claim of a node."""

import dataclasses
from collections.abc import Mapping, Sequence


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class Pod:
    """One Pod, how often its claim was given up, and whether it waited for that."""

    uid: str
    arrived_s: float
    losses: int = 0
    has_waited: bool = False
    is_placed: bool = False


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class Request:
    """A claim of one Pod on one node. seq: the commit by which was decided."""

    pod: Pod
    node: int
    seq: int


Changes = Mapping[int, list[Request]]


def by_node(requests: Sequence[Request]) -> dict[int, list[Request]]:
    """Return claims by their node."""
    found: dict[int, list[Request]] = {}
    for each in requests:
        found.setdefault(each.node, []).append(each)
    return found
