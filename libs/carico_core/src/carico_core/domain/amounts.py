"""Amounts with their units: formatted for people, and parsed from Kubernetes quantities.

The web page's format.js follows the same rules.
"""

import functools
import math
import re
from collections.abc import Mapping

# Dimensions whose scale is bytes. Any other is a share of time, as the CPU's is.
IN_BYTES = frozenset({"memory", "gpu_memory"})
# How the names of Kubernetes' resources begin that are counted in bytes:
# https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/
RESOURCES_IN_BYTES = ("memory", "ephemeral-storage", "hugepages-")
# Units of the dimensions that are counted. Those in `IN_BYTES` are bytes; all others are shares of the whole.
_COUNTED: Mapping[str, str] = {"cpu": "tasks", "gpu": "GPUs"}
_RATES: Mapping[str, str] = {"network": "B/s"}
_PREFIXES = ("", "k", "M", "G", "T")
# From these values on, rounding adds a digit: 999.5 would show as 1000 of the smaller unit, 99.95 as four digits.
_STEP_AT, _WHOLE_FROM, _TWO_DIGITS_FROM = 999.5, 99.95, 9.95
# https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
# Kubernetes keeps at most 18 digits of precision; a longer text is no amount of anything.
QUANTITY_MAX = 64
# Kubernetes caps what is larger, so that sums and products of quantities stay finite.
_LARGEST = 2.0**63
_SUFFIX = {
    "": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60,
}  # fmt: skip
_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)([numkMGTPE]|[KMGTPE]i)?")


def text(dimension: str, value: float) -> str:
    """Return an amount with its unit.

    >>> text("cpu", 1.224), text("memory", 9.76e6), text("memory", -1.015e9), text("network", 2.5e5), text("disk", 0.5)
    ('1.22 tasks', '9.8 MB', '-1.0 GB', '250 kB/s', '50%')
    """
    if dimension in _COUNTED:
        return f"{_counted(value)} {_COUNTED[dimension]}"
    unit = _sized(dimension)
    if unit is None:
        return number(100.0 * value, 0 if value == 0.0 or 100.0 * abs(value) >= _TWO_DIGITS_FROM else 1) + "%"
    size, prefix = _scale(value)
    whole = not prefix or abs(value) / size >= _WHOLE_FROM
    return f"{number(value / size, 0 if whole else 1)} {prefix}{unit}"


def millicores(cores: float) -> str:
    """Return CPU in use, as `kubectl top` shows it.

    >>> millicores(0.5024), millicores(1.25), millicores(0.0)
    ('502m', '1250m', '0m')
    """
    return f"{number(1000.0 * cores, 0)}m"


def rate(bytes_per_s: float) -> str:
    """Return a rate with its unit.

    >>> rate(1.5e6), rate(12.0)
    ('1.5 MB/s', '12 B/s')
    """
    return text("network", bytes_per_s)


def text_with_sd(dimension: str, mean: float, sd: float, *, sign: str = "± ") -> str:
    """Return a mean and its standard deviation in one unit, without digits that the deviation makes meaningless.

    >>> text_with_sd("cpu", 2.3611, 0.0539), text_with_sd("memory", 1.3e6, 5.24e5), text_with_sd("memory", 6e8, 4e7)
    ('2.36 ± 0.05 tasks', '1.3 ± 0.5 MB', '600 ± 40 MB')
    """
    if dimension in _COUNTED:
        return f"{_counted(mean)} {sign}{_counted(sd)} {_COUNTED[dimension]}"
    unit = _sized(dimension)
    size, prefix = (0.01, "") if unit is None else _scale(max(abs(mean), sd))
    digits = 0 if sd / size >= _TWO_DIGITS_FROM or (unit is not None and not prefix) else 1
    found = f"{number(mean / size, digits)} {sign}{number(sd / size, digits)}"
    return f"{found}%" if unit is None else f"{found} {prefix}{unit}"


