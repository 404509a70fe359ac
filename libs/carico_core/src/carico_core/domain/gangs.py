"""Gangs: Pods that are placed together or not at all, as they and their PodGroup ask for it."""

from typing import NamedTuple

# More Pods than any placement in one step should decide on; the API's own limit for a Job is far higher.
MEMBERS_MOST = 10_000
TIMEOUT_MOST_S = 86_400.0


class Key(NamedTuple):
    """What identifies a gang. `is_native`: by `spec.schedulingGroup` of its Pods; otherwise by their label."""

    namespace: str
    name: str
    is_native: bool = False

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Asks(NamedTuple):
    """What a gang asks for.

    `min_member`: how many Pods are placed together at least. `timeout_s`: how long it may hold room for fewer; None: as
    the scheduler is set. `topology_key`: all its Pods go to nodes with one value of this label; empty: anywhere.
    `wrong`: why nothing of it can be placed; empty if all is well.
    """

    min_member: int
    timeout_s: float | None = None
    topology_key: str = ""
    wrong: str = ""


class PodGang(NamedTuple):
    """The gang of a Pod. `asks`: what the Pod's own annotations ask for. `bound_at_s`: Unix seconds; 0 if unknown."""

    key: Key
    asks: Asks | None
    bound_at_s: float = 0.0


class PodGroup(NamedTuple):
    """A PodGroup. `asks`: None if its Pods are placed one by one (`schedulingPolicy: basic`)."""

    key: Key
    asks: Asks | None
