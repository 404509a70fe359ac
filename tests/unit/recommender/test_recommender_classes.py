"""What the aggregators recommend, by their own answers, and what is done without one."""

import asyncio
from collections.abc import Callable

import orjson
import pytest

from carico_aggregator import recommendations
from carico_core.domain import errors
from carico_core.runtime.observe import metrics
from carico_core.runtime.process import clock as clocks
from carico_core.wire import messages
from carico_recommender import classes, instruments
from tests.unit.aggregator import test_aggregator_usage

RULE = {"percentile": 0.9, "margin": 0.15}
MANY, NODES = 1500, 3
usages = test_aggregator_usage


class Bus:
    """An aggregator that answers by `answer`."""

    def __init__(self, answer: Callable[[bytes], bytes]) -> None:
        self.answer = answer
        self.asked: list[bytes] = []

    async def request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes:
        assert subject == "carico.v1.query.aggregator.recommend"
        self.asked.append(payload)
        return self.answer(payload)


def answer(question: bytes) -> bytes:
    """The answer of an aggregator that has learnt many classes."""
    # Of a single node fewer classes are kept.
    known = usages.known_of(
        *(
            usages.of_classes(
                f"node-{node}",
                {
                    f"ReplicaSet/shop/web-{number}": usages.used(pods=8, seconds=100.0)
                    for number in range(node, MANY, NODES)
                },
            )
            for node in range(NODES)
        )
    )
    return recommendations.answer(known, {}, question, usages.NOW_NS + 3600 * 10**9)


class Asked:
    """Classes, with their clock and metrics."""

    def __init__(self) -> None:
        self.clock = clocks.FakeClock()
        self.metrics = metrics.Metrics("recommender")
        self.classes = classes.Classes(RULE, instruments.Instruments(self.metrics), clock=self.clock)

    def ask(self, bus: Bus) -> bool:
        return asyncio.run(self.classes.ask(bus))


def test_all_pages_of_an_aggregators_answer_are_taken_in() -> None:
    made, bus = Asked(), Bus(answer)
    assert made.ask(bus)
    assert len(bus.asked) > 1
    assert orjson.loads(bus.asked[0]) == RULE
    assert made.metrics.value("classes") == MANY
    found = made.classes.get("ReplicaSet/shop/web-7")
    assert found is not None
    # The percentile's bucket ends at the peak: half the margin above it, and 15 % more of memory.
    assert found.requests == {"cpu": 0.538, "memory": 115 * 2.0**20}
    assert found.peaks == {"cpu": 0.5, "memory": 100 * 2.0**20}
    assert (found.containers, found.running, found.flags) == (("main",), 1, ())
    assert found.cpu_bounds is not None
    assert made.classes.get("ReplicaSet/shop/unknown") is None
    assert made.classes.trouble() is None


def refuse(_: bytes) -> bytes:
    raise errors.BusUnavailable("no answer")


@pytest.mark.parametrize("bad", [refuse, lambda _: b"{}", lambda _: b'{"classes": [{}], "complete": true}'])
def test_without_a_usable_answer_the_one_before_stays_and_ages(bad: Callable[[bytes], bytes]) -> None:
    made = Asked()
    assert made.classes.trouble() == "no aggregator has been asked yet"
    assert made.ask(Bus(answer))
    assert not made.ask(Bus(bad))
    assert made.classes.get("ReplicaSet/shop/web-7") is not None
    assert made.classes.trouble() is None
    made.clock.advance(classes.STALE_S)
    assert not made.classes.is_current
    assert (made.classes.trouble() or "").startswith("no answer of an aggregator: ")
    assert made.metrics.value("ask_errors_total") == 1.0


def test_an_answer_that_breaks_off_after_a_page_is_not_taken_in() -> None:
    made = Asked()

    def first_page_only(question: bytes) -> bytes:
        if b"after" in question:
            raise errors.BusUnavailable("the aggregator is gone")
        return answer(question)

    assert not made.ask(Bus(first_page_only))
    assert made.classes.get("ReplicaSet/shop/web-7") is None
    assert not made.classes.is_current


def test_a_page_names_its_bad_field() -> None:
    page = orjson.loads(answer(b"{}"))
    page["classes"][0]["requests"]["cpu"] = "lots"
    with pytest.raises(errors.MessageError, match="requests"):
        messages.decode_recommended(orjson.dumps(page))
