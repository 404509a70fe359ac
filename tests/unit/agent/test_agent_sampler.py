"""When samples are taken."""

import random

import pytest

from carico_agent import sampler
from carico_core.runtime.process import clock as clocks


def test_agents_do_not_sample_in_step_and_late_ones_skip() -> None:
    clock = clocks.FakeClock()
    phases = [
        sampler.Sampler(lambda _, __: None, period_s=0.1, clock=clock, rng=random.Random(boot))._phase_s
        for boot in ("a", "b", "c", "d")
    ]
    assert len({round(phase, 3) for phase in phases}) == 4
    assert all(0 <= phase < 0.1 for phase in phases)
    one = sampler.Sampler(lambda _, __: None, period_s=0.1, clock=clock, rng=random.Random(1))
    one._due_s = 10.0
    assert one.next_due(10.05) == 0
    assert one._due_s == pytest.approx(10.1)
    assert one.next_due(10.45) == 3
    assert one._due_s == pytest.approx(10.5)


async def test_a_sampler_whose_tick_fails_ends_with_its_error() -> None:
    def fail(_: float, __: int) -> None:
        raise RuntimeError("bug")

    one = sampler.Sampler(fail, period_s=0.001, clock=clocks.SystemClock(), rng=random.Random(1))
    with pytest.raises(RuntimeError, match="bug"):
        await one.run()
