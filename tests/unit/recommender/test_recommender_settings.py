"""Settings of the recommender: defaults, and what is refused."""

import pytest

from carico_core.domain import errors
from carico_core.runtime.process import settings
from carico_recommender import settings as setting


def load(*argv: str) -> setting.RecommenderSettings:
    return settings.load(
        setting.RecommenderSettings, prefix=setting.PREFIX, argv=argv, environ={}, program=setting.PROGRAM
    )


def test_the_defaults_hold() -> None:
    assert (load().name, load().margin, load().change) == ("carico", 0.15, 0.1)


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (("--change", "0.2"), r"--change 0\.2 and --margin 0\.15: expected a change of at most the margin"),
        (("--admission-resources", "cpu,gpu"), "--admission-resources: got 'cpu,gpu', expected cpu, memory or"),
        # Answers would be too old for most of the time.
        (("--interval-s", "300"), "--interval-s: got '300', expected a number from 1 to 60"),
        (("--name", ""), "--name: got none, expected the name in spec.recommenders"),
    ],
)
def test_what_contradicts_is_refused(argv: tuple[str, ...], expected: str) -> None:
    with pytest.raises(errors.SettingsError, match=expected):
        load(*argv)
