"""Files of problems."""

import json
import pathlib
from typing import Any

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
