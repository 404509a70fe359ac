"""What the short ways through messages share: see `capacity_quick` and `subspace_quick`."""

from typing import Any

from carico_core.domain import messages
from carico_core.wire import fields


class Unusual(Exception):
    """Something a short way does not take."""


def estimates(value: Any) -> dict[str, messages.Estimate]:
    """Dimension name -> estimate. Raises `Unusual`, and `KeyError` or `TypeError` for what is no estimate."""
    if type(value) is not dict or not fields.are_names(tuple(value)):
        raise Unusual
    found = {}
    for name, item in value.items():
        mean, sd = item["mean"], item["sd"]
        if type(mean) is not float or type(sd) is not float or type(item) is not dict:
            raise Unusual
        if not (abs(mean) <= fields.QUANTITY_MAX and 0.0 <= sd <= fields.QUANTITY_MAX):
            raise Unusual
        found[name] = messages.Estimate(mean=mean, sd=sd)
    return found
