"""Settings of single schedulerNames: what they change, for their own Pods only, and which texts are refused."""

import random

import pytest

from carico_core.domain import cluster, errors
from carico_core.runtime.process import settings
from carico_scheduler import settings as setting
from carico_scheduler.decide import cycle
from carico_scheduler.rules import policy, profiles
from carico_scheduler.state import node_state, state
from tests.unit.scheduler import objects
from tests.unit.scheduler.answers import answering

NOW_S = 1000.0
NAMES = frozenset({"carico", "web", "batch"})


def make_state(headroom: dict[str, dict[str, float]], **by_name: policy.Profile) -> state.State:
    """Nodes of 4 cores and 8 GiB with this headroom, where a Pod costs a core and a GiB."""
    made = state.State(policy.Policy(names=NAMES, profiles=by_name), random.Random(0))
    for name, each in headroom.items():
        made.put_node(objects.make_node(name))
        said = objects.with_headroom(
            objects.make_advertisement(name, 9.0, pods=1), each, {"cpu": 1.0, "memory": 2.0**30}
        )
        made.put_advertisement(node_state.Heard(advertisement=said, sampled_s=NOW_S), NOW_S)
    return made


def place(made: state.State, name: str, scheduler: str) -> list[str]:
    """The node of each Pod that one cycle places."""
    made.put_pod(objects.make_pod(name, scheduler_name=scheduler), NOW_S)
    outcome = cycle.Cycle(made.fleet.policy).run(made.fleet.snapshot(NOW_S), made.queue, most=9)
    return [each.row.node.name for each in outcome.placed]


def test_an_offset_of_the_ceiling_is_for_pods_of_that_name_alone() -> None:
    def make() -> state.State:
        full = {"cpu": 1.2, "memory": 8 * 2.0**30}
        return make_state({"node-0": full}, web=policy.Profile(ceiling_offset=-0.1))

    assert place(make(), "plain", "carico") == ["node-0"]
    # A tenth of 4 cores less: room for .8 of a Pod.
    assert place(make(), "server", "web") == []


def test_an_offset_may_fill_a_node_beyond_the_agents_ceiling() -> None:
    made = make_state({"node-0": {"cpu": 0.7, "memory": 1e12}}, batch=policy.Profile(ceiling_offset=0.1))
    assert place(made, "plain", "carico") == []
    assert place(made, "job", "batch") == ["node-0"]


def test_memory_has_the_same_offset() -> None:
    room = {"cpu": 9.0, "memory": 1.5 * 2.0**30}
    made = make_state({"node-0": room}, web=policy.Profile(ceiling_offset=-0.1))
    assert place(made, "server", "web") == []
    assert place(made, "plain", "carico") == ["node-0"]


def test_a_parked_pod_is_tried_again_when_there_is_room_under_its_own_ceiling() -> None:
    made = make_state({"node-0": {"cpu": 0.5, "memory": 1e12}}, batch=policy.Profile(ceiling_offset=0.1))
    assert place(made, "job", "batch") == []
    for seq, headroom, is_woken in ((2, 0.55, False), (3, 0.65, True)):
        said = objects.with_headroom(
            objects.make_advertisement("node-0", 9.0, pods=1, seq=seq), {"cpu": headroom, "memory": 1e12}, {"cpu": 1.0}
        )
        made.put_advertisement(node_state.Heard(advertisement=said, sampled_s=NOW_S), NOW_S)
        assert made.queue.may_take(NOW_S) is is_woken


def test_a_score_of_its_own() -> None:
    made = make_state({}, batch=policy.Profile(score=policy.ScoreMode.ABSOLUTE))
    for name, cores, headroom in (("large", 16.0, 8.0), ("small", 2.0, 4.0)):
        made.put_node(objects.make_node(name, allocatable_cores=cores))
        said = objects.with_headroom(objects.make_advertisement(name, 9.0), {"cpu": headroom}, {"cpu": 1.0})
        made.put_advertisement(node_state.Heard(advertisement=said, sampled_s=NOW_S), NOW_S)
    assert place(made, "plain", "carico") == ["small"]
    assert place(made, "job", "batch") == ["large"]


@pytest.mark.parametrize(("lean", "expected"), [(0.0, "disliked"), (0.9, "other")])
def test_preferences_count_as_the_name_is_set(lean: float, expected: str) -> None:
    made = make_state({}, web=policy.Profile(lean=lean))
    taint = cluster.Taint(key="slow", value="", effect="PreferNoSchedule")
    for name, taints, room in (("disliked", (taint,), 8.0), ("other", (), 4.0)):
        made.put_node(objects.make_node(name, taints=taints))
        said = objects.make_advertisement(name, room)
        made.put_advertisement(node_state.Heard(advertisement=said, sampled_s=NOW_S), NOW_S)
    assert place(made, "server", "web") == [expected]


async def test_explain_states_the_settings_of_the_name() -> None:
    own = {"carico": policy.Profile(ceiling_offset=-0.1, score=policy.ScoreMode.RELATIVE)}
    desk = answering.Desk(rules=policy.Policy(profiles=own))
    desk.state.put_pod(objects.make_pod(), NOW_S)
    answer = await desk.ask("pod.explain", pod="pod-0")
    assert answer["profile"] == "ceiling -0.1, score relative"


def load(*argv: str) -> setting.SchedulerSettings:
    return settings.load(setting.SchedulerSettings, prefix="scheduler", argv=argv, environ={}, program="test")


def test_settings_become_profiles() -> None:
    chosen = load("--names", "carico,web", "--profiles", "web:ceiling=-0.1:preferences=0.8,carico:score=absolute")
    assert chosen.rules().profiles == {
        "web": policy.Profile(ceiling_offset=-0.1, lean=0.8),
        "carico": policy.Profile(score=policy.ScoreMode.ABSOLUTE),
    }


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("wbe:ceiling=0.1", "expected one of the names served (carico, web) before ':'"),
        ("web", profiles.EXPECTED),
        ("web:", profiles.EXPECTED),
        ("web:ceiling", profiles.EXPECTED),
        ("web:ceiling=much", profiles.EXPECTED),
        ("web:ceiling=0.6", profiles.EXPECTED),
        ("web:ceiling=nan", profiles.EXPECTED),
        ("web:score=best", profiles.EXPECTED),
        ("web:preferences=-1", profiles.EXPECTED),
        ("web:threshold=1", profiles.EXPECTED),
        ("web:ceiling=0.1:ceiling=0.2", profiles.EXPECTED),
        ("web:ceiling=0.1,web:score=relative", "got 'web' twice"),
    ],
)
def test_texts_that_cannot_be_are_one_clear_line(text: str, says: str) -> None:
    with pytest.raises(errors.SettingsError) as caught:
        load("--names", "carico,web", "--profiles", text)
    assert says in str(caught.value)
    assert "--profiles" in str(caught.value)
    assert "\n" not in str(caught.value)
