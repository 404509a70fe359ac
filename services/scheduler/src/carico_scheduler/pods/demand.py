"""What a Pod asks of a node, apart from its identity: Pods with equal demands are decided on together."""

import dataclasses
import operator
from collections.abc import Set

from carico_core.domain import cluster, gangs, names
from carico_core.domain import constraints as limits
from carico_scheduler.pods import pod_questions
from carico_scheduler.rules import policy as policies


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The constraints of a Pod. Hashable: it is the key of the Pod's equivalence class."""

    node_name: str | None = None
    node_selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[cluster.Toleration, ...] = ()
    request_cores: float = 0.0
    request_bytes: float = 0.0
    # Other resources by name.
    request_others: tuple[tuple[str, float], ...] = ()
    unsupported: tuple[str, ...] = ()
    required_features: tuple[str, ...] = ()
    pod_class: str = ""
    constraints: limits.Constraints | None = None
    # Required anti-affinity terms of known Pods that select this Pod: thousands, if a tenant wants it.
    repelled_by: pod_questions.TermSet = pod_questions.NO_TERMS
    # Preferred terms and required affinity terms of known Pods that select this Pod.
    preferred_by: tuple[limits.PodTerm, ...] = ()
    # It belongs to its node (`admission.Baseline`): it waits neither for room nor for a node that is ready.
    is_baseline: bool = False
    # Nothing fits next to it: room is held on a node against all Pods.
    fills_node: bool = False
    # It is placed together with the other Pods of this gang.
    gang: gangs.Key | None = None
    # None: not known.
    images: cluster.Images | None = None
    # The settings of its schedulerName; None: those of all names.
    profile: policies.Profile | None = None
    # Cached: it is needed several times per decision, and constraints are deep.
    _hash: int = dataclasses.field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash(_COMPARED(self)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        # Usually it is the same object, since all Pods of a lane in the queue share theirs.
        if self is other:
            return True
        return isinstance(other, Demand) and self._hash == other._hash and bool(_COMPARED(self) == _COMPARED(other))

    @property
    def requests(self) -> tuple[tuple[str, float], ...]:
        """The amount requested of each resource, by name; resources that it does not request are left out."""
        if self.request_cores <= 0.0 and self.request_bytes <= 0.0:
            return self.request_others
        own = (("cpu", self.request_cores), ("memory", self.request_bytes))
        return (*[each for each in own if each[1] > 0.0], *self.request_others)

    @property
    def ceiling_offset(self) -> float:
        """By how much more of a node its Pods may fill it than the node's agent advertises, from -1 to 1."""
        return 0.0 if self.profile is None else self.profile.ceiling_offset

    @property
    def looks_at_peers(self) -> bool:
        """False if neither other Pods nor volumes can refuse it a node; what is only preferred does not count."""
        return self.constraints is not None or bool(self.repelled_by)

    @property
    def is_limited_by_peers(self) -> bool:
        """True if other Pods or volumes may refuse it a node: one that leaves or changes may open any node to it."""
        return is_limited_by_peers(self.constraints, self.repelled_by)

    @property
    def is_alone(self) -> bool:
        """True if one node decides whether the Pod may go there, so that claims of single nodes are enough.

        Where several schedulers share the work, other Pods must be decided on by one of them: two could each place a
        Pod that rules out the other, on two nodes of one zone, and no claim of a node would show it. A gang is decided
        on in one step.
        """
        return self.gang is None and not self.is_limited_by_peers

    @property
    def follows_peers(self) -> bool:
        """True if placing another Pod (a peer, or one of its spread group) may open a node to this one."""
        return self.constraints is not None and bool(self.constraints.affinity or self.constraints.hard_spreads)


_COMPARED = operator.attrgetter(*(each.name for each in dataclasses.fields(Demand) if each.compare))


def is_limited_by_peers(found: limits.Constraints | None, repelled_by: Set[limits.PodTerm]) -> bool:
    """Return True if other Pods or volumes may refuse a Pod of these constraints a node."""
    if repelled_by:
        return True
    return found is not None and bool(
        found.affinity
        or found.anti_affinity
        or found.hard_spreads
        or found.host_ports
        or found.disks
        or found.volume_claims
    )


def demand_of(
    pod: cluster.Pod, *, repelled_by: pod_questions.TermSet = pod_questions.NO_TERMS,
    preferred_by: tuple[limits.PodTerm, ...] = (), is_baseline: bool = False, gang: gangs.Key | None = None,
    profile: policies.Profile | None = None,
) -> Demand:  # fmt: skip
    """Return the demand of `pod`; equal for all Pods of one template."""
    return Demand(
        node_name=pod.node_name,
        node_selector=tuple(sorted(pod.node_selector.items())),
        tolerations=pod.tolerations,
        request_cores=pod.request_cores,
        request_bytes=pod.request_bytes,
        request_others=pod.request_others,
        unsupported=pod.unsupported,
        required_features=pod.required_features,
        pod_class=names.class_of(pod),
        constraints=pod.constraints,
        repelled_by=repelled_by,
        preferred_by=preferred_by,
        is_baseline=is_baseline,
        gang=gang,
        images=pod.images,
        profile=profile,
    )
