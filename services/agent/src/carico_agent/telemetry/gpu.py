"""The dimensions "gpu" and "gpu_memory", from NVIDIA's management library (NVML).

gpu: the mean over the node's GPUs of the time in which a kernel ran; the driver itself averages over 1/6 s to 1 s.
gpu_memory: what is taken of all GPUs' memory together. The package nvidia-ml-py is imported when one of them is named.
https://docs.nvidia.com/deploy/nvml-api/structnvmlUtilization__t.html
"""

import importlib
from collections.abc import Callable
from typing import Any

from carico_agent.telemetry import port

PACKAGE, MODULE = "nvidia-ml-py", "pynvml"


class Gpus:
    """The GPUs of a machine. `nvml` is the module pynvml, or one that answers as it does."""

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
        """Raise `Absent` where a GPU does not report it (one that is split into MIG instances)."""
        self._gpus = gpus
        # GPUs.
        self.full = float(len(gpus.handles))
        _tells(self.read)

    def read(self) -> float:
        """Return the share in use over the last interval."""
        percents = self._gpus.ask(lambda nvml, gpu: int(nvml.nvmlDeviceGetUtilizationRates(gpu).gpu))
        if not all(0 <= percent <= 100 for percent in percents):
            raise port.Broken("NVML utilisation", percents)
        return sum(percents) / (100.0 * len(percents))


class GpuMemory:
    """What is taken of the GPUs' memory together."""

    def __init__(self, gpus: Gpus) -> None:
        """Raise `Absent` where a GPU does not report it."""
        self._gpus = gpus
        # Bytes.
        self.full = float(_tells(self._total))

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
    """Return the module pynvml. Raises `Absent` where it is not installed."""
    try:
        return importlib.import_module(MODULE)
    except ImportError:
        raise port.Absent(
            f"package {PACKAGE}", f"not installed; pip install {PACKAGE}, or carico-agent with its extra `gpu`"
        ) from None


def _tells(ask: Callable[[], float]) -> float:
    try:
        return ask()
    except port.Broken as error:
        raise port.Absent(error.what, str(error)) from None
