"""All gangs: their Pods, what they ask for, and which of their Pods are decided on. Pure.

What a gang asks for comes from its PodGroup; without one, from the annotations of its Pods: the highest minimum that
any of them names.
"""

from collections.abc import Callable, Iterable, Iterator

from carico_core.domain import cluster, gangs
from carico_scheduler.gangs import gang as gang_records
from carico_scheduler.pods import record as records


class Gangs:
    """The gangs by key. `on_step` is called after each change of a gang's state."""

    def __init__(self) -> None:
        self._gangs: dict[gangs.Key, gang_records.Gang] = {}
        self._groups: dict[gangs.Key, gangs.PodGroup] = {}
        # Why PodGroups are not known: of Kubernetes' own (True), of scheduler-plugins (False).
        self._lacking: dict[bool, str] = {True: "not listed yet", False: "not listed yet"}
        # Gangs that were given back and are not tried for a while; kept by `keeper`.
        self.resting: set[gangs.Key] = set()
        self.on_step: Callable[[gang_records.Gang], None] = lambda gang: None

    def __len__(self) -> int:
        return len(self._gangs)

    def __iter__(self) -> Iterator[gang_records.Gang]:
        return iter(list(self._gangs.values()))

    def find(self, key: gangs.Key) -> gang_records.Gang | None:
        """Return a gang; None if no Pod of it is known."""
        return self._gangs.get(key)

    def key_of(self, pod: cluster.Pod) -> gangs.Key | None:
        """Return the gang as part of which a Pod is placed; None if it is placed by itself."""
        if pod.gang is None:
            return None
        group = self._groups.get(pod.gang.key)
        return None if group is not None and group.asks is None else pod.gang.key

    def note(self, record: records.Record) -> bool:
        """Bring a gang up to date with one of its Pods; return True if the gang should be tried now."""
        pod = record.pod
        if pod is None or pod.gang is None or record.state is records.UNSEEN:
            return False
        gang = self._add(pod, pod.gang)
        role = gang_records.role_of(record)
        is_new = gang.put(record.uid, role)
        if is_new:
            self._renew(gang)
        return is_new and role is gang_records.Role.WAITS and gang.may_place

    def move(self, uid: str, before: gangs.PodGang | None, after: gangs.PodGang | None) -> None:
        """Take in that what a Pod states about its gang has changed; `note` follows."""
        if before is None or before == after:
            return
        gang = self._gangs.get(before.key)
        if after is None or after.key != before.key or gang is None or uid not in gang.roles:
            self._leave(uid, before, is_done=False)
        elif after.asks != before.asks:
            gang.annotate(before.asks, -1)
            gang.annotate(after.asks, 1)
            self._note_asks(gang)
            self._renew(gang)

    def forget(self, pod: cluster.Pod, *, is_done: bool) -> None:
        """Forget a Pod that is gone, or has ended; `is_done`: it ended well."""
        if pod.gang is not None:
            self._leave(pod.uid, pod.gang, is_done=is_done)

    def put_groups(self, found: Iterable[gangs.PodGroup], *, is_native: bool) -> set[gangs.Key]:
        """Take in the list of all PodGroups of one kind; return the gangs that it may change."""
        listed = {each.key: each for each in found}
        kept = {key: each for key, each in self._groups.items() if key.is_native is not is_native}
        before, self._groups = self._groups, kept | listed
        changed = {key for key in before.keys() | self._groups.keys() if before.get(key) != self._groups.get(key)}
        return self._renew_all(changed)

    def put_group(self, found: gangs.PodGroup) -> set[gangs.Key]:
        """Take in one PodGroup; return the gangs that it may change."""
        if self._groups.get(found.key) == found:
            # Its controller writes its status each time that one of its Pods changes.
            return set()
        self._groups[found.key] = found
        return self._renew_all({found.key})

    def remove_group(self, key: gangs.Key) -> set[gangs.Key]:
        """Forget a PodGroup; return the gangs that this may change."""
        self._groups.pop(key, None)
        return self._renew_all({key})

    def lacks(self, why: str | None, *, is_native: bool) -> None:
        """Note why PodGroups of one kind are not known; None: they are."""
        self._lacking.pop(is_native, None)
        if why is not None:
            self._lacking[is_native] = why

    def knows_groups(self, key: gangs.Key) -> bool:
        """Return whether the PodGroups of this kind are known, so that a gang has none if there is none."""
        return key.is_native not in self._lacking

    def give_back(self, gang: gang_records.Gang) -> None:
        """Begin to evict all Pods of a gang that are on nodes."""
        gang.step(gang_records.GIVEN_BACK)
        self.on_step(gang)
        self._renew(gang)

    def end_giving_back(self) -> None:
        """Evict no further Pods of gangs: this scheduler no longer decides, and the next one may complete them."""
        for gang in self:
            if gang.state is gang_records.GIVEN_BACK:
                gang.step(gang_records.INCOMPLETE)
                self.on_step(gang)
                self._renew(gang)

    def settle(self, gang: gang_records.Gang) -> None:
        """Take a gang that was found on nodes for complete: it has been there for longer than it may be incomplete."""
        gang.step(gang_records.COMPLETE)
        self.on_step(gang)

    def is_short(self, key: gangs.Key) -> bool:
        """Return whether a gang lacks something other than room, so that more nodes do not help it."""
        gang = self._gangs.get(key)
        return gang is None or not gang.may_place

    def why(self, key: gangs.Key) -> str:
        """Return why a gang waits, in words."""
        gang = self._gangs.get(key)
        if gang is None or gang.asks is None:
            lacking = self._lacking.get(key.is_native)
            if lacking is not None:
                return f"gang {key}: PodGroups are not known: {lacking}"
            return f"gang {key}: there is no such PodGroup, nor do its Pods state a minimum"
        if gang.asks.wrong:
            return f"gang {key}: {gang.asks.wrong}"
        least = gang.asks.min_member
        if key in self.resting or gang.state is gang_records.GIVEN_BACK:
            return f"gang {key}: given back, since fewer than {least} of its Pods found room in time; tried again later"
        if gang.state is gang_records.GATHERING:
            return f"gang {key}: {gang.waits} of the {least} Pods that it needs are there"
        within = f" within one {gang.asks.topology_key}" if gang.asks.topology_key else ""
        fitted = "" if gang.fitted is None else f"; there was room for {gang.fitted}"
        if gang.state is gang_records.INCOMPLETE:
            return f"gang {key}: {gang.reached} of {least} Pods have a node, the rest must follow{within}{fitted}"
        if gang.missing:
            return f"gang {key}: {gang.missing} Pods must be placed together{within}{fitted}"
        return f"gang {key}: complete; further Pods are placed one by one{within}"

    def _add(self, pod: cluster.Pod, member: gangs.PodGang) -> gang_records.Gang:
        gang = self._gangs.get(member.key)
        if gang is None:
            gang = self._gangs[member.key] = gang_records.Gang(key=member.key)
            self._note_asks(gang)
        if pod.uid not in gang.roles and member.asks is not None:
            gang.annotate(member.asks, 1)
            if gang.key not in self._groups:
                # Not all of them again: each of its Pods may ask for something else.
                gang.asks = max(filter(None, (gang.asks, member.asks)), key=_strictest)
        return gang

    def _leave(self, uid: str, member: gangs.PodGang, *, is_done: bool) -> None:
        gang = self._gangs.get(member.key)
        if gang is None or uid not in gang.roles:
            return
        role = gang.drop(uid)
        if is_done and role in (gang_records.Role.ASSUMED, gang_records.Role.BOUND):
            gang.done += 1
        if member.asks is not None:
            gang.annotate(member.asks, -1)
            if member.asks == gang.asks:
                self._note_asks(gang)
        if not gang.roles:
            del self._gangs[member.key]
        else:
            self._renew(gang)

    def _note_asks(self, gang: gang_records.Gang) -> None:
        group = self._groups.get(gang.key)
        gang.is_single = group is not None and group.asks is None
        gang.asks = group.asks if group is not None else max(gang.annotated, key=_strictest, default=None)

    def _renew_all(self, keys: Iterable[gangs.Key]) -> set[gangs.Key]:
        """Bring gangs up to date with their PodGroups; return those that there are."""
        known = {key for key in keys if key in self._gangs}
        for key in known:
            gang = self._gangs[key]
            self._note_asks(gang)
            self._renew(gang)
        return known

    def _renew(self, gang: gang_records.Gang) -> None:
        if gang.renew() is not None:
            gang.fitted = None
            self.on_step(gang)


def _strictest(asks: gangs.Asks) -> tuple[bool, int, float, str]:
    """Sorts what is wrong last, and before it the highest minimum: the maximum is what a gang asks for."""
    return (bool(asks.wrong), asks.min_member, asks.timeout_s or 0.0, asks.topology_key)
