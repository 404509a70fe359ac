"""Schedulers that share the work, under faults: each Pod is bound once, where there is room, by a stored claim."""

import pathlib
import random

import pytest

from carico_core.runtime.kube import api_actions, api_client
from tests.chaos.claims import members, model, soak

# Every card of the deck comes.
RUN = soak.Run(commits=1000, schedulers=4, every_s=1.5, longest_s=3.0, waits_for_orphans=False)
THREE = soak.Run(seed=2, commits=600, schedulers=3, servers=3, every_s=1.5, longest_s=3.0, waits_for_orphans=False)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("run", [RUN, THREE], ids=["one server", "one of three servers"])
async def test_claims_hold_under_kills_stops_cuts_and_restarts_of_nats(run: soak.Run, tmp_path: pathlib.Path) -> None:
    done, made = await soak.record(tmp_path, run)
    print(*soak.figures(done, made, 0.0), sep="\n")
    assert done.violations == []
    assert done.commits >= run.commits
    assert set(done.faults) == {f"{kind} {part}" for kind, part in run.cards}
    assert made.largest == model.ROOM


@pytest.mark.upstream
@pytest.mark.timeout(7200)
async def test_a_hundred_thousand_commits_of_eight_schedulers(tmp_path: pathlib.Path) -> None:
    done, made = await soak.record(tmp_path, soak.Run())
    print(*soak.figures(done, made, 0.0), sep="\n")
    assert done.violations == []


async def test_the_model_reports_a_node_above_its_room_and_a_bind_without_a_claim(tmp_path: pathlib.Path) -> None:
    made = model.Model(tmp_path, rng=random.Random(0))
    async with made.serving():
        made.write_kubeconfig(tmp_path / "kubeconfig", port=made.port)
        settings = api_client.KubeSettings(kubeconfig=str(tmp_path / "kubeconfig"))
        client = await api_client.connect(settings, clock=model.CLOCK, user_agent="test")
        made.create_pods()
        for number, uid in enumerate(sorted(made.waiting)[: model.ROOM + 1]):
            await api_actions.bind(
                client, namespace="default", name=made.names[uid], uid=uid, node="node-0", timeout_s=5.0
            )
            assert made.violations == [] or number == model.ROOM
        await client.close()
    assert len(made.violations) == 1
    assert f"node-0 has {model.ROOM + 1} Pods and room for {model.ROOM}" in made.violations[0]
    done = soak.Soak(RUN, made, members.servers(tmp_path, 1), bus=None)  # type: ignore[arg-type]
    assert len(done.unclaimed()) == model.ROOM + 1
    assert len(done.lost()) == model.WAITING_MOST - model.ROOM - 1
