"""Files of problems."""

import json
import pathlib
from typing import Any

import numpy as np

# Two machines with room for three containers; the parts of each service's traffic are divided between them.
SMALL: dict[str, Any] = {
    "ServiceList": [
        {"Service": "web", "RequestCPU": 0.1, "RequestMem": 0.1, "ContainerList": ["web-0", "web-1"],
         "CompatibleMachines": "*"},
        {"Service": "cache", "RequestCPU": 0.1, "RequestMem": 0.1, "ContainerList": ["cache-0"],
         "CompatibleMachines": "*"},
        {"Service": "batch", "RequestCPU": 0.1, "RequestMem": 0.1, "ContainerList": ["batch-0"],
         "CompatibleMachines": ["b"]},
    ],
    "MachineList": [
        {"MachineIP": "a", "TotalCPU": 0.3, "TotalMem": 0.5, "InitialDeployingContainers": ["web-0", "web-1"]},
        {"MachineIP": "b", "TotalCPU": 0.3, "TotalMem": 0.5, "InitialDeployingContainers": ["cache-0", "batch-0"]},
    ],
    "TrafficList": [
        {"Service1": "web", "Service2": "cache", "Traffic": 3.0},
        {"Service1": "cache", "Service2": "batch", "Traffic": 1.0},
    ],
}  # fmt: skip


def write(path: pathlib.Path, problem: object = None) -> pathlib.Path:
    """Write a problem (default: the small one) and return its path."""
    path.write_text(json.dumps(SMALL if problem is None else problem))
    return path


def pairs(count: int) -> dict[str, Any]:
    """Return two machines with ample room and as many pairs of services, each divided between the machines."""
    ends = [f"{side}{number}" for side in "ab" for number in range(count)]
    return {
        "ServiceList": [
            {"Service": end, "RequestCPU": 0.001, "RequestMem": 0.001, "ContainerList": [f"{end}-0"]} for end in ends
        ],
        "MachineList": [
            {"MachineIP": side, "TotalCPU": 1.0, "TotalMem": 1.0,
             "InitialDeployingContainers": [f"{end}-0" for end in ends if end[0] == side]}
            for side in "ab"
        ],
        "TrafficList": [
            {"Service1": f"a{number}", "Service2": f"b{number}", "Traffic": 1.0} for number in range(count)
        ],
    }  # fmt: skip


def random(seed: int, *, containers_most: int = 60) -> dict[str, Any]:
    """Return a feasible problem: machines from nearly empty to exactly full, services that may be on some alone.

    Some have no traffic, one machine, services without partners, requests of 0, and names with any characters.
    """
    rng = np.random.default_rng(seed)
    machines = [f"m{number} \N{SNOWMAN}" for number in range(int(rng.choice([1, 2, 3, 8])))]
    services, placed = [], {machine: list[str]() for machine in machines}
    used = {machine: [0.0, 0.0] for machine in machines}
    left, number = int(rng.integers(1, containers_most + 1)), 0
    while left > 0:
        size = min(left, int(rng.integers(1, 9)))
        left, number = left - size, number + 1
        request = [float(rng.choice([0.0, 0.1, 0.25, rng.uniform(0.01, 2.0)])) for _ in "cm"]
        few = [machine for machine in machines if rng.random() < 0.5] or [machines[0]]
        allowed = few if rng.random() < 0.3 else machines
        names = [f"s{number}/\N{LATIN SMALL LETTER U WITH DIAERESIS} {each}" for each in range(size)]
        for name in names:
            machine = str(rng.choice(allowed))
            placed[machine].append(name)
            used[machine] = [one + other for one, other in zip(used[machine], request, strict=True)]
        service = {"Service": f"s{number}", "RequestCPU": request[0], "RequestMem": request[1], "ContainerList": names}
        services.append(service if allowed is machines else {**service, "CompatibleMachines": allowed})
    slack, more = float(rng.choice([1.0, 1.02, 1.2, 3.0])), float(rng.choice([0.0, 0.0, 4.0]))
    count = int(rng.integers(0, 3 * number)) if number > 1 else 0
    pairs = [rng.choice(number, 2, replace=False) + 1 for _ in range(count)]
    silent = rng.random() < 0.1
    return {
        "ServiceList": services,
        "MachineList": [
            {"MachineIP": machine, "TotalCPU": used[machine][0] * slack + more,
             "TotalMem": used[machine][1] * slack + more, "InitialDeployingContainers": placed[machine]}
            for machine in machines
        ],
        "TrafficList": [
            {"Service1": f"s{one}", "Service2": f"s{other}", "Traffic": 0.0 if silent else float(rng.uniform(0.0, 9.0))}
            for one, other in pairs
        ],
    }  # fmt: skip
