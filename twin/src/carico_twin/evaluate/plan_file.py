"""A user's scenario from a TOML file: nodes, jobs, link, neighbours. A mistake is reported in one line with its path.

docs/evaluation.md shows a complete file.
"""

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from carico_twin import catalogue, scenario, virtual_time
from carico_twin.evaluate import file_mistake
from carico_twin.nodes import machine
from carico_twin.nodes import work as works

KINDS: Mapping[str, works.Work] = {
    each.name: each
    for each in (
        works.PI, works.SKLEARN, works.HOLDS_MEMORY, works.GROWS_MEMORY, works.QUARTER_CORE, works.FOUR_THREADS,
        works.SERVER, works.LIMITED, *works.WAITING,
    )
}  # fmt: skip
_MOST_NODES = 5000
_MOST_PODS = 100_000
# More than any node has, and small enough that sums stay finite.
_MOST_GIB = 1e6
# The maximum of a Kubernetes label; names are in the first column of the tables.
_NAME_MAX = 63

_PLAN_KEYS = ("name", "nodes", "jobs", "link", "neighbours", "dead_agents", "oom_kills", "limit_s")
_NODE_KEYS = ("count", "cores", "memory_gib", "full_speed", "used_gib", "join_at_s")
_JOB_KEYS = ("work", "name", "pods", "at_s", "create_per_s", "request_cores", "request_gib")
_WORK_KEYS = ("cpu_s", "lifetime_s", "threads", "memory_gib", "ramp_s", "limit_cores", "spread")
_LINK_KEYS = ("delay_s", "loss")
_NEIGHBOUR_KEYS = ("node", "tasks", "at_s", "until_s")


class PlanError(file_mistake.FileMistake):
    """A scenario file that cannot be run."""


class _Table(file_mistake.Section):
    """A TOML table with its allowed keys.

    Unknown keys are reported first: an unknown key may be a misspelt required one.
    """

    kind = "a table"
    mistake = PlanError

    def __init__(self, file: str, path: str, values: object, keys: tuple[str, ...]) -> None:
        super().__init__(file, path, values)
        self._keys = keys
        for key in self.values:
            if key not in keys:
                raise self.wrong(self.at(key), key, f"one of {', '.join(keys)}")

    def instant(self, key: str, limit_s: float) -> float:
        """Return virtual seconds before limit_s, 0 by default."""
        at_s = self.number(key, 0.0)
        if at_s >= limit_s:
            raise self.wrong(self.at(key), at_s, f"less than limit_s, {limit_s:g}, at which the run is stopped")
        return at_s

    def text(self, key: str, default: str | None) -> str:
        value = self.take(key)
        value = default if value is None else value
        if not isinstance(value, str) or not 0 < len(value) <= _NAME_MAX or not value.isprintable():
            raise self.wrong(self.at(key), value, f"a name of 1 to {_NAME_MAX} printable characters")
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self.take(key)
        value = default if value is None else value
        if not isinstance(value, bool):
            raise self.wrong(self.at(key), value, "true or false")
        return value

    def table(self, key: str, keys: tuple[str, ...]) -> "_Table":
        value = self.take(key)
        return _Table(self.file, self.at(key), {} if value is None else value, keys)

    def tables(self, key: str, keys: tuple[str, ...]) -> Iterator["_Table"]:
        value = self.take(key)
        found = [] if value is None else value
        if not isinstance(found, list):
            raise self.wrong(self.at(key), found, f"tables ([[{key}]])")
        for index, each in enumerate(found):
            yield _Table(self.file, f"{self.at(key)}[{index}]", each, keys)

    def take(self, key: str) -> Any:
        assert key in self._keys, f"{key} is read, and refused as unknown"
        return super().take(key)


def read(file: str, content: bytes) -> scenario.Scenario:
    """Return the scenario that a file describes. Raises `PlanError`."""
    top = _Table(file, "", _parsed(file, content), _PLAN_KEYS)
    name = top.text("name", "plan")
    limit_s = top.number("limit_s", 900.0, least=1.0, most=86_400.0)
    nodes = [each for found in top.tables("nodes", _NODE_KEYS) for each in _nodes(found, limit_s)]
    hardware = tuple(made for made, _ in nodes)
    if not hardware:
        raise PlanError(file, "nodes", got=[], expected="at least one [[nodes]] table")
    if len(hardware) > _MOST_NODES:
        raise PlanError(file, "nodes", got=len(hardware), expected=f"at most {_MOST_NODES} nodes")
    jobs = tuple(_job(found, hardware, limit_s) for found in top.tables("jobs", _JOB_KEYS))
    _check_jobs(file, jobs)
    link = _link(top.table("link", _LINK_KEYS))
    neighbours = tuple(_neighbour(found, len(hardware), limit_s) for found in top.tables("neighbours", _NEIGHBOUR_KEYS))
    return scenario.Scenario(
        name=name, hardware=hardware, jobs=jobs, link=link, neighbours=neighbours,
        dead_agents=top.number("dead_agents", 0.0, most=1.0), limit_s=limit_s,
        nodes_join_at_s=tuple((index, join_s) for index, (_, join_s) in enumerate(nodes) if join_s > 0.0),
        oom_kills=top.flag("oom_kills", True),
    )  # fmt: skip


