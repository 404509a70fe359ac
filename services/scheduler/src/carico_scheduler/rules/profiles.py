"""Settings of single schedulerNames: `NAME:KEY=VALUE[:KEY=VALUE]`, as in `batch:ceiling=+.1:score=relative`."""

import math
from collections.abc import Collection, Iterable

from carico_scheduler.rules import policy as policies

CEILING, SCORE, PREFERENCES = "ceiling", "score", "preferences"
# Larger offsets leave nothing of a node, or of the agent's ceiling.
OFFSET_MOST = 0.5
EXPECTED = (
    f"NAME:KEY=VALUE[:KEY=VALUE] with the keys {CEILING} (-{OFFSET_MOST:g} to {OFFSET_MOST:g}), {SCORE} "
    f"({', '.join(policies.ScoreMode)}) and {PREFERENCES} (0 to 1)"
)


def parse_profiles(texts: Iterable[str], names: Collection[str]) -> dict[str, policies.Profile]:
    """Return the settings by name. Raises `ValueError`, also for a name that is not among those served.

    >>> str(parse_profiles(["batch:ceiling=+.1:score=relative"], ["carico", "batch"])["batch"])
    'ceiling +0.1, score relative'
    """
    found: dict[str, policies.Profile] = {}
    for text in texts:
        name, *parts = text.split(":")
        if name not in names:
            raise ValueError(f"got {text!r}, expected one of the names served ({', '.join(sorted(names))}) before ':'")
        if name in found:
            raise ValueError(f"got {name!r} twice, expected all settings of a name together")
        found[name] = _parse(text, parts)
    return found


def _parse(text: str, parts: list[str]) -> policies.Profile:
    pairs = [part.partition("=") for part in parts]
    values = {key: value for key, _, value in pairs}
    if not parts or len(values) < len(parts) or not values.keys() <= {CEILING, SCORE, PREFERENCES}:
        raise ValueError(f"got {text!r}, expected {EXPECTED}")
    try:
        score = values.get(SCORE)
        return policies.Profile(
            ceiling_offset=_number(values.get(CEILING), -OFFSET_MOST, OFFSET_MOST) or 0.0,
            score=None if score is None else policies.ScoreMode(score),
            lean=_number(values.get(PREFERENCES), 0.0, 1.0),
        )
    except ValueError:
        raise ValueError(f"got {text!r}, expected {EXPECTED}") from None


def _number(text: str | None, least: float, most: float) -> float | None:
    """Return the number; None without one. Raises `ValueError`."""
    if text is None:
        return None
    number = float(text)
    if math.isnan(number) or not least <= number <= most:
        raise ValueError(text)
    return number
