"""What a Pod requires and prefers of its node, besides resources and taints: parsed once, and hashable.

Terms are in the form that kube-scheduler uses: a term's namespaces are explicit (the Pod's own if it names none), and
the keys of matchLabelKeys and mismatchLabelKeys are requirements of the selector.
"""

import dataclasses
from collections.abc import Iterable, Mapping

from carico_core.domain import selectors

ANY_ADDRESS = "0.0.0.0"
DEFAULT_PROTOCOL = "TCP"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PodTerm:
    """Pods that the selector matches, in the listed or selected namespaces; `topology_key` names the domain's label."""

    topology_key: str
    selector: selectors.Selector
    namespaces: tuple[str, ...]
    # None: only those listed; (): all.
    namespace_selector: selectors.Selector = None
    # Cached: terms are looked up in sets, and selectors are deep.
    _hash: int = dataclasses.field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        content = (self.topology_key, self.selector, self.namespaces, self.namespace_selector)
        object.__setattr__(self, "_hash", hash(content))

    def __hash__(self) -> int:
        return self._hash

    def matches(self, namespace: str, namespace_labels: Mapping[str, str], labels: Mapping[str, str]) -> bool:
        """Return whether the term applies to a Pod with this namespace and these labels."""
        if namespace not in self.namespaces and not selectors.matches(self.namespace_selector, namespace_labels):
            return False
        return selectors.matches(self.selector, labels)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """One topology spread constraint of a Pod of `namespace`."""

    namespace: str
    topology_key: str
    selector: selectors.Selector
    max_skew: int
    min_domains: int = 1
    # Whether nodes that the Pod's node affinity (or its tolerations) rules out are excluded from the count.
    honours_affinity: bool = True
    honours_taints: bool = False
    # ScheduleAnyway: a preference.
    is_soft: bool = False
    # True if the selector matches the Pod itself.
    is_self: bool = True


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HostPort:
    """A port of the node."""

    address: str
    protocol: str
    port: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ExclusiveDisk:
    """An inline volume that a node gives to one writer only. Two with a name in common are the same disk."""

    kind: str
    names: tuple[str, ...]
    read_only: bool


class Occupied:
    """Host ports and disks, by what two that conflict have in common: a Pod may have thousands of them."""

    def __init__(self, ports: Iterable[HostPort] = (), disks: Iterable[ExclusiveDisk] = ()) -> None:
        self._addresses: dict[tuple[str, int], set[str]] = {}
        for port in ports:
            self._addresses.setdefault((port.protocol, port.port), set()).add(port.address)
        # Whether any writes.
        self._is_written: dict[tuple[str, str], bool] = {}
        for disk in disks:
            for name in disk.names:
                key = (disk.kind, name)
                self._is_written[key] = self._is_written.get(key, False) or not disk.read_only

    def conflicts(self, ports: Iterable[HostPort] = (), disks: Iterable[ExclusiveDisk] = ()) -> bool:
        """Return whether one node cannot give these as well."""
        return (bool(self._addresses) and any(map(self._has_port, ports))) or (
            bool(self._is_written) and any(map(self._has_disk, disks))
        )

    def _has_port(self, port: HostPort) -> bool:
        """Return whether the port is taken; 0.0.0.0 is every address."""
        addresses = self._addresses.get((port.protocol, port.port))
        if addresses is None:
            return False
        return port.address == ANY_ADDRESS or port.address in addresses or ANY_ADDRESS in addresses

    def _has_disk(self, disk: ExclusiveDisk) -> bool:
        """Return whether the disk is in use, and not only read by both."""
        found = [self._is_written.get((disk.kind, name)) for name in disk.names]
        return any(found) or (not disk.read_only and any(each is not None for each in found))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NodePreference:
    """A preferred term of node affinity. `weight` from 1 to 100."""

    weight: int
    term: selectors.NodeTerm


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PodPreference:
    """A preferred term of inter-Pod affinity; below zero for anti-affinity. `weight` from -100 to 100."""

    weight: int
    term: PodTerm


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class VolumeClaimUse:
    """A volume of a Pod that comes from a PersistentVolumeClaim of its namespace."""

    namespace: str
    name: str
    # The UID that must own the claim, if it belongs to one Pod (generic ephemeral volume).
    owner_uid: str | None = None


@dataclasses.dataclass(frozen=True, slots=True, weakref_slot=True, kw_only=True)
class Constraints:
    """Every constraint of one Pod. A Pod without constraints has None instead, which costs nothing."""

    # None: no required node affinity; (): one that matches nothing.
    node_terms: selectors.NodeTerms | None = None
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    # True if the Pod's own labels match all terms of `affinity`: the first Pod of a group may then go anywhere, if the
    # terms also apply to its namespace. `namespace` is the Pod's, if it has such terms.
    is_own_peer: bool = False
    namespace: str = ""
    spreads: tuple[Spread, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    disks: tuple[ExclusiveDisk, ...] = ()
    volume_claims: tuple[VolumeClaimUse, ...] = ()
    node_preferences: tuple[NodePreference, ...] = ()
    pod_preferences: tuple[PodPreference, ...] = ()
    # The cluster's own, for a Pod without `spreads`: all soft, and each counts where some node has its label.
    default_spreads: tuple[Spread, ...] = ()

    @property
    def hard_spreads(self) -> tuple[Spread, ...]:
        """The spread constraints that refuse nodes."""
        return tuple(each for each in self.spreads if not each.is_soft)

    @property
    def soft_spreads(self) -> tuple[Spread, ...]:
        """The spread constraints that are preferences (ScheduleAnyway)."""
        return tuple(each for each in self.spreads if each.is_soft)


NONE = Constraints()


def count_words(stated: object) -> int:
    """Return how many texts and terms constraints consist of: what they take to keep, and to compare with a node.

    >>> count_words((("disk", "ssd"), NodePreference(weight=1, term=selectors.NodeTerm())))
    4
    """
    if isinstance(stated, str):
        return int(bool(stated))
    if isinstance(stated, tuple):
        return sum(map(count_words, stated))
    if dataclasses.is_dataclass(stated):
        return 1 + sum([count_words(getattr(stated, each.name)) for each in dataclasses.fields(stated)])
    return 0
