"""What each Pod asks of a node, and the API's other objects that change it: DaemonSets, Services, namespaces. Pure."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Set

from carico_core.domain import cluster
from carico_core.domain import constraints as limits
from carico_scheduler.gangs import table as gang_table
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import pod_terms
from carico_scheduler.pods import queue as queues
from carico_scheduler.pods import record as records
from carico_scheduler.rules import admission, default_spread
from carico_scheduler.state import node_state, placements


class PodDemands:
    """The demands of all Pods; a change of what they depend on renews those of the Pods that wait."""

    def __init__(
        self, nodes: node_state.NodeState, known: records.Records, placed: placements.Placements, *,
        baseline: admission.Baseline, gangs: gang_table.Gangs, on_change: Callable[[], None],
    ) -> None:  # fmt: skip
        """`on_change` is called when demands have changed that may decide which scheduler a Pod belongs to."""
        self._nodes = nodes
        self._records = known
        self._placements = placed
        self._baseline = baseline
        self._gangs = gangs
        self._on_change = on_change
        self._policy = nodes.fleet.policy
        known_pods = nodes.fleet.pod_counts
        self._anti_affinity = pod_terms.TermIndex(known_pods, pod_terms.anti_affinity_of, pod_terms.Shared())
        self._preferences = pod_terms.TermIndex(known_pods, pod_terms.preferences_of, pod_terms.oldest)
        self._default_spread = default_spread.DefaultSpread(is_on=self._policy.default_spread)

    def of(self, pod: cluster.Pod) -> demands.Demand:
        """Return what the Pod asks of a node, and what other Pods' terms ask of it."""
        found = self._default_spread.constraints_of(pod)
        if found is not pod.constraints:
            pod = pod._replace(constraints=found)
        return demands.demand_of(
            pod, repelled_by=self._anti_affinity.of(pod), preferred_by=self._preferences.of(pod),
            is_baseline=self._baseline.includes(pod), gang=self._gangs.key_of(pod),
            profile=self._policy.profiles.get(pod.scheduler_name),
        )  # fmt: skip

    def is_alone(self, pod: cluster.Pod) -> bool:
        """Return what `Demand.is_alone` is of the Pod's demand, in an eighth of the time."""
        is_limited = demands.is_limited_by_peers(pod.constraints, self._anti_affinity.of(pod))
        return self._gangs.key_of(pod) is None and not is_limited

    def add_pod(self, pod: cluster.Pod, now_s: float) -> None:
        """Take in the terms of a Pod that is new."""
        repelling, preferring = self._anti_affinity.add(pod), self._preferences.add(pod)
        if repelling:
            self._on_change()
        terms = [*repelling, *preferring]
        for waiting in self._may_select(terms) if terms else ():
            if self._preferences.selects(terms, waiting.pod):
                self._nodes.queue.offer(waiting.pod, now_s)

    def remove_pod(self, pod: cluster.Pod) -> None:
        """Forget the terms of a Pod."""
        self._preferences.remove(pod)
        if self._anti_affinity.remove(pod):
            self._on_change()

    def put_daemon_sets(self, found: Iterable[cluster.DaemonSet], now_s: float) -> None:
        """Take in the list of all DaemonSets."""
        if self._baseline.put_all(found):
            self._renew_daemons(now_s)

    def put_daemon_set(self, found: cluster.DaemonSet, now_s: float) -> None:
        """Take in a DaemonSet: from now on Pods that name it belong to their node."""
        if self._baseline.put(found):
            self._renew_daemons(now_s)

    def remove_daemon_set(self, uid: str, now_s: float) -> None:
        """Forget a DaemonSet: from now on Pods that still name it are workloads."""
        if self._baseline.remove(uid):
            self._renew_daemons(now_s)

    def put_services(self, found: Iterable[cluster.Service], now_s: float) -> None:
        """Take in the list of all Services, whose Pods may be spread by default."""
        if self._default_spread.put_all(found):
            self._renew(now_s)

    def put_service(self, found: cluster.Service, now_s: float) -> None:
        """Take in a Service."""
        if self._default_spread.put(found):
            self._renew(now_s, namespaces={found.namespace})

    def remove_service(self, namespace: str, name: str, now_s: float) -> None:
        """Forget a Service."""
        if self._default_spread.remove(namespace, name):
            self._renew(now_s, namespaces={namespace})

    def put_namespaces(self, labels: Mapping[str, Mapping[str, str]], now_s: float) -> None:
        """Take in the labels of all namespaces, by which some terms select Pods."""
        changed, has_pods = self._nodes.fleet.pod_counts.put_namespaces(labels)
        if not changed:
            return
        self._renew(now_s, namespaces=changed)

        def may_help(demand: demands.Demand) -> bool:
            is_own = demand.constraints is not None and demand.constraints.namespace in changed
            # A namespace without Pods, such as a new one, changes nothing for the Pods of others.
            return demand.is_limited_by_peers and (has_pods or is_own)

        self._nodes.queue.unpark_if(may_help)

    def put_namespace(self, name: str, labels: Mapping[str, str], now_s: float) -> None:
        """Take in the labels of one namespace."""
        self.put_namespaces({**self._nodes.fleet.pod_counts.namespaces, name: labels}, now_s)

    def remove_namespace(self, name: str, now_s: float) -> None:
        """Forget a namespace."""
        known = self._nodes.fleet.pod_counts.namespaces
        self.put_namespaces({key: value for key, value in known.items() if key != name}, now_s)

    def note_namespaces(self, lacking: str | None, now_s: float) -> None:
        """Note why the labels of namespaces are not known; None: they are."""
        if self._nodes.fleet.pod_counts.lacking != lacking:
            self._nodes.fleet.pod_counts.lacking = lacking
            self._renew(now_s)
            self._nodes.queue.unpark_if(lambda demand: demand.is_limited_by_peers)

    def _may_select(self, terms: Iterable[limits.PodTerm]) -> Iterable[queues.Waiting]:
        """Return the waiting Pods that terms may select: with thousands of terms, not all of them for each."""
        labels = [pod_terms.labels_of(each) for each in terms]
        known = [each for each in labels if each is not None]
        if len(known) < len(labels):
            return self._nodes.queue
        return self._nodes.queue.labelled(itertools.chain.from_iterable(known))

    def _renew_daemons(self, now_s: float) -> None:
        """Compute the bookings and demands of DaemonSets' Pods again: the set of DaemonSets has changed."""
        for record in list(self._records):
            if record.pod is None or not record.pod.claims_daemon_set:
                continue
            if record.booking is not None:
                self._placements.place(record, record.pod, record.booking.node, now_s)
            elif record.uid in self._nodes.queue:
                self._nodes.queue.offer(record.pod, now_s)

    def _renew(self, now_s: float, *, namespaces: Set[str] | None = None) -> None:
        """Compute the demands of waiting Pods again, or of those of some namespaces: terms match other Pods now."""
        self._on_change()
        for waiting in self._nodes.queue:
            if namespaces is None or waiting.pod.namespace in namespaces:
                self._nodes.queue.offer(waiting.pod, now_s)
