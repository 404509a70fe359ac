"""The twin passes messages on as records: each would come out of its bytes exactly as it went in.

So leaving the bytes out changes no run. What the bytes would refuse, this refuses too.
"""

import inspect

import numpy as np
import pytest

from carico_core.domain import messages
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_twin import agents, catalogue, scenario, world
from carico_twin.evaluate import contenders
from carico_twin.nodes import machine, work

MIXED = scenario.Scenario(
    name="mixed",
    hardware=(machine.Hardware(),) * 3,
    jobs=(
        catalogue.job(work.PI, 30),
        catalogue.job(work.GROWS_MEMORY, 8, at_s=4.0),
        catalogue.job(work.SERVER, 3, at_s=1.0),
    ),
    limit_s=60.0,
)


def through_bytes(said: agents.Said) -> agents.Said:
    if isinstance(said, messages.Advertisement):
        return wire.decode_advertisement(wire.encode_advertisement(said), subject=subjects.capacity(said.node))
    return wire.decode_subspace(wire.encode_subspace(said), subject=subjects.subspace(said.node))


def assert_same(sent: agents.Said, got: agents.Said) -> None:
    assert type(sent) is type(got)
    for name in inspect.get_annotations(type(sent)):
        before, after = getattr(sent, name), getattr(got, name)
        if isinstance(before, np.ndarray):
            assert before.tobytes() == after.tobytes(), name
            assert before.shape == after.shape, name
        else:
            assert before == after, name


@pytest.mark.parametrize("name", [contenders.DEFAULT, "node-local", "paper"])
def test_every_message_of_a_run_comes_out_of_its_bytes_as_it_went_in(name: str) -> None:
    seen = {messages.Advertisement: 0, messages.LocalSubspace: 0}
    choice = contenders.all_contenders()[name].choice
    running = world.World(MIXED, choice, seed=1)

    def check(said: agents.Said) -> None:
        assert_same(said, through_bytes(said))
        seen[type(said)] += 1

    running.on_message.append(check)
    running.run()
    assert seen[messages.Advertisement] > 100
    assert seen[messages.LocalSubspace] > 50
