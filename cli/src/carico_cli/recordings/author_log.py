"""Parses the log of the dissertation's agent (basic_sched); computes nothing.

Each line is an event: `2025/05/21 21:26:53.739913 (metrics) cpu utilisation: 0.192308 ...`. The samples of its builds
differ (`sample_words`); a file is of one build. Estimates are logged with the cost as a negative number.
"""

import dataclasses
import datetime
import re
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from carico_cli.recordings import sample_words, trace
from carico_core.domain import errors, messages

NUMBER = r"(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
STAMP = re.compile(r"(\d{4})/(\d\d)/(\d\d) (\d\d):(\d\d):(\d\d)(\.\d{6}) ")
STAMP_EXAMPLE = "'2025/05/21 21:26:53.739913 (metrics) ...'"
# Goroutines stamp a line before they write it: in the published logs, lines are out of order by up to 2 ms.
DISORDER_S = 0.05
# More than any node runs: a larger count is a broken line.
PODS_MOST = 10_000
USAGE = re.compile(rf"\(signal\) y: \[{NUMBER} {NUMBER}\]")
DIRECTION = re.compile(rf"\(signal\) U: \[\]float64\{{{NUMBER}, {NUMBER}\}}")
LEVEL = re.compile(rf"\((?:calc-signal|remote)\) signal = {NUMBER}")
PODS = re.compile(rf"\(capacity\) podCount = {NUMBER}")
DUAL = re.compile(rf"\(two-kalman-1d\) capacity: {NUMBER} cost: {NUMBER}")
JOINT = re.compile(rf"\(kalman-2d\) capacity: {NUMBER} cost: {NUMBER}")
DELTA = re.compile(rf"\(kalman-1d\) cost: {NUMBER}")
PUBLISHED = re.compile(rf"\(capacity\) capacity: {NUMBER} \| cost: {NUMBER}")
API = re.compile(r"\(api\) (\S+) (running on this node|terminated)\s*$")
CONTAINER = re.compile(r"\(cache\) received an event: \{containerID:(\w+) podID:([\w-]+) topic:([0-3])\}")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ContainerEvent:
    """topic: 0 created, 1 task started, 2 task exited, 3 task deleted."""

    at_s: float
    container: str
    pod: str
    topic: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AuthorLog:
    """One log. Times are Unix seconds.

    raw: (n, columns), in the log's units. pod_counts: (time, Pods). api: of the build that also watched the API.
    """

    columns: tuple[str, ...]
    times_s: messages.Array
    raw: messages.Array
    evaluations: list[trace.Evaluation]
    containers: list[ContainerEvent]
    api: list[trace.ApiEvent]
    pod_counts: list[tuple[float, int]]


def numbers(match: re.Match[str]) -> messages.Array:
    """Return all groups of a match as numbers (n,)."""
    return np.array([float(group) for group in match.groups()])


def parse(lines: Iterable[str], *, name: str = "log") -> AuthorLog:
    """Return the log. Raises `RecordingError` with the line that cannot be parsed."""
    parser = _Parser(name)
    for line in lines:
        parser.take(line)
    return parser.finish()


