"""The Pods of a node by class: those that run, those that usage shows, their ages and their lifetimes."""

import bisect
import collections
import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence

from carico_core.numerics.estimators import base
from carico_core.numerics.estimators.footprint import footprint_constants, growth

# Distinct starts that can be pending at once: at 10 Hz and a lag of 1.5 s there are fifteen. Further ones join the
# last, so the state has a fixed size.
SLOTS = 16


class FilteredCount:
    """x_i: the Pod count with the same lag and gains as the usage of dimension i.

    A Pod counts from its container's start, but uses nothing until its program runs (`start_lag_s` later); an end
    shows at once. Without this, a filtered usage would be compared with an unfiltered count, and costs would be learnt
    too low in every ramp.
    """

    __slots__ = ("_clock_s", "_hidden", "_pods", "_starts", "_values", "start_lag_s")

    def __init__(self, dimensions: int, *, start_lag_s: float) -> None:
        self.start_lag_s = start_lag_s
        self._values = [0.0] * dimensions
        self._pods = -1.0
        # Pending starts, the earliest first: when they are due, and how many Pods; and the sum of these Pods.
        self._starts: list[tuple[float, float]] = []
        self._hidden = 0.0
        # Advances while starts are pending.
        self._clock_s = 0.0

    def value(self, index: int) -> float:
        """Return x of one dimension."""
        return self._values[index]

    def tick(self, gains: Sequence[float], pods: float, dt_s: float) -> None:
        """Advance by one sample with the filter's gains in [0, 1]; the first count passes unfiltered."""
        before = self._pods
        if before < 0.0:
            self._pods = pods
            self._values = [pods] * len(self._values)
            return
        visible = self._visible(pods, dt_s) if self._starts or pods != before else pods
        values = self._values
        for index, gain in enumerate(gains):
            # x_i <- x_i + alpha_i (n - x_i), alpha_i as the usage of dimension i used it
            values[index] += gain * (visible - values[index])

    def _visible(self, pods: float, dt_s: float) -> float:
        if self._starts:
            self._clock_s += dt_s
            due_s = self._clock_s + DUE_EPSILON_S
            if self._starts[0][0] <= due_s:
                self._set_pending([start for start in self._starts if start[0] > due_s])
        grown = pods - self._pods
        self._pods = pods
        if grown > 0.0 and self.start_lag_s > 0.0:
            self._add_start(grown)
        return pods - self._hidden if pods > self._hidden else 0.0

    def _add_start(self, grown: float) -> None:
        starts = self._starts
        if len(starts) == SLOTS:
            grown += starts.pop()[1]
        if not starts:
            self._clock_s = 0.0
        bisect.insort(starts, (self._clock_s + self.start_lag_s, grown))
        self._set_pending(starts)

    def _set_pending(self, starts: list[tuple[float, float]]) -> None:
        self._starts = starts
        self._hidden = sum([pods for _, pods in starts], 0.0)


# Samples come about every 0.1 s: half a millisecond early is on time.
DUE_EPSILON_S = 5e-4


# Lifetimes kept per class, and how many are needed.
KEPT = 48
ENOUGH = 3


@dataclasses.dataclass(slots=True, eq=False)
class _Ended:
    """The last lifetimes of a class."""

    lifetimes_s: collections.deque[float] = dataclasses.field(default_factory=lambda: collections.deque(maxlen=KEPT))
    # The longest of them, once enough are known.
    longest_s: float | None = None

    def add(self, life_s: float) -> None:
        """Add the lifetime of one more Pod that has ended."""
        self.lifetimes_s.append(life_s)
        if len(self.lifetimes_s) >= ENOUGH:
            self.longest_s = max(self.lifetimes_s)


