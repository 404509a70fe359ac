"""What nodes measured of each class of Pods, as subspaces, partials and the model carry it."""

from collections.abc import Mapping

from carico_core.domain import messages
from carico_core.wire import fields

Evidence = Mapping[str, messages.ClassEvidence]


def format_evidence(evidence: Evidence) -> dict[str, object]:
    """Class name -> pods, cost, growth and lifetime; what is not known is left out."""
    return {name: _format_class(item) for name, item in evidence.items()}


def parse_evidence(message: fields.Fields) -> dict[str, messages.ClassEvidence]:
    """The field `evidence` of a message. Raises `MessageError`."""
    return message.members("evidence", _parse_class)


def _format_class(item: messages.ClassEvidence) -> dict[str, object]:
    values: dict[str, object] = {"pods": int(item.pods), "cost": _format_estimates(item.cost)}
    if item.growth:
        values["growth"] = _format_estimates(item.growth)
    if item.lifetime_s is not None:
        values["lifetime_s"] = _format_estimate(item.lifetime_s)
    return values


def _format_estimates(estimates: Mapping[str, messages.Estimate]) -> dict[str, object]:
    return {name: _format_estimate(estimate) for name, estimate in estimates.items()}


def _format_estimate(estimate: messages.Estimate) -> dict[str, float]:
    return {"mean": float(estimate.mean), "sd": float(estimate.sd)}


def _parse_class(item: fields.Fields) -> messages.ClassEvidence:
    return messages.ClassEvidence(
        pods=item.integer("pods", maximum=int(fields.PODS_MAX)),
        cost=item.estimates("cost"),
        growth=item.estimates("growth") if item.has("growth") else {},
        lifetime_s=item.estimate("lifetime_s") if item.has("lifetime_s") else None,
    )
