"""Logs as the author's builds wrote them, made up."""

FULL = (
    "2025/05/21 21:26:53.{:06d} (metrics) cpu utilisation: 0.{:06d} cpu pressure: 0.070000 mem utilisation 0.050000\n"
)
EVENT = "2025/05/21 21:26:{} (cache) received an event: {{containerID:{} podID:{} topic:{}}}\n"


def log(*, count: int = 12, more: str = "") -> bytes:
    """So many samples, 80 ms apart, and more lines."""
    lines = "".join(FULL.format(index * 80_000, 100_000 + index) for index in range(count))
    return (lines + more).encode()
