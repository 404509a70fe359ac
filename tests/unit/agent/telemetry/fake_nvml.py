"""What the agent asks of the module pynvml, answered from lists."""

import dataclasses
from typing import Any


class NVMLError(Exception):
    """Stands for pynvml.NVMLError."""


@dataclasses.dataclass
class Answer:
    """A structure of NVML: of utilisation, or of memory."""

    gpu: int = 0
    used: int = 0
    total: int = 0


class FakeNvml:
    """GPUs with percents of utilisation and (used, total) bytes; `error` is raised by the calls named in `failing`."""

    NVMLError = NVMLError

    def __init__(self, percents: list[int], memory: list[tuple[int, int]]) -> None:
        self.percents = percents
        self.memory = memory
        self.failing: set[str] = set()

    def nvmlInit(self) -> None:
        self._check("init")

    def nvmlDeviceGetCount(self) -> int:
        return len(self.percents)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetUtilizationRates(self, handle: Any) -> Answer:
        self._check("utilisation")
        return Answer(gpu=self.percents[handle])

    def nvmlDeviceGetMemoryInfo(self, handle: Any) -> Answer:
        self._check("memory")
        used, total = self.memory[handle]
        return Answer(used=used, total=total)

    def _check(self, call: str) -> None:
        if call in self.failing:
            raise NVMLError("Not Supported")
