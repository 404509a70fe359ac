"""What does not go together with several schedulers that decide at the same time."""

import pytest

from carico_core.domain import errors
from carico_core.runtime.process import settings
from carico_scheduler import settings as setting


def load(*argv: str) -> setting.SchedulerSettings:
    return settings.load(
        setting.SchedulerSettings, prefix=setting.PREFIX, argv=argv, environ={}, program=setting.PROGRAM
    )


def test_one_leads_unless_it_is_set_otherwise() -> None:
    assert load().sharing is setting.Sharing.LEADER
    assert load("--sharing", "shared").sharing is setting.Sharing.SHARED


def test_an_extender_may_share_the_work_without_pods_of_its_own() -> None:
    found = load("--sharing", "shared", "--extender", "--no-own-pods")
    assert (found.extender.enabled, found.own_pods) == (True, False)


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["--no-leader-election"], "--no-leader-election"),
        (["--bind-timeout-s", "5.5", "--leader-renew-s", "9"], "--bind-timeout-s 5.5"),
    ],
)
def test_a_mistake_is_named(argv: list[str], named: str) -> None:
    with pytest.raises(errors.SettingsError, match=named):
        load("--sharing", "shared", *argv)
