"""The settings of an election."""

import dataclasses

from carico_core.runtime.leadership import candidate
from carico_core.runtime.process import settings


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LeaderSettings:
    """Environment CARICO_LEADER_..., flags --leader-...; the default times are those of Kubernetes' own components."""

    election: bool = settings.setting(
        True,
        help="run for a Lease and work only while holding it; without election this must be the only replica",
        why="two schedulers that bind at once would fill nodes twice, two reschedulers move a Pod twice",
    )
    lease_s: int = settings.setting(
        15, help="how long standbys wait after the leader's last renewal", unit="s", minimum=1, maximum=3600,
        why="kube-scheduler's; a shorter one replaces a crashed leader sooner, and changes leaders at each API delay",
    )  # fmt: skip
    renew_s: float = settings.setting(
        10.0, help="how long a leader that cannot renew keeps leading; must be shorter than lease-s",
        unit="s", minimum=0.1, maximum=3600, why="kube-scheduler's; with lease-s 15, clock rates may be wrong by 20 %",
    )  # fmt: skip
    retry_s: float = settings.setting(
        2.0, help="time between renewals; standbys read the Lease twice as often", unit="s", minimum=0.05, maximum=600,
        why="kube-scheduler's",
    )  # fmt: skip
    namespace: str = settings.setting(
        "", help="namespace of the Lease; empty: this Pod's namespace, or kube-system outside a Pod"
    )
    name: str = settings.setting("", help="name of the Lease; empty: the name of the program")
    identity: str = settings.setting(
        "",
        help="the holder's name in the Lease; empty: replica (else host name) and start",
        why="no two replicas may share it",
    )

    def __post_init__(self) -> None:
        # client-go asks for the same, with 1.2 for its jitter.
        if not self.lease_s > self.renew_s:
            raise ValueError(
                f"--leader-renew-s {self.renew_s:g} and --leader-lease-s {self.lease_s}: expected a longer Lease"
            )
        if not self.renew_s > 1.2 * self.retry_s:
            raise ValueError(
                f"--leader-retry-s {self.retry_s:g} and --leader-renew-s {self.renew_s:g}: expected renew-s to be "
                "more than 1.2 times retry-s"
            )

    @property
    def times(self) -> candidate.LeaseTimes:
        """Return the times for a candidate."""
        return candidate.LeaseTimes(duration_s=self.lease_s, renew_s=self.renew_s, retry_s=self.retry_s)
