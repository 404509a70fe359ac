"""Builders: what is learnt of a class, and VerticalPodAutoscaler objects."""

from typing import Any

from carico_core.domain import usage
from carico_recommender.vpa import objects

MIB = 2.0**20
DAY_S = 86_400.0
WEB = "ReplicaSet/shop/web"


def recommended(
    name: str = WEB, *, cpu: float | None = 0.23, memory: float | None = 115 * MIB, flags: tuple[str, ...] = (),
    containers: tuple[str, ...] = ("main",), running: int = 3, confidence: str = "medium", age_s: float = DAY_S,
) -> usage.Recommended:  # fmt: skip
    """A class of which `cpu` cores and `memory` bytes are recommended, by the default margin of 15 %."""
    wanted = {dim: amount for dim, amount in (("cpu", cpu), ("memory", memory)) if amount is not None}
    return usage.Recommended(
        name=name, requests=wanted, peaks={dim: amount / 1.15 for dim, amount in wanted.items()},
        cpu_bounds=None if cpu is None else (cpu / 2.3, cpu / 1.15), confidence=confidence, flags=flags,
        containers=containers, running=running, measured_s=age_s, age_s=age_s,
    )  # fmt: skip


def vpa(name: str = "web", /, *policies: dict[str, Any], recommender: str = "carico", **target: str) -> dict[str, Any]:
    """An object of the API."""
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"namespace": "shop", "name": name, "resourceVersion": "7", "uid": name},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"} | target,
            "recommenders": [{"name": recommender}],
            "resourcePolicy": {"containerPolicies": list(policies)},
        },
    }


def autoscaler(*policies: dict[str, Any], **target: str) -> objects.Autoscaler:
    """The same, parsed."""
    found = objects.parse(vpa("web", *policies, **target), recommender="carico")
    assert found is not None
    return found
