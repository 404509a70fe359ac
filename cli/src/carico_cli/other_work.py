"""What else keeps this machine busy, before a cluster's own work counts: times measured beside it say less."""

import pathlib
import re

# https://docs.kernel.org/accounting/psi.html; a desktop at rest is well below that.
PRESSURE = pathlib.Path("/proc/pressure/cpu")
BUSY_PERCENT = 25.0


def of_now() -> str | None:
    """What a machine that is busy with other work does to a job; None where it is at rest, or its kernel has no PSI."""
    try:
        return in_words(PRESSURE.read_text(encoding="ascii"))
    except OSError:
        return None


def in_words(pressure: str) -> str | None:
    """The same, by the machine's PSI of the CPU.

    >>> in_words("some avg10=3.10 avg60=20.00 avg300=9.00 total=1\\n")
    >>> in_words("some avg10=62.50 avg60=20.00 avg300=9.00 total=1\\n")[:72]
    'other work keeps this machine busy (something waits for a CPU 62 % of th'
    """
    found = re.match(r"some avg10=([\d.]+)", pressure)
    if found is None or float(found[1]) < BUSY_PERCENT:
        return None
    return (
        f"other work keeps this machine busy (something waits for a CPU {float(found[1]):.0f} % of the time): Pods "
        "wait for it too, so they look dear, fewer fit, and the job takes longer"
    )
