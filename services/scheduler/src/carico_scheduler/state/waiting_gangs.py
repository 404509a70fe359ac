"""Gathers the Pods of a gang that wait, for a cycle, and takes in what gangs ask for. Pure."""

from collections.abc import Callable, Iterable, Set

from carico_core.domain import gangs
from carico_scheduler.decide import parties
from carico_scheduler.gangs import gang as gang_records
from carico_scheduler.gangs import table as gang_table
from carico_scheduler.pods import queue as queues
from carico_scheduler.pods import record as records
from carico_scheduler.state import node_state


class WaitingGangs:
    """The gangs of a table, kept in step with the queue; a cycle's `parties.PartySource`."""

    def __init__(
        self, nodes: node_state.NodeState, table: gang_table.Gangs, *, node_of: Callable[[str], str | None],
        on_change: Callable[[], None],
    ) -> None:  # fmt: skip
        """`node_of` returns a Pod's node. `on_change` is called when gangs may have become single Pods."""
        self._nodes = nodes
        self._table = table
        self._node_of = node_of
        self._on_change = on_change

    def note(self, record: records.Record) -> None:
        """Bring the gang of a Pod up to date with its record."""
        pod = record.pod
        if pod is None or pod.gang is None or pod.scheduler_name not in self._nodes.fleet.policy.names:
            return
        if self._table.note(record):
            self._nodes.queue.unpark_gangs({pod.gang.key})

    def gather(self, first: queues.Waiting) -> parties.Party:
        """Take the Pods of a gang from the queue that can be decided on with `first`; see `parties.PartySource`."""
        queue, key = self._nodes.queue, first.demand.gang
        gang = None if key is None else self._table.find(key)
        if key is None or gang is None:
            raise ValueError(f"Pod {first.pod.key} waits for a gang that is not known")
        members = [first]
        if not gang.may_place or key in self._table.resting:
            return parties.Party(gang=key, members=members, missing=gang.missing, may_place=False)
        for uid in gang.roles:
            waiting = queue.find(uid)
            if waiting is not None and waiting.demand.gang == key and queue.due_s(uid) is None:
                queue.forget(uid)
                members.append(waiting)
        topology_key = "" if gang.asks is None else gang.asks.topology_key
        domain = self.domain_of(gang)
        return parties.Party(
            gang=key, members=members, missing=gang.missing, topology_key=topology_key, domain=domain
        )  # fmt: skip

    def tried(self, party: parties.Party, fitted: int | None) -> None:
        """Note for how many Pods of a gang there was room; see `parties.PartySource`."""
        gang = self._table.find(party.gang)
        if gang is not None and fitted is not None:
            gang.fitted = fitted

    def domain_of(self, gang: gang_records.Gang) -> str | None:
        """Return the value of the label within which a gang must stay, by its Pods on nodes; None if any will do."""
        fleet, topology_key = self._nodes.fleet, "" if gang.asks is None else gang.asks.topology_key
        for name in gang.nodes(self._node_of) if topology_key else ():
            slot = fleet.slot_of(name)
            value = None if slot is None else fleet.row(slot).node.labels.get(topology_key)
            if value is not None:
                return value
        return None

    def put_pod_groups(self, found: Iterable[gangs.PodGroup], now_s: float, *, is_native: bool) -> None:
        """Take in the list of all PodGroups of one kind."""
        self._renew(self._table.put_groups(found, is_native=is_native), now_s)

    def put_pod_group(self, found: gangs.PodGroup, now_s: float) -> None:
        """Take in a PodGroup."""
        self._renew(self._table.put_group(found), now_s)

    def remove_pod_group(self, key: gangs.Key, now_s: float) -> None:
        """Forget a PodGroup."""
        self._renew(self._table.remove_group(key), now_s)

    def _renew(self, keys: Set[gangs.Key], now_s: float) -> None:
        """Try gangs again that ask for something else now, some of them perhaps to be placed one by one."""
        if keys:
            # Pods that are placed one by one may be another scheduler's.
            self._on_change()
        for key in keys:
            gang = self._table.find(key)
            for uid in () if gang is None else gang.roles:
                waiting = self._nodes.queue.find(uid)
                # Whether they are placed together is all of it that a Pod's demand states.
                if waiting is not None and waiting.demand.gang != self._table.key_of(waiting.pod):
                    self._nodes.queue.offer(waiting.pod, now_s)
        self._nodes.queue.unpark_gangs(keys)
