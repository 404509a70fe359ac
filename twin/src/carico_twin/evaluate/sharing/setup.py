"""What one run simulates: the cluster, its load, and how several schedulers work on it."""

import dataclasses
import enum
import math


class Mode(enum.StrEnum):
    """How schedulers divide the work."""

    # One scheduler decides on all Pods; the others stand by. It claims nothing.
    LEADER = "leader"
    # Each decides on its share of the Pods, on all nodes, and claims the room before it binds.
    SHARED = "shared"
    # Each decides on its share of the Pods, on its share of the nodes. It claims nothing.
    PARTITIONED = "partitioned"
    # As shared, but literally as the paper of the hybrid shared-state scheduler has it (`paper`): nodes are found by
    # its walk, and what is lost or fits nowhere goes to its correction function.
    PAPER = "paper"


class Choice(enum.StrEnum):
    """Which node a scheduler chooses among those with room."""

    EMPTIEST = "emptiest"
    # Any of the emptiest nodes (`choices.RANDOM_OF` times as many as a batch has Pods).
    RANDOM = "random"
    # The emptiest, where a node of another member counts as some Pods fuller.
    HOMES = "homes"


class Detection(enum.StrEnum):
    """What becomes of a claim on a node that has changed since the decision."""

    # The node is read again, and the claim is sent again if the Pod still fits.
    FINE = "fine"
    # The claim is given up.
    COARSE = "coarse"


class Transaction(enum.StrEnum):
    """What is committed together."""

    # Each node by itself.
    INCREMENTAL = "incremental"
    ALL_OR_NOTHING = "all-or-nothing"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """One run. Times in seconds; `fill` is the mean share of the cluster's room that is taken.

    Pods arrive `burst` at a time, at random, and run for `life_s` on average (exponential). `batch`: the most Pods that
    one cycle places. A cycle takes `decision_s` for each Pod. `commit_s`: from sending claims to their answer.
    `view_s`: from a change until the others see it. `score_percent`: of mode `paper`, the share of the nodes with room
    that is enough to choose among (`percentageOfNodesToScore`).
    """

    mode: Mode = Mode.SHARED
    schedulers: int = 4
    choice: Choice = Choice.HOMES
    fuller_pods: float = 2.0
    score_percent: float = 50.0
    detection: Detection = Detection.FINE
    transaction: Transaction = Transaction.INCREMENTAL
    nodes: int = 1000
    pods_per_node: int = 5
    fill: float = 0.7
    life_s: float = 5.0
    burst: int = 32
    batch: int = 32
    decision_s: float = 0.0007
    commit_s: float = 0.001
    view_s: float = 0.008
    warm_up_s: float = 1.0
    measured_s: float = 5.0
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("schedulers", "nodes", "pods_per_node", "burst", "batch"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected 1 or more, got {getattr(self, name)}")
        for name in ("decision_s", "life_s", "measured_s"):
            if not 0.0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name}: expected more than 0 seconds, got {getattr(self, name)}")
        for name in ("fuller_pods", "commit_s", "view_s", "warm_up_s"):
            if not 0.0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name}: expected 0 or more, got {getattr(self, name)}")
        if not 1.0 <= self.score_percent <= 100.0:
            raise ValueError(f"score_percent: expected 1 to 100, got {self.score_percent}")
        if not 0.0 <= self.fill <= 1.0:
            raise ValueError(f"fill: expected a share from 0 to 1, got {self.fill}")

    @property
    def pods_per_s(self) -> float:
        """The Pods that arrive each second."""
        return self.fill * self.nodes * self.pods_per_node / self.life_s
