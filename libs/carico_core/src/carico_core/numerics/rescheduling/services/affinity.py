"""The problem: services of equal containers, machines, and traffic between services.

Two services exchange traffic w. Each container of a service sends an equal part, so a machine with the share a of one
service and the share b of the other keeps w min(a, b) of it local ("gained affinity"; RASA, ICDE 2024). Containers of a
service are interchangeable: what counts is how many of each are on each machine.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from carico_core.numerics import arrays

Ints: TypeAlias = npt.NDArray[np.int32]
Bools: TypeAlias = npt.NDArray[np.bool_]

RESOURCES = ("CPU", "memory")
# A sum of requests may exceed the capacity by this share: rounding of the sum.
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Problem:
    """S services, P containers in the order of their services, M machines, E pairs of services with traffic.

    size (S,): containers of each service, at least 1. request (S, 2) and capacity (M, 2): CPU and memory. allowed
    (M, S): whether a machine may have containers of a service. home (P,): each container's machine now. pairs (E, 2):
    two different services. traffic (E,): at least 0, of which the shares count. Arrays are copied and read-only.
    """

    size: Ints
    request: arrays.Array
    capacity: arrays.Array
    allowed: Bools
    home: Ints
    pairs: Ints
    traffic: arrays.Array

    def __post_init__(self) -> None:
        for name, kind in (
            ("size", np.int32), ("request", np.float64), ("capacity", np.float64), ("allowed", np.bool_),
            ("home", np.int32), ("pairs", np.int32), ("traffic", np.float64),
        ):  # fmt: skip
            array = np.array(getattr(self, name), dtype=kind, order="C")
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        services, machines, pairs = len(self.size), len(self.capacity), len(self.traffic)
        shapes = {
            "size": (services,), "request": (services, 2), "capacity": (machines, 2), "allowed": (machines, services),
            "home": (int(self.size.sum()),), "pairs": (pairs, 2), "traffic": (pairs,),
        }  # fmt: skip
        for name, expected in shapes.items():
            got = getattr(self, name).shape
            if got != expected:
                raise ValueError(f"affinity {name}: expected shape {expected}, got {got}")

    @property
    def containers(self) -> int:
        """P, the number of containers."""
        return len(self.home)

    @property
    def service(self) -> Ints:
        """The service (P,) of each container."""
        return np.repeat(np.arange(len(self.size), dtype=np.int32), self.size)

    @property
    def share(self) -> arrays.Array:
        """Each pair's share (E,) of all traffic; zeros if there is none."""
        total = self.traffic.sum()
        return self.traffic / total if total > 0.0 else np.zeros(len(self.traffic))


def counts(problem: Problem, where: Ints) -> Ints:
    """Return how many containers (M, S) of each service are on each machine, for their machines (P,)."""
    counted = np.zeros(problem.allowed.shape, dtype=np.int32)
    np.add.at(counted, (where, problem.service), 1)
    return counted


def local(problem: Problem, counted: Ints) -> float:
    """Return the share of all traffic that stays on a machine, for counts (M, S)."""
    # sum_e w_e sum_m min(X[m, a_e] / size[a_e], X[m, b_e] / size[b_e])
    shares = counted / problem.size
    first, second = problem.pairs.T
    kept = np.minimum(shares[:, first], shares[:, second]).sum(axis=0)
    return float(kept @ problem.share)


def moved(before: Ints, after: Ints) -> int:
    """Return how many containers have moved between two counts (M, S)."""
    return int(np.maximum(0, before - after).sum())


def used(problem: Problem, counted: Ints) -> arrays.Array:
    """Return the CPU and memory (M, 2) that counts (M, S) request on each machine."""
    return counted @ problem.request


def unfit(problem: Problem, counted: Ints) -> list[tuple[int, str]]:
    """Return (machine, resource) wherever counts (M, S) request more than there is."""
    over = used(problem, counted) > problem.capacity * (1.0 + ROUNDING)
    return [(int(machine), RESOURCES[resource]) for machine, resource in np.argwhere(over)]
