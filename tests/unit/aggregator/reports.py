"""Local subspaces as agents send them, drawn at random from a seed."""

import numpy as np

from carico_core.domain import messages

SECOND_NS = 1_000_000_000


def report(
    node: str, seq: int, *, seed: int = 0, boot: str = "0" * 16, ts_ns: int | None = None, weight: float = 4.0,
    dims: tuple[str, ...] = ("cpu", "memory"), cost: float = 1.0,
) -> messages.LocalSubspace:  # fmt: skip
    rng = np.random.default_rng([seed, seq, *node.encode()])
    batch = rng.random((len(dims), 10))
    u, sigma, _ = np.linalg.svd(batch / np.sqrt(10.0), full_matrices=False)
    stamp = seq * SECOND_NS if ts_ns is None else ts_ns
    return messages.LocalSubspace(
        node=node, boot=boot, seq=seq, ts_ns=stamp, sampled_at_ns=stamp, dims=dims, u=u, sigma=sigma, samples=10,
        weight=weight, scale=np.array([8.0, 8e9, 1.0][: len(dims)]),
        evidence={"*": messages.ClassEvidence(pods=2, cost={"cpu": messages.Estimate(mean=cost, sd=0.1)})},
        peak_pods_per_core=seq / 10.0,
    )  # fmt: skip
