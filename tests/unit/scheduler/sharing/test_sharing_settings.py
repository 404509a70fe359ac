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


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["--no-leader-election"], "--no-leader-election"),
        (["--no-own-pods"], "extender"),
        (["--bind-timeout-s", "5.5", "--leader-renew-s", "9"], "--bind-timeout-s 5.5"),
    ],
)
def test_a_mistake_is_named(argv: list[str], named: str) -> None:
    with pytest.raises(errors.SettingsError, match=named):
        load("--sharing", "shared", *argv)