def pods_with_sd(mean: float, sd: float, *, sign: str = "± ") -> str:
    """Return a fractional number of Pods and its standard deviation, to the same digit; the caller adds the unit.

    >>> pods_with_sd(2.25, 0.449), pods_with_sd(-0.04, 0.4), pods_with_sd(2777.1, 13.3)
    ('2.2 ± 0.4', '0.0 ± 0.4', '2777 ± 13')
    """
    digits = 0 if max(abs(mean), sd) >= _WHOLE_FROM else 1
    return f"{number(mean, digits)} {sign}{number(sd, digits)}"


def plural(count: int, what: str) -> str:
    """Return a count and its noun.

    >>> plural(1, "Pod"), plural(2, "Pod")
    ('1 Pod', '2 Pods')
    """
    return f"{count} {what}{'' if count == 1 else 's'}"


def number(value: float, digits: int) -> str:
    """Return a number with this many decimals; a zero never has a minus sign.

    >>> number(-0.04, 1), number(2.04, 1), number(-1.26, 1)
    ('0.0', '2.0', '-1.3')
    """
    return f"{round(value, digits) + 0.0:.{digits}f}"


def parse_quantity(text: str | int | float) -> float:
    """Return the value of a quantity in its base unit (cores, bytes, pieces).

    >>> parse_quantity("250m"), parse_quantity("1Ki"), parse_quantity(2), parse_quantity("1e300")
    (0.25, 1024.0, 2.0, 9.223372036854776e+18)

    Raises `ValueError` if it is not a quantity.
    """
    written = str(text)
    # Checked before anything is cached, so that the cache is bounded in bytes.
    if len(written) > QUANTITY_MAX:
        raise ValueError(f"got {len(written)} characters, expected a Kubernetes quantity such as 250m or 1Gi")
    return _parse_quantity(written)


# Pods come from few templates, so the same quantities recur.
@functools.lru_cache(maxsize=4096)
def _parse_quantity(text: str) -> float:
    match = _QUANTITY.fullmatch(text)
    if match is None or not math.isfinite(value := float(match[1]) * _SUFFIX[match[2] or ""]):
        raise ValueError(f"got {text!r}, expected a Kubernetes quantity such as 250m or 1Gi")
    return min(max(value, -_LARGEST), _LARGEST)


def memory_step(value: float) -> float:
    """Return the steps of requests of memory at this amount, in bytes: a mebibyte is a third of a small program."""
    return 2.0**20 if value > 2.0**24 else 2.0**16


def quantity(dimension: str, value: float) -> str:
    """Return an amount of CPU or memory as a Kubernetes quantity, rounded up to a millicore or a `memory_step`.

    >>> quantity("cpu", 0.575), quantity("cpu", 2.0), quantity("memory", 3 * 2.0**20), quantity("memory", 2.0**31)
    ('575m', '2', '3Mi', '2Gi')
    >>> quantity("memory", 3.45 * 2.0**20), quantity("memory", 16.1 * 2.0**20)
    ('3584Ki', '17Mi')
    """
    if dimension == "cpu":
        thousandths = -int(-value * 1000.0 // 1)
        thousandths = round(value * 1000.0) if abs(value * 1000.0 - round(value * 1000.0)) < 1e-6 else thousandths
        return f"{thousandths // 1000}" if thousandths % 1000 == 0 and thousandths else f"{thousandths}m"
    step = memory_step(value)
    kibibytes = -int(-value / step // 1) * round(step) // 1024
    if kibibytes % 1024:
        return f"{kibibytes}Ki"
    mebibytes = kibibytes // 1024
    return f"{mebibytes // 1024}Gi" if mebibytes % 1024 == 0 and mebibytes else f"{mebibytes}Mi"


def _sized(dimension: str) -> str | None:
    return "B" if dimension in IN_BYTES else _RATES.get(dimension)


def _scale(value: float) -> tuple[float, str]:
    size = 1.0
    for prefix in _PREFIXES[:-1]:
        if abs(value) / size < _STEP_AT:
            return size, prefix
        size *= 1000.0
    return size, _PREFIXES[-1]


def _counted(value: float) -> str:
    return number(value, 0 if abs(value) >= _WHOLE_FROM else 2)
