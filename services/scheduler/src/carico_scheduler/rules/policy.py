"""The rules of a scheduling cycle that an operator can set."""

import dataclasses
import enum
from collections.abc import Mapping

from carico_core.domain import names as domain_names


class ScoreMode(enum.StrEnum):
    """How nodes that have room are ranked."""

    PER_CORE = "per_core"
    ABSOLUTE = "absolute"
    RELATIVE = "relative"


class Release(enum.StrEnum):
    """When a reservation ends: when an advertisement covers the Pod, or (paper) when the Pod leaves Pending."""

    COVERS = "covers"
    PAPER = "paper"


class Fallback(enum.StrEnum):
    """What to do while no node has a usable advertisement."""

    WAIT = "wait"
    REQUESTS = "requests"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What one schedulerName has otherwise than the others; None: as they do."""

    # By how much more of each node's cores and memory its Pods may fill it than the agents' ceiling; from -1 to 1.
    ceiling_offset: float = 0.0
    score: ScoreMode | None = None
    # The largest share by which preferences lower a node's score.
    lean: float | None = None

    def __str__(self) -> str:
        found = [f"ceiling {self.ceiling_offset:+g}"] if self.ceiling_offset else []
        found += [] if self.score is None else [f"score {self.score.value}"]
        return ", ".join([*found, *([] if self.lean is None else [f"preferences {self.lean:g}"])])


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The rules of a cycle. Ages in seconds, threshold in Pods; the defaults are those of the settings."""

    # The schedulerNames whose Pods are placed.
    names: frozenset[str] = frozenset({domain_names.SCHEDULER_NAME})
    # Those of them that have settings of their own.
    profiles: Mapping[str, Profile] = dataclasses.field(default_factory=dict)
    threshold: float = 1.0
    score: ScoreMode = ScoreMode.PER_CORE
    release: Release = Release.COVERS
    fallback: Fallback = Fallback.WAIT
    max_pods_per_core: float = 16.0
    # Pods of one ReplicaSet, StatefulSet or Service prefer different nodes and zones.
    default_spread: bool = True
    # Nodes that have a Pod's images are preferred.
    image_locality: bool = True
    lease_s: float = 10.0
    suspect_after_s: float = 30.0
    # Namespaces whose Pods belong to their node: they are never refused or reserved (`admission.Baseline`).
    baseline_namespaces: frozenset[str] = frozenset({"kube-system", "carico"})
