"""What an agent reads on a node of the twin: usage as shares, from the machine's counters."""

from collections.abc import Iterator

import numpy as np

from carico_core.domain import messages
from carico_twin.nodes import machine

DIMS = ("cpu", "memory")
# Standard deviation of readings: 1 % of the CPU (10 Hz windows and 10 ms ticks), 0.1 % of the memory.
CPU_NOISE = 0.01
MEMORY_NOISE = 0.001
# Random numbers drawn at a time. Half a minute at 10 Hz takes a few blocks; larger ones waste time and memory with
# thousands of nodes.
_BLOCK = 128


class Telemetry:
    """Reads one machine's usage since the previous call."""

    __slots__ = ("_busy_s", "_machine", "_noise", "_pressure_s", "_read_s", "parts")

    def __init__(self, hardware: machine.Machine, rng: np.random.Generator) -> None:
        self._machine = hardware
        self._noise = _noise(rng)
        self._busy_s = hardware.busy_s
        self._pressure_s = hardware.pressure_s
        self._read_s = 0.0
        self.parts: dict[str, float] = {"cpu.utilisation": 0.0, "cpu.pressure": 0.0}

    def begin(self, now_s: float) -> None:
        """Start reading now."""
        self._machine.advance(now_s)
        self._busy_s, self._pressure_s, self._read_s = self._machine.busy_s, self._machine.pressure_s, now_s

    def read(self, now_s: float) -> messages.Array:
        """Return usage (cpu, memory) since the last reading, at an instant up to which nothing on the node changes."""
        hardware = self._machine.hardware
        span_s = now_s - self._read_s
        busy_s, pressure_s = self._machine.counters(now_s)
        utilisation = (busy_s - self._busy_s) / (span_s * hardware.cores)
        pressure = (pressure_s - self._pressure_s) / span_s
        self._busy_s, self._pressure_s, self._read_s = busy_s, pressure_s, now_s
        cpu_noise, memory_noise = next(self._noise)
        self.parts = {"cpu.utilisation": _share(utilisation), "cpu.pressure": _share(pressure)}
        # cpu = (utilisation + pressure) / 2
        cpu = (utilisation + pressure) / 2.0 + cpu_noise
        memory = self._machine.memory_bytes(now_s) / hardware.memory_bytes + memory_noise
        return np.array([_share(cpu), _share(memory)])


def _noise(rng: np.random.Generator) -> Iterator[list[float]]:
    """Yield the errors of readings (cpu, memory)."""
    while True:
        yield from (rng.standard_normal((_BLOCK, 2)) * (CPU_NOISE, MEMORY_NOISE)).tolist()


def _share(value: float) -> float:
    return 0.0 if value < 0.0 else value if value < 1.0 else 1.0
