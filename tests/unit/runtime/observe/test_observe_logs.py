"""Log lines: JSON and terminal, libraries' loggers, rate limits, a closed stderr."""

import io
import json
import logging

import numpy as np
import pytest

from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_json_lines_carry_service_logger_level_time_and_fields() -> None:
    out = io.StringIO()
    logs.setup(service="agent", json=None, stream=out)
    logs.get("pipeline", node="n1").bind(seq=3).info("tick", lateness_s=np.float64(0.5), odd=object)
    (line,) = lines(out)
    assert (line["service"], line["logger"], line["level"], line["event"]) == ("agent", "pipeline", "info", "tick")
    assert (line["node"], line["seq"], line["lateness_s"]) == ("n1", 3, 0.5)
    assert str(line["timestamp"]).endswith("Z")


def test_level_hides_what_is_below_it() -> None:
    out = io.StringIO()
    logs.setup(service="agent", json=True, level="info", stream=out)
    logs.get("x").debug("hidden")
    assert out.getvalue() == ""
    with pytest.raises(ValueError, match="expected debug, info"):
        logs.setup(service="agent", level="loud")


def test_terminal_lines_are_plain() -> None:
    out = io.StringIO()
    logs.setup(service="agent", json=False, stream=out)
    logs.get("x").warning("something", why="this")
    assert "something" in out.getvalue()
    assert not out.getvalue().startswith("{")


def test_library_loggers_come_out_the_same_way_with_their_traceback() -> None:
    out = io.StringIO()
    logs.setup(service="agent", json=True, stream=out)
    try:
        raise RuntimeError("lost")
    except RuntimeError:
        logging.getLogger("nats.aio").exception("broken %d", 1)
    (line,) = lines(out)
    assert (line["logger"], line["event"], line["level"]) == ("nats.aio", "broken 1", "error")
    assert "lost" in json.dumps(line["exception"])


def test_a_closed_stderr_does_not_stop_the_service() -> None:
    out = io.StringIO()
    logs.setup(service="agent", json=True, stream=out)
    out.close()
    logs.get("x").error("lost")
    # The line is lost without an exception, and so are those that follow.
    assert out.closed


def test_rate_limited_says_each_key_once_a_period_and_counts_the_rest() -> None:
    out = io.StringIO()
    logs.setup(service="agent", json=True, stream=out)
    clock = clocks.FakeClock()
    limited = logs.RateLimited(logs.get("x"), clock=clock, every_s=60)
    for _ in range(5):
        limited.warning(("n1", "late"), "dropped")
    limited.warning(("n2", "late"), "dropped")
    clock.advance(61)
    limited.warning(("n1", "late"), "dropped")
    assert [line.get("left_out") for line in lines(out)] == [None, None, 4]


def test_rate_limited_keeps_a_bounded_number_of_keys() -> None:
    logs.setup(service="agent", json=True, stream=io.StringIO())
    limited = logs.RateLimited(logs.get("x"), clock=clocks.FakeClock())
    for number in range(logs.RATE_LIMIT_KEYS + 10):
        limited.warning(number, "dropped")
    assert len(limited._logged) == logs.RATE_LIMIT_KEYS
