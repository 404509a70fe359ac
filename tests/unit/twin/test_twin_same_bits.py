"""Runs are the same to the bit as they were when the digests were taken: what makes the twin quicker changes nothing.

Digests hold where numpy, BLAS and libm round as they did there; elsewhere `FINGERPRINT` differs and the runs prove
nothing. They are taken anew, with `python tests/unit/twin/test_twin_same_bits.py`, when a rule of the product, the twin
or a default changes what comes of a run.
"""

import dataclasses
import hashlib
import json
import math
import pathlib
import struct
from typing import Any

import numpy as np
import pytest

from carico_twin import bus, catalogue, machine, scenario, work, world
from carico_twin.evaluate import calibration, contenders

RECORDED = pathlib.Path(__file__).parents[2] / "fixtures" / "twin" / "digests.json"
SEED = 3


def small(name: str, *jobs: scenario.Job, **changes: Any) -> scenario.Scenario:
    made = scenario.Scenario(name=name, hardware=world.uniform(4), jobs=jobs, limit_s=60.0)
    return dataclasses.replace(made, **changes)


def plans() -> list[scenario.Scenario]:
    job = catalogue.job
    busy = dataclasses.replace(work.SERVER, name="wave", busy_at_s=10.0, busy_threads=0.25)
    return [
        small("pi", job(work.PI, 40)),
        small("grows", job(work.GROWS_MEMORY, 12), job(work.QUARTER_CORE, 20)),
        small("oom", job(work.HOLDS_MEMORY, 20), oom_kills=True, limit_s=30.0),
        small(
            "faults",
            job(work.PI, 40),
            job(busy, 8),
            link=bus.Link(delay_s=0.3, loss=0.1),
            nodes_join_at_s=((3, 6.0),),
            agents_die_at_s=((1, 8.0),),
            neighbours=(scenario.Neighbour(node=0, tasks=2.0, at_s=3.0, until_s=9.0),),
            lying_agents=(scenario.LyingAgent(node=2, covers=False),),
            limit_s=25.0,
        ),
        small(
            "published",
            dataclasses.replace(job(work.PI, 25), create_per_s=20.0),
            job(calibration.SKLEARN, 3),
            hardware=(calibration.HARDWARE, machine.Hardware(cores=2.0)),
            runtime=calibration.RUNTIME,
        ),
    ]


def cases() -> list[tuple[scenario.Scenario, str]]:
    ours = (contenders.DEFAULT, "vector", "paper")
    others = ("kube-500m", "trimaran", "oracle")
    return [
        (plan, name)
        for plan in plans()
        for name in (*ours, *(others if plan.name in ("pi", "oom") else ()))
        if not (name == "paper" and plan.name != "pi")
    ]


def digest(run: world.Run) -> str:
    found = hashlib.sha256()
    for pod in run.pods:
        numbers = (
            pod.node, pod.advertised_seq, pod.binds, pod.created_s, pod.bound_s, pod.started_s, pod.ended_s,
            pod.terminal_s, pod.failed, pod.cpu_s,
        )  # fmt: skip
        found.update(pod.uid.encode() + struct.pack(f"<{len(numbers)}d", *numbers))
    for node in run.nodes:
        found.update(struct.pack("<13d", *(getattr(node, each.name) for each in dataclasses.fields(node))))
    found.update(struct.pack("<6d", run.finished, run.end_s, run.events, run.overruns, run.messages, run.lost))
    return found.hexdigest()[:24]


def fingerprint() -> str:
    """What this machine's numpy, BLAS and libm make of some numbers."""
    rng = np.random.default_rng(7)
    found = hashlib.sha256()
    for size in (2, 3, 8, 16):
        square = rng.standard_normal((size, size))
        for made in (*np.linalg.eigh(square @ square.T), square @ square[0], np.cumprod(square[0]), np.exp(square)):
            found.update(np.ascontiguousarray(made).tobytes())
        found.update(struct.pack("<d", float(square[0] @ square[1])))
    for value in rng.random(64).tolist():
        found.update(struct.pack("<3d", math.exp(value), math.log(value), 0.5**value))
    return found.hexdigest()[:24]


def recorded() -> dict[str, str]:
    return dict(json.loads(RECORDED.read_bytes()))


@pytest.mark.parametrize(("plan", "name"), [pytest.param(*case, id=f"{case[0].name}-{case[1]}") for case in cases()])
def test_a_run_is_the_same_to_the_bit(plan: scenario.Scenario, name: str) -> None:
    known = recorded()
    if known["fingerprint"] != fingerprint():
        pytest.skip("numbers round otherwise here than where the digests were taken")
    assert digest(world.run(plan, contenders.all_contenders()[name].choice, seed=SEED)) == known[f"{plan.name}/{name}"]


if __name__ == "__main__":
    every = contenders.all_contenders()
    taken = {f"{plan.name}/{name}": digest(world.run(plan, every[name].choice, seed=SEED)) for plan, name in cases()}
    RECORDED.write_text(json.dumps({"fingerprint": fingerprint(), **taken}, indent=1) + "\n")
