"""The settings of an election."""

import dataclasses

from carico_core.runtime.process import settings
from carico_scheduler.leadership import candidate


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LeaderSettings:
    """Environment CARICO_LEADER_..., flags --leader-...; the times are those of Kubernetes' own components."""

    election: bool = settings.setting(
        True,
        help="run for a Lease, and bind only while it is held; without it this must be the only scheduler",
        why="two that bind at once would fill nodes twice",
    )
    lease_s: int = settings.setting(
        15, help="how long the others wait after the leader's last renewal", unit="s", minimum=1, maximum=3600,
        why="kube-scheduler's; shorter is less time without a leader after a crash, and changes leaders at each hiccup",
    )  # fmt: skip
    renew_s: float = settings.setting(
        10.0, help="how long a leader that cannot renew goes on; below lease-s by more than clocks may run wrong",
        unit="s", minimum=0.1, maximum=3600, why="kube-scheduler's; with 15 s, clocks may run wrong by a fifth",
    )  # fmt: skip
    retry_s: float = settings.setting(
        2.0, help="time between renewals; others look twice as often", unit="s", minimum=0.05, maximum=600,
        why="kube-scheduler's",
    )  # fmt: skip
    namespace: str = settings.setting(
        "", help="namespace of the Lease; empty: this Pod's, outside of a Pod kube-system"
    )
    name: str = settings.setting("carico-scheduler", help="name of the Lease")
    identity: str = settings.setting(
        "", help="what the holder is called in the Lease; empty: host name and start", why="no two may share it"
    )

    def __post_init__(self) -> None:
        # client-go asks for the same, with 1.2 for its jitter.
        if not self.lease_s > self.renew_s:
            raise ValueError(
                f"--leader-renew-s {self.renew_s:g} and --leader-lease-s {self.lease_s}: expected a longer lease"
            )
        if not self.renew_s > 1.2 * self.retry_s:
            raise ValueError(
                f"--leader-retry-s {self.retry_s:g} and --leader-renew-s {self.renew_s:g}: expected renew-s to be "
                "more than 1.2 times retry-s"
            )

    @property
    def terms(self) -> candidate.Terms:
        """The times for a candidate."""
        return candidate.Terms(duration_s=self.lease_s, renew_s=self.renew_s, retry_s=self.retry_s)
