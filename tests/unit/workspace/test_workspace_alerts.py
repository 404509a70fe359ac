"""What alerts say."""

import re

from tests.tools import observe

# A number before a noun that is plural whatever the number is; rates and shares are no counts.
_ALWAYS_PLURAL = re.compile(r"\{\{ \$value(?: \| humanize)? \}\} (?!messages a second)\w+s\b")
# Its expression is true from four on.
_MANY = {"The leader has changed {{ $value | humanize }} times in one hour."}


def test_no_alert_says_1_nodes() -> None:
    said = {rule["annotations"]["summary"] for rule in observe.alerts()}
    assert len(said) > 30
    assert {each for each in said if _ALWAYS_PLURAL.search(each)} == _MANY
