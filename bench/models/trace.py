"""The speed of `carico evaluate --trace`: 100 machines of 10 series, a day of five-minute samples."""

import time

import numpy as np

from carico_twin.evaluate.trace import reading, scoring

Row = tuple[str, float, str, str]


def run(quick: bool) -> list[Row]:
    """CPU seconds of all predictors on random walks; with `quick` 20 machines."""
    setup = scoring.Setup(machines=20 if quick else 100)
    walks = np.random.default_rng(1).normal(size=(1000, 288)).cumsum(axis=1)
    series = 50.0 + 40.0 * np.tanh(0.05 * walks)
    began_s = time.process_time()
    scoring.evaluate("walks", reading.Trace(names=("walk",) * 1000, series=series), setup)
    target = "" if quick else "at most 60"
    return [(f"{setup.machines} machines, 10 series, 288 samples: CPU", time.process_time() - began_s, "s", target)]
