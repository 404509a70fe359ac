"""Which member decides on a Pod, and which node is whose home: rendezvous hashing.

Each key goes to the member with the highest hash of both, so that a member that joins or leaves moves only its own
share. https://www.microsoft.com/en-us/research/wp-content/uploads/2017/02/HRW98.pdf
"""

import hashlib
from collections.abc import Iterable

from carico_scheduler.pods import demand as demands


def owner(key: str, members: Iterable[str]) -> str | None:
    """Return the member to which a Pod's UID or a node's name belongs; None without members.

    >>> owner("pod", ["a", "b"]) == owner("pod", ["b", "a"])
    True
    """
    return max(members, key=lambda member: (_weight(key, member), member), default=None)


def is_alone(demand: demands.Demand) -> bool:
    """Return True if one node decides whether the Pod may go there, so that claims of single nodes are enough.

    Other Pods must be decided on by one member: two could each place a Pod that rules out the other, on two nodes of
    one zone, and no claim of a node would show it. A gang is decided on in one step.
    """
    return demand.gang is None and not demand.is_limited_by_peers


def _weight(key: str, member: str) -> bytes:
    return hashlib.blake2b(f"{member}\0{key}".encode(), digest_size=8).digest()