class Lifetimes:
    """Ages of the running Pods, and the last lifetimes of each class."""

    __slots__ = ("_ended", "_now_s", "_running", "_starts_s")

    def __init__(self) -> None:
        # Time since the first tick; a Pod's age is the difference to the time of its start.
        self._now_s = 0.0
        # uid -> (class, time at its start)
        self._running: dict[str, tuple[str, float]] = {}
        # The same starts by class, earliest first: each sample asks for the ages of every class.
        self._starts_s: dict[str, list[float]] = {}
        self._ended: dict[str, _Ended] = {}

    def tick(self, dt_s: float) -> None:
        """Advance by one sample."""
        self._now_s += dt_s

    def follow(self, running: Mapping[str, str]) -> None:
        """Take in which Pods run now (UID to class); those that are missing have ended."""
        for uid in [uid for uid in self._running if uid not in running]:
            name, started_s = self._running.pop(uid)
            # How old those were that ran before the first sample is not known.
            if started_s > 0.0:
                self._ended.setdefault(name, _Ended()).add(self._now_s - started_s)
        for uid, name in running.items():
            held = self._running.get(uid)
            if held is None:
                self._running[uid] = (name, self._now_s)
            elif held[0] != name:
                # Its class has become known.
                self._running[uid] = (name, held[1])
        self._starts_s = {}
        for name, started_s in self._running.values():
            self._starts_s.setdefault(name, []).append(started_s)

    def forget(self, name: str) -> None:
        """Forget the lifetimes of a class."""
        self._ended.pop(name, None)

    def counts(self) -> collections.Counter[str]:
        """Return the running Pods by class."""
        return collections.Counter({name: len(starts_s) for name, starts_s in self._starts_s.items()})

    def ages_s(self, name: str, *, since_s: float = 0.0) -> list[float]:
        """Return the ages of the running Pods of a class, oldest first, counted from `since_s` after their starts."""
        now_s = self._now_s
        return [now_s - started_s - since_s for started_s in self._starts_s.get(name, ())]

    def is_known(self, name: str) -> bool:
        """Return whether enough Pods of a class have ended to know its lifetimes."""
        ended = self._ended.get(name)
        return ended is not None and ended.longest_s is not None

    def longest_s(self, name: str) -> float:
        """Return the longest of the last lifetimes of a class; growth.UNKNOWN_LIFE_S until enough are known.

        Up to that, the age of its oldest running Pod counts as well: three failed starts of one Pod of a rollout do not
        show that those that run will soon end, and until they end, only their age is known.
        """
        ended = self._ended.get(name)
        if ended is None or ended.longest_s is None:
            return growth.UNKNOWN_LIFE_S
        if ended.longest_s >= growth.UNKNOWN_LIFE_S:
            return ended.longest_s
        return max(ended.longest_s, min(self._oldest_s(name), growth.UNKNOWN_LIFE_S))

    def _oldest_s(self, name: str) -> float:
        """Return the age of the oldest running Pod of a class, infinity if it is not known; 0 if none runs."""
        started_s = next(iter(self._starts_s.get(name, ())), self._now_s)
        return self._now_s - started_s if started_s > 0.0 else math.inf

    def means_s(self) -> dict[str, base.Evidence]:
        """Return the mean lifetime (mean, variance) of each class that runs here and of which enough have ended.

        The maximum likelihood of exponential lifetimes: the time that all have run, by the number that have ended
        (Lawless, Statistical Models and Methods for Lifetime Data, 2003, section 4.1). Those that still run count, or a
        class that was rolled out three times in an hour and has run for weeks since would seem to live for minutes.
        """
        # m = (sum of lifetimes + sum of ages) / n;   variance = m^2 / n
        found = {}
        for name in self._starts_s:
            if self.is_known(name):
                lifetimes_s = self._ended[name].lifetimes_s
                mean_s = (sum(lifetimes_s) + sum(self.ages_s(name))) / len(lifetimes_s)
                found[name] = (mean_s, mean_s**2 / len(lifetimes_s))
        return found


# Maximum number of classes on a node, more than it can distinguish; the least recently run one is evicted.
CLASSES_HELD = 16


