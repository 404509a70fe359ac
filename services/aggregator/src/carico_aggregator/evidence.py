"""What the nodes measured of each class of Pods, as one estimate of the cluster.

A node's cost of a class is the cluster's plus a difference between nodes of about a fifth of it, so the weight of a
node's own estimate (mean c, variance v) is 1 / (v + (0.2 c)^2) (design, section 7, step 6). The smaller a cost and the
surer its node, the more it weighs: so one that is far from what the others say is left out (`trust.among`).
"""

import collections
import math
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import numpy as np

from carico_aggregator import trust
from carico_core.domain import fusion, messages
from carico_core.wire import fields

# What was said, and the place in the order of reports of the node that says it.
_ByDimension: TypeAlias = tuple[int, Mapping[str, messages.Estimate]]
_Said: TypeAlias = tuple[int, messages.Estimate]


def fuse(
    reports: Iterable[Mapping[str, messages.ClassEvidence]], doubted: set[int] | None = None
) -> dict[str, messages.ClassEvidence]:
    """Class -> the fusion of what every node measured; Pods are summed.

    Whatever single nodes say, the result is within the bounds that readers of the model hold it to: where there are
    more classes than they take, those with most Pods are kept. `doubted` is given the places of the reports of which
    something was left out.
    """
    doubts = set[int]() if doubted is None else doubted
    by_class: dict[str, list[tuple[int, messages.ClassEvidence]]] = {}
    running: list[float] = []
    for place, report in enumerate(reports):
        running.append(sum(found.pods for found in report.values()))
        for name, found in report.items():
            by_class.setdefault(name, []).append((place, found))
    most = trust.borne_out(running, alone=trust.PODS_ALONE)
    # Classes of most Pods are told first, and what all nodes call a typical Pod goes by them.
    boasting = {place for place, pods in enumerate(running) if pods > most}
    doubts.update(boasting)
    fused = {name: _fuse_class(found, doubts, boasting) for name, found in sorted(by_class.items())}
    return largest(fused, fields.CLASSES_MAX)


def _fuse_class(
    found: list[tuple[int, messages.ClassEvidence]], doubted: set[int], boasting: set[int]
) -> messages.ClassEvidence:
    lifetimes = [(place, each.lifetime_s) for place, each in found if each.lifetime_s is not None]
    return messages.ClassEvidence(
        pods=min(sum(each.pods for place, each in found if place not in boasting), int(fields.PODS_MAX)),
        cost=_fuse_dimensions([(place, each.cost) for place, each in found], doubted),
        growth=_fuse_dimensions([(place, each.growth) for place, each in found], doubted),
        lifetime_s=_fuse_estimates(lifetimes, doubted) if lifetimes else None,
    )


def largest(found: Mapping[str, messages.ClassEvidence], count: int) -> dict[str, messages.ClassEvidence]:
    """The `count` classes with most Pods, in the order of their names."""
    kept = sorted(found, key=lambda name: (-found[name].pods, name))[:count]
    return {name: found[name] for name in sorted(kept)}


def _fuse_dimensions(found: list[_ByDimension], doubted: set[int]) -> dict[str, messages.Estimate]:
    # Nearly all nodes name the same dimensions: counted by what they name together.
    together = collections.Counter(tuple(named) for _, named in found)
    counts: collections.Counter[str] = collections.Counter()
    for named, count in together.items():
        counts.update(dict.fromkeys(named, count))
    # Nodes agree on few dimensions; who makes up others cannot have the model refused.
    names = sorted(counts, key=lambda name: (-counts[name], name))[: fields.DIMS_MAX]
    return {
        name: _fuse_estimates([(place, each[name]) for place, each in found if name in each], doubted)
        for name in sorted(names)
    }


def _fuse_estimates(found: list[_Said], doubted: set[int]) -> messages.Estimate:
    # A model of 20,000 nodes is made every second: plain Python took a fifth of an aggregator's time for it.
    means, sds = np.array([each.mean for _, each in found]), np.array([each.sd for _, each in found])
    kept = trust.among(means)
    if kept is not None:
        doubted.update(place for (place, _), is_kept in zip(found, kept.tolist(), strict=True) if not is_kept)
        means, sds = means[kept], sds[kept]
    # weight = 1 / (v + (0.2 c)^2);   mean = sum w c / sum w;   variance = 1 / sum w
    variances = sds**2 + (fusion.BETWEEN_NODES * means) ** 2
    exact = means[variances < fusion.EXACT_BELOW]
    if exact.size:
        return messages.Estimate(mean=float(exact.mean()), sd=0.0)
    weights = 1.0 / variances
    total = float(weights.sum())
    mean = float((weights * means).sum()) / total
    bound = fields.QUANTITY_MAX
    return messages.Estimate(mean=max(-bound, min(mean, bound)), sd=min(math.sqrt(1.0 / total), bound))
