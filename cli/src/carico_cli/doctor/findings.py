"""The result of a check, and how it is shown."""

import dataclasses
import enum
from collections.abc import Iterable

from carico_cli.output import formats

# Names in one line.
_NAMED = 5


class Level(enum.StrEnum):
    """How much it matters. `FAIL`: CARICO will not work. `WARN`: it will, but without what the detail names."""

    OK = "ok"
    SKIP = "skip"
    WARN = "warn"
    FAIL = "fail"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the answer. `do`: what to do about it, or empty."""

    level: Level
    what: str
    detail: str
    do: str = ""


def ok(what: str, detail: str) -> Finding:
    """Report a check that passed."""
    return Finding(level=Level.OK, what=what, detail=detail)


def skip(what: str, detail: str) -> Finding:
    """Report a check that was skipped."""
    return Finding(level=Level.SKIP, what=what, detail=detail)


def warn(what: str, detail: str, do: str) -> Finding:
    """Report that CARICO works without something."""
    return Finding(level=Level.WARN, what=what, detail=detail, do=do)


def fail(what: str, detail: str, do: str) -> Finding:
    """Report that CARICO does not work."""
    return Finding(level=Level.FAIL, what=what, detail=detail, do=do)


def text(found: Iterable[Finding]) -> str:
    """Return a line for each finding, and below it what to do."""
    lines = []
    for finding in found:
        # Details quote the API, Events and conditions.
        lines.append(f"{finding.level.value:<5} {finding.what}: {formats.line(finding.detail)}")
        if finding.do:
            lines.append(f"      -> {formats.line(finding.do)}")
    return "\n".join(lines)


def names(found: list[str]) -> str:
    """Return the first names, and how many more there are."""
    shown = ", ".join(found[:_NAMED])
    return shown if len(found) <= _NAMED else f"{shown} and {len(found) - _NAMED} more"
