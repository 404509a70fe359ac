"""Models of the agent on the memory bus: its own, and the cluster's, of which bad ones are dropped and counted."""

import random

import numpy as np

from carico_core.wire import messages as wire
from carico_core.wire import subjects
from tests.tools.memory import memory_bus
from tests.unit.agent import agent_site


async def test_the_own_model_is_queued_at_each_update(rig: agent_site.Make) -> None:
    one = rig()
    one.start()
    await one.seconds(1)
    first = one.hub.queue[agent_site.SUBSPACE]
    one.cpu.value = 0.9
    await one.seconds(1)
    newest = wire.decode_subspace(one.hub.queue[agent_site.SUBSPACE], subject=agent_site.SUBSPACE)
    assert newest.seq > wire.decode_subspace(first, subject=agent_site.SUBSPACE).seq
    assert (newest.dims, newest.weight, newest.scale.tolist()) == (("cpu", "memory"), 4.0, [8.0, 8e9])


async def test_the_clusters_model_is_followed_and_bad_ones_are_counted(rig: agent_site.Make) -> None:
    one = rig()
    one.start()
    await one.seconds(2)
    assert one.agent.state is not None
    assert not one.agent.state.federated
    sender = memory_bus.MemoryBus(one.hub)
    await sender.publish(subjects.MODEL, b"not a model")
    await sender.publish(subjects.MODEL, agent_site.model(5, dims=("disk", "net")))
    await sender.publish(subjects.MODEL, agent_site.model(6))
    await sender.publish(subjects.MODEL, agent_site.model(6))
    await sender.publish(subjects.MODEL, agent_site.model(3))
    assert one.value("models_total") == 1
    one.clock.advance(4.0)
    assert one.value("model_age_seconds") >= 4.0
    assert one.value("model_drops_total", reason="replayed") == 2
    assert one.value("model_drops_total", reason="wrong_shape") == 1
    assert one.value("model_drops_total", reason="undecodable") == 1
    await one.seconds(1)
    assert one.agent.state.federated


async def test_a_model_no_share_could_make_is_dropped(rig: agent_site.Make) -> None:
    one = rig()
    await one.seconds(1)
    one.agent.on_model(subjects.MODEL, agent_site.model(1, gram=np.array([[1e9, 0.0], [0.0, 1e9]])))
    assert one.value("model_drops_total", reason="out_of_range") == 1
    assert one.value("models_total") == 0


async def test_ten_thousand_mutated_models_stop_nothing(rig: agent_site.Make) -> None:
    one = rig()
    await one.seconds(1)
    rng = random.Random(7)
    good = bytearray(agent_site.model(1))
    for _ in range(10_000):
        bad = bytearray(good)
        for _ in range(rng.randint(1, 8)):
            bad[rng.randrange(len(bad))] = rng.randrange(256)
        one.agent.on_model(subjects.MODEL, bytes(bad[: rng.randint(1, len(bad))]))
    await one.seconds(1)
    assert one.agent.state is not None
    assert np.isfinite(one.agent.state.estimate.capacity)
