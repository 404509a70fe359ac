"""The Pods of a node by class: those that run, those that its usage shows, how old they are and how long they live."""

import collections
from collections.abc import Collection, Mapping, Sequence

from carico_core.numerics.estimators import base, counts, footprint_constants, lives, profile

# Classes held by a node: more than it can tell apart; the one that ran least recently gives way.
CLASSES_HELD = 16


class Population:
    """A filtered count per class, behind the start lag."""

    __slots__ = (
        "_classes", "_constants", "_counts", "_dimensions", "_followed", "_new_s", "_pod_limit", "_profiles",
        "_running", "_ticked_once", "lives",
    )  # fmt: skip

    def __init__(
        self, config: base.EstimatorConfig, constants: footprint_constants.FootprintConstants, *, growing: Sequence[int]
    ) -> None:
        """growing: the dimensions in which what a Pod takes depends on its age."""
        self._constants = constants
        self._dimensions = len(config.dims)
        self._pod_limit = config.pod_limit
        self.lives = lives.Lives()
        # Classes held, the one that ran least recently first.
        self._classes: collections.OrderedDict[str, counts.FilteredCount] = collections.OrderedDict()
        self._counts: collections.Counter[str] = collections.Counter()
        self._running = 0
        # Per growing dimension the Pods of each class by age, as the filter shows them.
        self._profiles: dict[int, dict[str, list[float]]] = {index: {} for index in growing}
        # Whether classes are told; until they are, all Pods are of one.
        self._followed = False
        self._ticked_once = False
        # How long ago a class came that had not run here; before any has, so long that it is of no account.
        self._new_s = constants.eager_s

    @property
    def classes(self) -> Collection[str]:
        """The classes held, the one that ran least recently first."""
        return self._classes.keys()

    @property
    def running(self) -> Mapping[str, int]:
        """Running Pods by class, as last heard of."""
        return self._counts

    @property
    def eager(self) -> bool:
        """Whether one class alone has run here, and for so short a time that a few samples tell much.

        Of two that come together a few samples cannot say which of them uses what: 12 Pods a core went to one node.
        """
        return self._new_s < self._constants.eager_s and len(self._counts) == 1

    def follow(self, running: Mapping[str, str]) -> None:
        """Which workload Pods run now (UID to class), at each change."""
        self._followed = True
        self._take(running if self._constants.by_class else dict.fromkeys(running, base.ALL_PODS))

    def count(self, pods: int) -> bool:
        """Whether what runs has changed: without word of classes the count is all there is, every Pod of one class."""
        if self._followed:
            return False
        wanted = min(max(pods, 0), self._pod_limit)
        if wanted == self._running:
            return False
        self._take({f"#{number}": base.ALL_PODS for number in range(wanted)})
        return True

    def counted(self, pods: int) -> Mapping[str, int]:
        """Running Pods by class, of `pods` in all where classes are not told."""
        return self._counts if self._followed else {base.ALL_PODS: min(max(pods, 0), self._pod_limit)}

    def tick(self, gains: list[float], dt_s: float) -> None:
        """Step 1: take each class's count through each dimension's filter, at the sample's own gains in [0, 1]."""
        for name, count in self._classes.items():
            count.tick(gains, float(self._counts[name]), dt_s)
        self._age(gains)
        self.lives.tick(dt_s)
        self._new_s += dt_s
        self._ticked_once = True

    def shown(self, index: int) -> dict[str, float]:
        """Pods of each class as the usage of a dimension shows them."""
        return {name: count.value(index) for name, count in self._classes.items()}

    def shown_by_part(self, index: int) -> dict[str, list[float]]:
        """Pods of each class as a dimension in which they grow shows them, by part."""
        return {name: [self._classes[name].value(index), *parts[1:]] for name, parts in self._profiles[index].items()}

    def now_by_part(self, counted: Mapping[str, int]) -> dict[str, list[float]]:
        """Pods of each class as they are, by part."""
        return {name: [float(count), *self._behind(name)[1:]] for name, count in counted.items()}

    def _take(self, named: Mapping[str, str]) -> None:
        self.lives.follow(named)
        self._counts = self.lives.counts()
        self._running = len(named)
        for name in self._counts:
            if name not in self._classes:
                self._classes[name] = self._new_count()
                self._new_s = 0.0
            self._classes.move_to_end(name)
        self._drop_least_recent()

    def _age(self, gains: list[float]) -> None:
        """Take the Pods by age through the filter of each dimension that Pods hold."""
        for index, filtered in self._profiles.items():
            gain = gains[index]
            for name in self._classes:
                now, before = self._behind(name), filtered.get(name)
                if before is not None:
                    now = [was + gain * (part - was) for part, was in zip(now, before, strict=True)]
                filtered[name] = now

    def _behind(self, name: str) -> list[float]:
        """The running Pods of a class by age, which counts from when a program can have begun its work."""
        return profile.behind(self.lives.ages_s(name, since_s=self._constants.start_lag_s))

    def _new_count(self) -> counts.FilteredCount:
        made = counts.FilteredCount(self._dimensions, start_lag_s=self._constants.start_lag_s)
        if self._ticked_once:
            # The node is known: this class begins with none, so that its first Pods show as late as others do.
            made.tick([1.0] * self._dimensions, 0.0, 0.0)
        return made

    def _drop_least_recent(self) -> None:
        for name in [name for name in self._classes if not self._counts[name]]:
            if len(self._classes) <= CLASSES_HELD:
                return
            del self._classes[name]
            for filtered in self._profiles.values():
                filtered.pop(name, None)
            self.lives.forget(name)
