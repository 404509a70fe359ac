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
