"""A single-threaded CPU workload: digits of pi, repeatedly, until the given work is done."""

import dataclasses
import itertools
from collections.abc import Iterator

from carico_local.workloads import pacing

# As in the example Job of the Kubernetes documentation.
DIGITS = 2000
_GUARD_DIGITS = 10
# Terms per piece: about 20 us of work, far below the 0.3 ms share of a period at scale 1/8.
_TERMS_A_PIECE = 16


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result: how often pi was completed, its last digits as a check, real CPU seconds used."""

    rounds: int
    last_digits: str
    cpu_s: float


def compute(*, seconds: float, scale: float, timer: pacing.Timer) -> Outcome:
    """Do `seconds` of work on one emulated core, that is `seconds x scale` real CPU seconds."""
    pacer = pacing.Pacer(scale=scale, timer=timer)
    rounds, last = 0, ""
    budget_s = seconds * scale
    while pacer.cpu_s < budget_s:
        for digits in digits_of_pi(DIGITS):
            if digits is not None:
                rounds, last = rounds + 1, digits[-10:]
            elif pacer.cpu_s >= budget_s:
                break
            pacer.pace()
    return Outcome(rounds=rounds, last_digits=last, cpu_s=pacer.cpu_s)


def digits_of_pi(count: int) -> Iterator[str | None]:
    """Yield None after each small piece of work, and finally the first `count` digits of pi without the point.

    >>> [digits for digits in digits_of_pi(12) if digits]
    ['314159265358']
    """
    unit = 10 ** (count + _GUARD_DIGITS)
    total = 0
    # Machin 1706: pi / 4 = 4 arctan(1/5) - arctan(1/239).
    for factor, inverse in ((16, 5), (-4, 239)):
        yield from _pieces(series := _ArctanSeries(unit=factor * unit, inverse=inverse))
        total += series.total
    yield str(total // 10 ** (_GUARD_DIGITS + 1))


class _ArctanSeries:
    """unit x arctan(1 / inverse) in integers: sum of (-1)^k unit / ((2k + 1) inverse^(2k + 1))."""

    __slots__ = ("_inverse_squared", "_power", "_terms", "total")

    def __init__(self, *, unit: int, inverse: int) -> None:
        self._power = abs(unit) // inverse * (1 if unit > 0 else -1)
        self._inverse_squared = inverse * inverse
        self._terms = itertools.count()
        self.total = 0

    def add_terms(self, count: int) -> bool:
        """Return True while there is more to add."""
        for k in itertools.islice(self._terms, count):
            term = abs(self._power) // (2 * k + 1)
            if term == 0:
                return False
            self.total += term if (self._power > 0) == (k % 2 == 0) else -term
            self._power = abs(self._power) // self._inverse_squared * (1 if self._power > 0 else -1)
        return True


def _pieces(series: _ArctanSeries) -> Iterator[None]:
    while series.add_terms(_TERMS_A_PIECE):
        yield None