def _parsed(file: str, content: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise PlanError(file, f"byte {error.start}", got=content[error.start], expected="UTF-8") from error
    except RecursionError:
        raise PlanError(file, "file", got="too deeply nested arrays or tables", expected="TOML") from None
    except ValueError as error:
        # Not TOML, or an integer with more digits than Python reads.
        raise PlanError(file, "file", got=str(error), expected="TOML") from error


def _nodes(found: _Table, limit_s: float) -> tuple[tuple[machine.Hardware, float], ...]:
    """Return the nodes of a table, each with the time at which it joins."""
    count = found.whole("count", 1, least=1, most=_MOST_NODES)
    cores = found.number("cores", 4.0, least=0.1, most=4096.0)
    memory_gib = found.number("memory_gib", 2.0 * cores, least=0.1, most=_MOST_GIB)
    speed = found.number("full_speed", 1.0, least=0.1, most=1.0)
    used_gib = found.number("used_gib", min(0.5, memory_gib / 16.0))
    join_s = found.instant("join_at_s", limit_s)
    if used_gib >= memory_gib:
        raise found.wrong(found.at("used_gib"), used_gib, f"less than the node's memory_gib, {memory_gib:g}")
    made = machine.Hardware(
        cores=cores, memory_bytes=memory_gib * works.GIB, full_speed=speed, baseline_bytes=used_gib * works.GIB
    )
    return ((made, join_s),) * count


def _check_jobs(file: str, jobs: tuple[scenario.Job, ...]) -> None:
    names = [job.name for job in jobs]
    if not jobs:
        raise PlanError(file, "jobs", got=[], expected="at least one [[jobs]] table")
    for index, name in enumerate(names):
        if name in names[:index]:
            raise PlanError(file, f"jobs[{index}].name", got=name, expected="a name that no other job has")
    if all(job.work.lifetime_s is not None for job in jobs):
        raise PlanError(file, "jobs", got=names, expected="at least one job with cpu_s: servers alone never end")


def _job(found: _Table, hardware: tuple[machine.Hardware, ...], limit_s: float) -> scenario.Job:
    path = found.at("work")
    given = found.take("work")
    if not isinstance(given, str | dict):
        raise found.wrong(path, given, _EXPECTED_WORK)
    name = found.text("name", given if isinstance(given, str) else None)
    own = isinstance(given, dict)
    work = _own_work(_Table(found.file, path, given, _WORK_KEYS), name) if own else _known_work(found, str(given))
    _check_fits(found, work, hardware)
    cores, size = catalogue.EXACT.get(work.name, (work.most_threads, work.memory_bytes))
    job = scenario.Job(
        name=name,
        work=work,
        pods=found.whole("pods", least=1, most=_MOST_PODS),
        at_s=found.instant("at_s", limit_s),
        create_per_s=found.optional_number("create_per_s", least=1e-3, most=1e6),
        request_cores=found.number("request_cores", cores),
        request_bytes=found.number("request_gib", size / works.GIB, most=_MOST_GIB) * works.GIB,
    )
    _check_ends(found, job, limit_s)
    return job


_EXPECTED_WORK = f"one of {', '.join(KINDS)}, or a table"


def _known_work(found: _Table, name: str) -> works.Work:
    if name not in KINDS:
        raise found.wrong(found.at("work"), name, _EXPECTED_WORK)
    return KINDS[name]


def _own_work(found: _Table, name: str) -> works.Work:
    work_s, lifetime_s = found.optional_number("cpu_s", least=1e-3), found.optional_number("lifetime_s", least=1e-3)
    if (work_s is None) == (lifetime_s is None):
        got = "both" if work_s is not None else "neither"
        raise found.wrong(found.path, got, "either cpu_s or lifetime_s")
    return works.Work(
        name=name,
        cpu_s=work_s,
        lifetime_s=lifetime_s,
        threads=found.number("threads", 1.0, least=1e-3, most=4096.0),
        memory_bytes=found.number("memory_gib", 0.0, most=_MOST_GIB) * works.GIB,
        ramp_s=found.number("ramp_s", 0.0),
        limit_cores=found.optional_number("limit_cores", least=1e-3),
        spread=found.number("spread", 0.0, most=0.3),
    )


def _check_fits(found: _Table, work: works.Work, hardware: tuple[machine.Hardware, ...]) -> None:
    largest = max(each.memory_bytes - each.baseline_bytes for each in hardware)
    if work.memory_bytes > largest:
        raise found.wrong(
            f"{found.at('work')}.memory_gib", round(work.memory_bytes / works.GIB, 3),
            f"at most what is free on the largest node, {largest / works.GIB:g}",
        )  # fmt: skip


def _check_ends(found: _Table, job: scenario.Job, limit_s: float) -> None:
    """Check that each job can end in time. Raises `PlanError`. Servers need not end."""
    if job.work.cpu_s is None:
        return
    if job.create_per_s is not None and (last_s := job.at_s + (job.pods - 1) / job.create_per_s) >= limit_s:
        last = f"{job.pods} Pods created before limit_s, {limit_s:g} (the last one would be created at {last_s:g})"
        raise found.wrong(found.at("create_per_s"), job.create_per_s, last)
    if job.at_s + job.work.alone_s >= limit_s:
        alone = f"Pods that end before limit_s, {limit_s:g} (alone on a node one takes {job.work.alone_s:g} s)"
        raise found.wrong(found.at("work"), job.name, alone)


def _link(found: _Table) -> virtual_time.Link:
    return virtual_time.Link(
        delay_s=found.number("delay_s", virtual_time.Link().delay_s, most=60.0),
        loss=found.number("loss", 0.0, most=0.99),
    )


def _neighbour(found: _Table, nodes: int, limit_s: float) -> scenario.Neighbour:
    at_s = found.instant("at_s", limit_s)
    made = scenario.Neighbour(
        node=found.whole("node", least=0, most=nodes - 1),
        tasks=found.number("tasks", 1.0, least=1e-3, most=4096.0),
        at_s=at_s,
        until_s=found.number("until_s", at_s + 60.0),
    )
    if made.until_s <= made.at_s:
        raise found.wrong(found.at("until_s"), made.until_s, f"later than at_s, {at_s:g}")
    return made