class Population:
    """A filtered count per class, with the start lag."""

    __slots__ = (
        "_classes", "_constants", "_counts", "_dimensions", "_followed", "_new_s", "_pod_limit", "_profiles",
        "_running", "_ticked_once", "lifetimes",
    )  # fmt: skip

    def __init__(
        self, config: base.EstimatorConfig, constants: footprint_constants.FootprintConstants, *, growing: Sequence[int]
    ) -> None:
        """growing: the dimensions in which a Pod's cost depends on its age."""
        self._constants = constants
        self._dimensions = len(config.dims)
        self._pod_limit = config.pod_limit
        self.lifetimes = Lifetimes()
        # The least recently run class first.
        self._classes: collections.OrderedDict[str, FilteredCount] = collections.OrderedDict()
        self._counts: collections.Counter[str] = collections.Counter()
        self._running = 0
        # Per growing dimension, the filtered Pods of each class by age.
        self._profiles: dict[int, dict[str, list[float]]] = {index: {} for index in growing}
        # Whether classes are known; otherwise all Pods are of one class.
        self._followed = False
        self._ticked_once = False
        # Time since a new class appeared here; it starts past the threshold, so it has no effect at first.
        self._new_s = constants.eager_s

    @property
    def classes(self) -> Collection[str]:
        """The classes, the least recently run one first."""
        return self._classes.keys()

    @property
    def running(self) -> Mapping[str, int]:
        """Running Pods by class, as last reported."""
        return self._counts

    @property
    def eager(self) -> bool:
        """Whether only one class has run here, for so short a time that a few samples add much.

        A few samples cannot distinguish two classes that start together: one node received 12 Pods per core.
        """
        return self._new_s < self._constants.eager_s and len(self._counts) == 1

    def follow(self, running: Mapping[str, str]) -> None:
        """Take in which workload Pods run now (UID to class), after each change."""
        self._followed = True
        self._take(running if self._constants.by_class else dict.fromkeys(running, base.ALL_PODS))

    def count(self, pods: int) -> bool:
        """Take in the Pod count; return whether it changed. Once classes are known (`follow`), it is ignored."""
        if self._followed:
            return False
        wanted = min(max(pods, 0), self._pod_limit)
        if wanted == self._running:
            return False
        self._take({f"#{number}": base.ALL_PODS for number in range(wanted)})
        return True

    def counted(self, pods: int) -> Mapping[str, int]:
        """Return the running Pods by class; `pods` of one class if classes are not known."""
        return self._counts if self._followed else {base.ALL_PODS: min(max(pods, 0), self._pod_limit)}

    def tick(self, gains: Sequence[float], dt_s: float) -> None:
        """Filter the Pod count of each class in each dimension, with the sample's own gains in [0, 1]."""
        for name, count in self._classes.items():
            count.tick(gains, float(self._counts[name]), dt_s)
        self._age(gains)
        self.lifetimes.tick(dt_s)
        self._new_s += dt_s
        self._ticked_once = True

    def longest_lives_s(self) -> dict[str, float]:
        """Return the longest of the last lifetimes of each class (`Lifetimes.longest_s`)."""
        return {name: self.lifetimes.longest_s(name) for name in self._classes}

    def shown(self, index: int) -> dict[str, float]:
        """Return the Pods of each class as the usage of a dimension shows them."""
        return {name: count.value(index) for name, count in self._classes.items()}

    def shown_by_part(self, index: int) -> dict[str, list[float]]:
        """Return the Pods of each class by part, as the usage of a growing dimension shows them."""
        return {name: [self._classes[name].value(index), *parts[1:]] for name, parts in self._profiles[index].items()}

    def now_by_part(self, counted: Mapping[str, int]) -> dict[str, list[float]]:
        """Return the Pods of each class by part, unfiltered."""
        return {name: [float(count), *self._behind(name)[1:]] for name, count in counted.items()}

    def _take(self, named: Mapping[str, str]) -> None:
        self.lifetimes.follow(named)
        self._counts = self.lifetimes.counts()
        self._running = len(named)
        for name in self._counts:
            if name not in self._classes:
                self._classes[name] = self._new_count()
                self._new_s = 0.0
            self._classes.move_to_end(name)
        self._drop_least_recent()

    def _age(self, gains: Sequence[float]) -> None:
        """Filter the Pods by age in each growing dimension."""
        for index, filtered in self._profiles.items():
            gain = gains[index]
            for name in self._classes:
                now, before = self._behind(name), filtered.get(name)
                if before is not None:
                    now = [was + gain * (part - was) for part, was in zip(now, before, strict=True)]
                filtered[name] = now

    def _behind(self, name: str) -> list[float]:
        """Return the running Pods of a class by age, counted from when their programs can have started."""
        return growth.behind(self.lifetimes.ages_s(name, since_s=self._constants.start_lag_s))

    def _new_count(self) -> FilteredCount:
        made = FilteredCount(self._dimensions, start_lag_s=self._constants.start_lag_s)
        if self._ticked_once:
            # The node has samples already: this class starts from 0 Pods, so its first Pods show with the usual lag.
            made.tick([1.0] * self._dimensions, 0.0, 0.0)
        return made

    def _drop_least_recent(self) -> None:
        for name in [name for name in self._classes if not self._counts[name]]:
            if len(self._classes) <= CLASSES_HELD:
                return
            del self._classes[name]
            for filtered in self._profiles.values():
                filtered.pop(name, None)
            self.lifetimes.forget(name)
