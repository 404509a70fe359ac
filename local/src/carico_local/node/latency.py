"""How long a container runtime takes to start a container: spec 11's figures, the same for a Pod on every run."""

import math
import random

# Spec 11, container timing: create to start 0.55 s median, 0.98 s at the 90th percentile; a log-normal through both.
MEDIAN_S = 0.55
P90_S = 0.98
_NORMAL_P90 = 1.2815515655446004
_SIGMA = math.log(P90_S / MEDIAN_S) / _NORMAL_P90
# The tail is cut where a runtime would be called broken.
_MOST_S = 4.0
# From a container's exit until its sandbox is deleted and the status says so.
EXIT_S = 0.12


def start_s(seed: str, *, factor: float) -> float:
    """Seconds from the creation of a container to its start, times `factor`."""
    drawn = random.Random(seed).lognormvariate(math.log(MEDIAN_S), _SIGMA)
    return min(drawn, _MOST_S) * factor
