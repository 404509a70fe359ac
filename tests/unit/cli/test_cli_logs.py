"""`carico logs` for a person: one line an event, in their own time of day."""

import re

from carico_cli import log_lines

LINE = (
    '{"service":"carico-scheduler","logger":"scheduler","placed":1,"why":"no answer: x","path":"/a","event":"cycle",'
    '"level":"warning","timestamp":"2026-11-21T17:23:10.877548Z"}'
)


def test_an_event_is_a_line_with_its_fields() -> None:
    said = log_lines.readable(LINE, coloured=False)
    assert re.fullmatch(r'\d\d:\d\d:\d\d\.877 warning scheduler: cycle  placed=1 why="no answer: x" path=/a', said)


def test_colour_is_for_what_matters_and_only_where_wanted() -> None:
    assert log_lines.readable(LINE, coloured=True).startswith("\x1b[33m")
    assert "\x1b" not in log_lines.readable(LINE.replace("warning", "info"), coloured=True)


def test_what_is_no_event_stays_as_it_is() -> None:
    for line in ("", "[1] nats-server started", "[]", "{}", '{"a": 1}', "{"):
        assert log_lines.readable(line, coloured=True) == line


def test_nothing_of_a_line_moves_the_cursor() -> None:
    said = log_lines.readable('{"event":"x","got":"\\u001b[2J"}', coloured=False)
    assert "\x1b" not in said
