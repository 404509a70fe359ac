"""Checks what `carico reschedule --problem` wrote, without any of its code: from the definitions in the docs alone."""

import collections
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

# A sum of requests may exceed a capacity by rounding.
ROUNDING = 1e-7
RESOURCES = (("RequestCPU", "TotalCPU"), ("RequestMem", "TotalMem"))
Placement = dict[str, str]


class Checker:
    """The problem, by names."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        self._problem = problem
        self._service = {name: each for each in problem["ServiceList"] for name in each["ContainerList"]}
        self._machine = {each["MachineIP"]: each for each in problem["MachineList"]}
        self.before: Placement = {
            name: machine for machine, each in self._machine.items() for name in each["InitialDeployingContainers"]
        }

    def wrong(
        self, placed: Mapping[str, Sequence[str]], moves: Sequence[Sequence[str]], found: Mapping[str, Any],
        limit: int | None,
    ) -> Iterator[str]:  # fmt: skip
        """Yield what is wrong with a placement, the moves to it, and the figures that were printed."""
        after = {name: machine for machine, names in placed.items() for name in names}
        if sum(map(len, placed.values())) != len(after) or after.keys() != self.before.keys():
            yield "the placement does not have each container once"
            return
        yield from self._wrong_steps(moves, after)
        if limit is not None and len(moves) > limit:
            yield f"{len(moves)} moves, the limit is {limit}"
        claims = {
            "local_before": self.local(self.before), "local_after": self.local(after), "steps": len(moves),
            "moved": self._moved(after), "containers": len(after),
        }  # fmt: skip
        for name, value in claims.items():
            if abs(found[name] - value) > 1e-9:
                yield f"{name}: printed {found[name]}, it is {value}"
        if self.local(after) < self.local(self.before) - 1e-12:
            yield "less traffic is local than before"

    def _wrong_steps(self, moves: Sequence[Sequence[str]], after: Placement) -> Iterator[str]:
        at = dict(self.before)
        used = self._used(at)
        yield from self._wrong_machines(used, self._machine, "at first")
        for number, (name, source, target) in enumerate(moves):
            service = self._service[name]
            if at[name] != source or target == source:
                yield f"move {number}: {name} goes from {source} to {target}, it is on {at[name]}"
            allowed = service.get("CompatibleMachines", "*")
            if allowed != "*" and target not in allowed:
                yield f"move {number}: {name} may not be on {target}"
            for request, _ in RESOURCES:
                used[target][request] += service[request]
            yield from self._wrong_machines(used, (target,), f"move {number}, old and new present")
            for request, _ in RESOURCES:
                used[source][request] -= service[request]
            at[name] = target
        if at != after:
            yield "the moves do not lead to the placement"

    def _used(self, at: Placement) -> dict[str, dict[str, float]]:
        used = {machine: {request: 0.0 for request, _ in RESOURCES} for machine in self._machine}
        for name, machine in at.items():
            for request, _ in RESOURCES:
                used[machine][request] += self._service[name][request]
        return used

    def _wrong_machines(
        self, used: Mapping[str, Mapping[str, float]], machines: Sequence[str] | Mapping[str, Any], when: str
    ) -> Iterator[str]:
        for machine in machines:
            for request, total in RESOURCES:
                if used[machine][request] > self._machine[machine][total] * (1.0 + ROUNDING) + 1e-12:
                    yield f"{when}: {machine} has {used[machine][request]} of {self._machine[machine][total]} {total}"

    def local(self, at: Placement) -> float:
        """Return the share of the traffic that is local (gained affinity)."""
        count: collections.Counter[tuple[str, str]] = collections.Counter(
            (self._service[name]["Service"], machine) for name, machine in at.items()
        )
        size = {each["Service"]: len(each["ContainerList"]) for each in self._problem["ServiceList"]}
        total = sum(each["Traffic"] for each in self._problem["TrafficList"])
        kept = sum(
            each["Traffic"] * min(count[one, machine] / size[one], count[other, machine] / size[other])
            for each in self._problem["TrafficList"]
            for one, other in [(each["Service1"], each["Service2"])]
            for machine in self._machine
        )
        return float(kept / total) if total else 0.0

    def _moved(self, after: Placement) -> int:
        """Return how many containers have moved; two of one service that change places have not."""

        def counts(at: Placement) -> collections.Counter[tuple[str, str]]:
            return collections.Counter((self._service[name]["Service"], machine) for name, machine in at.items())

        return sum((counts(self.before) - counts(after)).values())
