"""The dimensions "gpu" and "gpu_memory", from NVIDIA's management library (NVML).

gpu: the share of time in which a kernel ran, averaged over the node's GPUs; the driver itself averages over 1/6 s to
1 s. gpu_memory: the used share of all GPUs' memory. The package nvidia-ml-py is imported if one of them is enabled.
https://docs.nvidia.com/deploy/nvml-api/structnvmlUtilization__t.html
"""

import importlib
from collections.abc import Callable
from typing import Any

from carico_agent.telemetry import port

PACKAGE, MODULE = "nvidia-ml-py", "pynvml"


class Gpus:
    """The GPUs of a machine. `nvml` is the module pynvml, or a fake."""

    def __init__(self, nvml: Any) -> None:
        """Raise `Absent` without a driver or a GPU."""
        self._nvml = nvml
        try:
            nvml.nvmlInit()
            self.handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
        except nvml.NVMLError as error:
            raise port.Absent("NVML", str(error)) from None
        if not self.handles:
            raise port.Absent("NVML", "this machine has no GPU")

    def ask(self, question: Callable[[Any, Any], int]) -> list[int]:
        """Return the answer of each GPU, in order. Raises `Broken`."""
        try:
            return [question(self._nvml, handle) for handle in self.handles]
        except self._nvml.NVMLError as error:
            raise port.Broken("NVML", str(error)) from None


class GpuUtilisation:
    """The mean of the GPUs' utilisation."""

    def __init__(self, gpus: Gpus) -> None:
        """Raise `Absent` if a GPU does not report it (as when it is split into MIG instances)."""
        self._gpus = gpus
        # In GPUs.
        self.full = float(len(gpus.handles))
        _read_first(self.read)

    def read(self) -> float:
        """Return the share in use over the last interval."""
        percents = self._gpus.ask(lambda nvml, gpu: int(nvml.nvmlDeviceGetUtilizationRates(gpu).gpu))
        if not all(0 <= percent <= 100 for percent in percents):
            raise port.Broken("NVML utilisation", percents)
        return sum(percents) / (100.0 * len(percents))


class GpuMemory:
    """The used share of all GPUs' memory."""

    def __init__(self, gpus: Gpus) -> None:
        """Raise `Absent` if a GPU does not report it."""
        self._gpus = gpus
        # In bytes.
        self.full = float(_read_first(self._total))

    def read(self) -> float:
        """Return the share in use now."""
        used = self._gpus.ask(lambda nvml, gpu: int(nvml.nvmlDeviceGetMemoryInfo(gpu).used))
        if min(used) < 0 or sum(used) > self.full:
            raise port.Broken("NVML memory", used)
        return sum(used) / self.full

    def _total(self) -> int:
        totals = self._gpus.ask(lambda nvml, gpu: int(nvml.nvmlDeviceGetMemoryInfo(gpu).total))
        if min(totals) <= 0:
            raise port.Broken("NVML memory", totals)
        return sum(totals)


def open_gpus(nvml: Any = None) -> Gpus:
    """Return the machine's GPUs. Raises `Absent` without the package, the driver or a GPU."""
    return Gpus(load_nvml() if nvml is None else nvml)


def load_nvml() -> Any:
    """Return the module pynvml. Raises `Absent` if it is not installed."""
    try:
        return importlib.import_module(MODULE)
    except ImportError:
        raise port.Absent(
            f"package {PACKAGE}", f"not installed; pip install {PACKAGE}, or carico-agent with its extra `gpu`"
        ) from None


def _read_first(ask: Callable[[], float]) -> float:
    try:
        return ask()
    except port.Broken as error:
        raise port.Absent(error.what, str(error)) from None
