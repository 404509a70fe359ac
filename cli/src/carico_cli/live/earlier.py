"""What was known before a connection began: of the same cluster, or of one that another has replaced under its name.

Agents distinguish them: one that goes on has the boot that it had. What the bus keeps does not, since a NATS server
that was killed has forgotten it, too.
"""

import dataclasses
from collections.abc import Mapping

from carico_core.domain import messages

# Agents advertise once a second: of a cluster that goes on, one is heard by then.
OTHER_AFTER_S = 5.0


@dataclasses.dataclass(slots=True, kw_only=True)
class Earlier:
    """What was known when the connection began (monotonic seconds): boots of agents by node, ids of decisions."""

    begun_s: float
    boots: Mapping[str, str]
    decisions: frozenset[str]
    summaries: tuple[messages.ClusterSummary, ...]
    _others_since_s: float | None = None

    def hears(self, node: str, boot: str, now_s: float) -> bool:
        """Take in who advertises; return True if that shows that it is the same cluster."""
        if self.boots.get(node) == boot:
            return True
        if self._others_since_s is None:
            self._others_since_s = now_s
        return False

    def is_of_another(self, now_s: float) -> bool:
        """Return whether only agents that were not there before advertise now."""
        return self._others_since_s is not None and now_s - self._others_since_s >= OTHER_AFTER_S
