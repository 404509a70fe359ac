"""The file of a problem: services, machines with the containers that they have now, traffic between services.

Its format is that of the RASA dataset (github.com/bytedance/research-cluster-dataset), described in
docs/rescheduling.md.
"""

import collections
import dataclasses
import pathlib
import re
from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec
import msgspec.structs
import numpy as np

from carico_cli.shell import user_files
from carico_core.domain import amounts, errors
from carico_core.numerics.rescheduling.services import affinity

_Name = Annotated[str, msgspec.Meta(min_length=1)]
# Sums of as many as a file may have are finite.
_AMOUNT_MOST = 1e100
_Share = Annotated[float, msgspec.Meta(ge=0.0, le=_AMOUNT_MOST)]
# Larger than any of the dataset's problems by a factor of ten.
_FILE_MAX_BYTES = 2**28
_EXPECTED = "a problem as docs/rescheduling.md describes it"
# Written by Python's json module, though JSON has no such numbers.
_NOT_FINITE = re.compile(rb"[:,\[]\s*(-?(?:NaN|Infinity))\b")


class _Service(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    service: _Name
    request_cpu: _Share = msgspec.field(name="RequestCPU")
    request_mem: _Share
    container_list: Annotated[tuple[_Name, ...], msgspec.Meta(min_length=1)]
    compatible_machines: tuple[_Name, ...] | Literal["*"] = "*"


class _Machine(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    machine: _Name = msgspec.field(name="MachineIP")
    total_cpu: _Share = msgspec.field(name="TotalCPU")
    total_mem: _Share
    containers: tuple[_Name, ...] = msgspec.field(name="InitialDeployingContainers")


class _Traffic(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    service1: _Name
    service2: _Name
    traffic: _Share


class _File(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    service_list: Annotated[tuple[_Service, ...], msgspec.Meta(min_length=1)]
    machine_list: Annotated[tuple[_Machine, ...], msgspec.Meta(min_length=1)]
    traffic_list: tuple[_Traffic, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A problem, and the names of its machines and containers in its order."""

    problem: affinity.Problem
    machines: tuple[str, ...]
    containers: tuple[str, ...]


def read(path: pathlib.Path) -> Named:
    """Read and check a problem. Raises `SettingsError` with the file, the place in it, what was got and expected."""
    content = user_files.read(path, "--problem", most=_FILE_MAX_BYTES, expected=_EXPECTED)
    try:
        parsed = msgspec.json.decode(content, type=_File)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        found = _NOT_FINITE.search(content)
        got = f"got {found[1].decode()} at byte {found.start(1)}" if found else str(error)
        raise _wrong(path, got) from error
    return _named(path, parsed)


def _wrong(path: pathlib.Path, got: str) -> errors.SettingsError:
    return errors.SettingsError(f"--problem {path}: {got}; expected {_EXPECTED}")


def _named(path: pathlib.Path, parsed: _File) -> Named:
    parsed = _busiest_first(parsed)
    services = _index(path, "service", (each.service for each in parsed.service_list))
    machines = _index(path, "machine", (each.machine for each in parsed.machine_list))
    containers = _index(path, "container", (name for each in parsed.service_list for name in each.container_list))
    problem = affinity.Problem(
        size=np.array([len(each.container_list) for each in parsed.service_list]),
        request=np.array([(each.request_cpu, each.request_mem) for each in parsed.service_list]),
        capacity=np.array([(each.total_cpu, each.total_mem) for each in parsed.machine_list]),
        allowed=_allowed(path, parsed, machines),
        home=_home(path, parsed, containers),
        pairs=np.array([_pair(path, each, services) for each in parsed.traffic_list], dtype=np.int32).reshape(-1, 2),
        traffic=np.array([each.traffic for each in parsed.traffic_list], dtype=np.float64),
    )
    named = Named(problem=problem, machines=tuple(machines), containers=tuple(containers))
    _check(path, named, tuple(services))
    return named


def _busiest_first(parsed: _File) -> _File:
    """Return the problem with the services of much traffic first: what the search reads together is kept together."""
    traffic: collections.defaultdict[str, float] = collections.defaultdict(float)
    for each in parsed.traffic_list:
        traffic[each.service1] += each.traffic
        traffic[each.service2] += each.traffic
    ordered = sorted(parsed.service_list, key=lambda service: -traffic[service.service])
    return msgspec.structs.replace(parsed, service_list=tuple(ordered))


def _index(path: pathlib.Path, kind: str, names: Iterable[str]) -> dict[str, int]:
    listed = list(names)
    index = {name: number for number, name in enumerate(listed)}
    if len(index) < len(listed):
        name, times = collections.Counter(listed).most_common(1)[0]
        raise _wrong(path, f"got {kind} {name!r} {times} times, expected each once")
    return index


def _known(path: pathlib.Path, where: str, kind: str, name: str, index: dict[str, int]) -> int:
    if name not in index:
        raise _wrong(path, f"{where}: unknown {kind} {name!r}")
    return index[name]


def _pair(path: pathlib.Path, traffic: _Traffic, services: dict[str, int]) -> tuple[int, int]:
    if traffic.service1 == traffic.service2:
        raise _wrong(path, f"TrafficList: got {traffic.service1!r} with itself, expected two services")
    first, second = (
        _known(path, "TrafficList", "service", name, services) for name in (traffic.service1, traffic.service2)
    )
    return first, second


def _allowed(path: pathlib.Path, parsed: _File, machines: dict[str, int]) -> affinity.Bools:
    allowed = np.ones((len(machines), len(parsed.service_list)), dtype=np.bool_)
    for number, service in enumerate(parsed.service_list):
        if service.compatible_machines == "*":
            continue
        allowed[:, number] = False
        for name in service.compatible_machines:
            allowed[_known(path, f"CompatibleMachines of {service.service!r}", "machine", name, machines), number] = (
                True
            )
    return allowed


def _home(path: pathlib.Path, parsed: _File, containers: dict[str, int]) -> affinity.Ints:
    home = np.full(len(containers), -1, dtype=np.int32)
    for number, machine in enumerate(parsed.machine_list):
        for name in machine.containers:
            container = _known(
                path, f"InitialDeployingContainers of {machine.machine!r}", "container", name, containers
            )
            if home[container] >= 0:
                raise _wrong(path, f"got container {name!r} on two machines or twice on one, expected it on one")
            home[container] = number
    if (home < 0).any():
        names = tuple(containers)
        lost = [names[number] for number in np.flatnonzero(home < 0)]
        raise _wrong(
            path, f"got no machine for {amounts.plural(len(lost), 'container')}, the first {lost[0]!r}; each needs one"
        )
    return home


def _check(path: pathlib.Path, named: Named, services: tuple[str, ...]) -> None:
    """Refuse a placement that breaks a constraint from the start."""
    problem = named.problem
    count = affinity.counts(problem, problem.home)
    over = affinity.unfit(problem, count)
    if over:
        machine, resource = over[0]
        column = affinity.RESOURCES.index(resource)
        used, capacity = affinity.used(problem, count)[machine, column], problem.capacity[machine, column]
        more = f" (and {len(over) - 1} more)" if len(over) > 1 else ""
        raise errors.SettingsError(
            f"--problem {path}: infeasible from the start: the containers on machine {named.machines[machine]!r} "
            f"request {used:.6g} of {resource}, it has {capacity:.6g}{more}: correct the placement or the capacity"
        )
    refused = np.argwhere((count > 0) & ~problem.allowed)
    if len(refused):
        machine, service = refused[0]
        raise errors.SettingsError(
            f"--problem {path}: infeasible from the start: machine {named.machines[machine]!r} has containers of "
            f"{services[service]!r}, whose CompatibleMachines do not list it: correct the placement or the list"
        )
