"""What everything on a node shares."""

import dataclasses
from collections.abc import Mapping

from carico_core.runtime.kube import api_actions
from carico_core.runtime.process import clock as clocks
from carico_local.cgroups import group as groups
from carico_local.node import settings
from carico_local.node.reporting import events, reporter
from carico_local.node.runtime import client as runtime
from carico_local.node.runtime import records


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The parts of one node that its Pods use. `group` None: process accounting, Pods are plain processes."""

    chosen: settings.NodeSettings
    clock: clocks.Clock
    group: groups.Group | None
    records: records.Records
    runtime: runtime.Runtime
    reporter: reporter.Reporter
    events: events.Events
    api: api_actions.Api

    @property
    def amounts(self) -> Mapping[str, float]:
        """What the node has, in emulated figures: the limit of a container that states none."""
        return {"cpu": self.chosen.cores, "memory": self.chosen.memory_bytes / self.chosen.scale}
