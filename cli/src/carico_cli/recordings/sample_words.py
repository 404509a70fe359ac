"""The words of a sample in the log of the dissertation's agent: which columns a line has, and in which units.

A line is pairs of words and a number, in any order; a resource holds until the next one is named, as does `some` or
`full`. The published logs have

    cpu utilisation: _ cpu pressure: _ mem utilisation _        shares
    cpu utilisation: _ cpu pressure _                           pressure in microseconds of 100 ms
    cpu: _ memory: _                                            utilisation of both
    cpu some: _ full _ memory some: _ full _ io some: _ full _  pressure in microseconds of 100 ms

and any mix of these words, of the kernel's (avg10, avg60, avg300, total) included, has a meaning.
"""

import re
from collections.abc import Mapping

import numpy as np

from carico_core.domain import messages

UTILISATION, PRESSURE, MEMORY, AVERAGE = "utilisation", "pressure", "memory", "pressure avg10"
# Pressure in microseconds refers to 100 ms.
PERIOD_US = 1e5
EXAMPLES = (
    "'cpu utilisation: _ cpu pressure: _ mem utilisation _'",
    "'cpu utilisation: _ cpu pressure _'",
    "'cpu: _ memory: _'",
    "'cpu some: _ full _ memory some: _ full _ io some: _ full _'",
)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_BETWEEN = re.compile(r"[\s:=]+")
_RESOURCES = {"cpu": "cpu", "mem": "memory", "memory": "memory", "io": "io"}
_KINDS = {
    "utilisation": "utilisation", "utilization": "utilisation", "usage": "utilisation",
    "pressure": "pressure", "some": "pressure", "full": "full",
}  # fmt: skip
_WINDOWS = {"avg10": " avg10", "avg60": " avg60", "avg300": " avg300", "total": ""}
# Utilisation has the name of its resource, that of the CPU none; of the CPU's pressures only `full` says which.
_NAMES = {("cpu", kind): kind for kind in _KINDS.values()} | {("memory", "utilisation"): MEMORY}
# Scheduling delays make a share exceed 1 a little; microseconds and percentages are far larger numbers.
_SHARE_MOST = 2.0
# Totals that were not subtracted only grow. Fewer samples than a batch may do so by chance.
_TOTALS_LEAST = 10


def columns(text: str) -> dict[str, float] | None:
    """Return the numbers of a line by column; None if it has a word that no sample has, or a column twice."""
    found: dict[str, float] = {}
    resource, kind, window, words = "", "utilisation", "", 0
    for token in _BETWEEN.split(text.strip()):
        words += 1
        if token in _RESOURCES:
            resource, kind, window = _RESOURCES[token], "utilisation", ""
        elif token in _KINDS:
            kind, window = _KINDS[token], ""
        elif token in _WINDOWS:
            window = _WINDOWS[token]
        else:
            name = _NAMES.get((resource, kind), f"{resource} {kind}") + window
            if words < 2 or not resource or not _NUMBER.fullmatch(token) or name in found:
                return None
            found[name] = float(token)
            words, window = 0, ""
            if not np.isfinite(found[name]):
                return None
    return found if found and not words else None


def are_shares(found: Mapping[str, float]) -> bool:
    """Return whether utilisation is a share, as the author's always is, and not in percent."""
    return all(
        0.0 <= value <= _SHARE_MOST for name, value in found.items() if name == MEMORY or name.endswith(UTILISATION)
    )


def ordered(names: Mapping[str, object]) -> tuple[str, ...]:
    """Return the columns in the order in which they are kept, whatever that of the lines."""
    first = (UTILISATION, PRESSURE, MEMORY)
    return tuple(sorted(names, key=lambda name: (first.index(name) if name in first else len(first), name)))


def cpu(names: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the columns whose mean is the CPU's usage; None if no column is of the CPU.

    Where the log has no more, the pressure's mean over 10 s stands for the pressure.
    """
    pressure = next((name for name in (PRESSURE, AVERAGE) if name in names), None)
    return tuple(name for name in (UTILISATION, pressure) if name is not None and name in names) or None


def shares(names: tuple[str, ...], times_s: messages.Array, raw: messages.Array) -> messages.Array:
    """Return the samples (n, columns) as shares from 0 to 1, whatever their units; times_s (n,): never decreasing."""
    values = raw.copy()
    averages = [index for index, name in enumerate(names) if " avg" in name]
    pressures = [
        index for index, name in enumerate(names) if name.endswith(("pressure", "full")) and index not in averages
    ]
    values[:, averages] /= 100.0
    if pressures and values[:, pressures].max() > _SHARE_MOST:
        values[:, pressures] = _of_microseconds(times_s, values[:, pressures])
    clipped: messages.Array = np.clip(values, 0.0, 1.0)
    return clipped


def _of_microseconds(times_s: messages.Array, waited_us: messages.Array) -> messages.Array:
    """Return shares of the time: of 100 ms, or, of totals that were not subtracted, of that since the last sample."""
    found = waited_us / PERIOD_US
    steps_us, passed_us = np.diff(waited_us, axis=0), 1e6 * np.diff(times_s)[:, np.newaxis]
    grows = (steps_us >= 0.0).all(axis=0)
    # In a file of totals, those of a resource for which hardly any task waits are small.
    if len(waited_us) >= _TOTALS_LEAST and waited_us[-1, grows].max(initial=0.0) > _SHARE_MOST * PERIOD_US:
        added = np.divide(steps_us, passed_us, out=np.zeros_like(steps_us), where=passed_us > 0.0)
        # What the first sample added is not known: as much as the second one.
        found[:, grows] = np.concatenate([added[:1], added])[:, grows]
    return found