class _Parser:
    """Takes lines one by one; a line's tag selects the method that reads it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._number = 0
        self._newest_s = -np.inf
        self._second = ("", 0.0)
        self._columns: tuple[str, ...] = ()
        self._open: _Sample | None = None
        self._lines_each = 1
        self._times: list[float] = []
        self._raw: list[list[float]] = []
        self._evaluations: list[_Open] = []
        self._containers: list[ContainerEvent] = []
        self._api: list[trace.ApiEvent] = []
        self._counts: list[tuple[float, int]] = []
        self._usage = np.empty(0)
        self._readers: Mapping[str, Callable[[str, float], None]] = {
            "(metrics)": self._sample, "(signal)": self._signal, "(calc-signal)": self._estimate,
            "(remote)": self._estimate, "(capacity)": self._capacity, "(two-kalman-1d)": self._estimate,
            "(kalman-2d)": self._estimate, "(kalman-1d)": self._estimate, "(cache)": self._container,
            "(api)": self._api_event,
        }  # fmt: skip

    def take(self, line: str) -> None:
        self._number += 1
        found = STAMP.match(line)
        if found is None:
            raise self._error(shown(line), f"a line such as {STAMP_EXAMPLE}")
        at_s = self._time(found, line)
        if at_s < self._newest_s - DISORDER_S:
            raise self._error(
                f"{line[:26]}, {self._newest_s - at_s:.3f} s before an earlier line",
                f"times in order (to {DISORDER_S * 1e3:.0f} ms)",
            )
        self._newest_s = max(self._newest_s, at_s)
        read = self._readers.get(line[found.end() :].split(" ", 1)[0].rstrip())
        if read is not None:
            read(line, at_s)

    def finish(self) -> AuthorLog:
        last = self._open
        # A log may end between two lines of a sample.
        if last is not None and not (last.lines < self._lines_each and set(last.values) < set(self._columns)):
            self._close(last)
        if not self._times:
            raise errors.RecordingError(
                self._name,
                f"line {self._number}" if self._number else "line 1",
                got=f"the end, after {self._number} lines without a (metrics) sample",
                expected=f"lines such as {STAMP_EXAMPLE}",
            )
        return AuthorLog(
            columns=self._columns,
            times_s=np.array(self._times),
            raw=np.array(self._raw),
            evaluations=[found.closed() for found in self._evaluations],
            containers=self._containers,
            api=self._api,
            pod_counts=self._counts,
        )

    def _time(self, found: re.Match[str], line: str) -> float:
        # Ten lines and more share a second: its date is parsed once.
        if self._second[0] != line[:19]:
            year, month, day, hour, minute, second_of_minute = map(int, found.groups()[:6])
            try:
                second = datetime.datetime(year, month, day, hour, minute, second_of_minute, tzinfo=datetime.UTC)
            except ValueError as error:
                raise self._error(f"{line[:26]} ({error})", "a date and a time of day") from None
            self._second = (line[:19], second.timestamp())
        return self._second[1] + float(found[7])

    def _sample(self, line: str, at_s: float) -> None:
        found = sample_words.columns(line[27:].removeprefix("(metrics)"))
        if found is None:
            raise self._error(shown(line[27:]), f"a (metrics) sample such as {' or '.join(sample_words.EXAMPLES)}")
        if not sample_words.are_shares(found):
            raise self._error(shown(line[27:]), "utilisation as a share from 0 to 1, not in percent")
        now = self._open
        # A build may write each resource on a line of its own.
        if now is not None and at_s - now.at_s < DISORDER_S and now.values.keys().isdisjoint(found):
            now.values.update(found)
            now.lines += 1
            return
        if now is not None:
            self._close(now)
        self._open = _Sample(at_s=at_s, number=self._number, line=line, values=found)

    def _close(self, sample: "_Sample") -> None:
        names = sample_words.ordered(sample.values)
        if not self._columns:
            if sample_words.cpu(names) is None:
                raise self._error_at(sample, "a (metrics) sample with the CPU's utilisation or pressure")
            self._columns = names
        if names != self._columns:
            raise self._error_at(sample, f"{', '.join(self._columns)} in each (metrics) sample, as in the first")
        self._lines_each = max(self._lines_each, sample.lines)
        self._times.append(sample.at_s)
        self._raw.append([sample.values[name] for name in names])

    def _signal(self, line: str, at_s: float) -> None:
        said = line[27:]
        if found := USAGE.match(said):
            self._usage = numbers(found)
        elif found := DIRECTION.match(said):
            if not self._usage.size:
                raise self._error("(signal) U without a (signal) y before it", "y, then U")
            self._evaluations.append(_Open(at_s=at_s, usage=self._usage, direction=numbers(found)))
            self._usage = np.empty(0)
        elif said.startswith(("(signal) y:", "(signal) U:")):
            # An estimate of earlier usage, or none, would be compared with the log's.
            raise self._error(shown(said), "two numbers, as in 'y: [0.1 0.05]' and 'U: []float64{0.9, 0.45}'")

    def _capacity(self, line: str, at_s: float) -> None:
        if found := PODS.search(line):
            count = float(found[1])
            if not 0.0 <= count <= PODS_MOST:
                raise self._error(f"podCount = {found[1]}", f"0 to {PODS_MOST} Pods")
            self._counts.append((at_s, int(count)))
            if self._evaluations:
                self._evaluations[-1].pods = int(count)
        else:
            self._estimate(line, at_s)

    def _estimate(self, line: str, _: float) -> None:
        if self._evaluations:
            self._evaluations[-1].take(line)

    def _container(self, line: str, at_s: float) -> None:
        if found := CONTAINER.search(line):
            event = ContainerEvent(at_s=at_s, container=found[1], pod=found[2], topic=int(found[3]))
            self._containers.append(event)

    def _api_event(self, line: str, at_s: float) -> None:
        if found := API.search(line):
            self._api.append(trace.ApiEvent(at_s=at_s, pod=found[1], running=found[2] != "terminated"))

    def _error(self, got: str, expected: str) -> errors.RecordingError:
        return errors.RecordingError(self._name, f"line {self._number}", got=got, expected=expected)

    def _error_at(self, sample: "_Sample", expected: str) -> errors.RecordingError:
        got = shown(sample.line[27:])
        return errors.RecordingError(self._name, f"line {sample.number}", got=got, expected=expected)


@dataclasses.dataclass(slots=True, kw_only=True)
class _Sample:
    """A sample of which further lines may follow. number, line: its first line."""

    at_s: float
    number: int
    line: str
    values: dict[str, float]
    lines: int = 1


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class _Open:
    """An evaluation of which further lines may follow."""

    at_s: float
    usage: messages.Array
    direction: messages.Array
    level: float | None = None
    pods: int | None = None
    learnt: dict[str, trace.Learnt] = dataclasses.field(default_factory=dict)

    def take(self, line: str) -> None:
        if found := LEVEL.search(line):
            self.level = float(found[1])
        elif found := DELTA.search(line):
            self.learnt["delta"] = trace.Learnt(cost=-float(found[1]))
        else:
            for name, pattern in (("dual", DUAL), ("joint", JOINT), (trace.PUBLISHED, PUBLISHED)):
                if found := pattern.search(line):
                    self.learnt[name] = trace.Learnt(baseline=float(found[1]), cost=-float(found[2]))

    def closed(self) -> trace.Evaluation:
        return trace.Evaluation(
            at_s=self.at_s,
            usage=self.usage,
            direction=self.direction,
            level=self.level,
            pods=self.pods,
            learnt=self.learnt,
        )


def shown(text: str) -> str:
    """Return the beginning of a line, for an error message."""
    line = repr(text.rstrip("\r\n"))
    return line if len(line) <= 70 else f"{line[:70]}...'"
