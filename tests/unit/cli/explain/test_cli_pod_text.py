"""An answer about a Pod as text."""

import time
from collections.abc import Iterator

import pytest

from carico_cli.explain import pod_text
from carico_cli.output import words
from carico_core.domain import judgement
from carico_core.wire.kubernetes.pods import containers


def test_the_answer_begins_with_the_judgement() -> None:
    judged = judgement.Judgement(
        never=("1 Ti of memory (node-1 has the most: 8 Gi)", "the label disc"), hints=("did you mean disk?",)
    ).as_json()
    answer = {
        "namespace": "default", "pod": "huge", "state": "waiting", "why": "0/2 nodes fit", "judgement": judged,
        "waited_s": 12.0, "attempts": 0, "next_try_s": None, "before": 84,
    }  # fmt: skip
    lines = pod_text.text(answer, now_ns=0).splitlines()
    assert lines == [
        "Pod default/huge waits, and can never fit as it is",
        "  no node has 1 Ti of memory (node-1 has the most: 8 Gi), nor the label disc",
        "  did you mean disk?",
        "  0/2 nodes fit",
        "  for 12.0 s; 84 Pods wait before it; 0 binds tried; next try when something",
        "    changes that could help",
    ]
    assert max(map(len, lines)) <= words.WIDTH


@pytest.fixture
def in_new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The local time of this process."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "EST5EDT,M3.2.0,M11.1.0")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_new_york")
def test_the_events_of_a_pod_that_its_node_does_not_start_are_quoted() -> None:
    event = {"type": "Warning", "reason": "Failed", "message": "no such image", "lastTimestamp": "2026-11-21T10:00:00Z"}
    answer = {
        "namespace": "default", "pod": "bad", "state": "bound", "node": "node-1", "phase": "Pending", "why": "room",
        "containers": containers.troubles(
            {"containerStatuses": [{"name": "a", "state": {"waiting": {"reason": "ErrImagePull"}}}]}
        ),
        "events": [{**event, "reason": "Scheduled"}, {**event, "count": 3}],
    }  # fmt: skip
    text = pod_text.text(answer, now_ns=0)
    assert "  its last Events:\n    2026-11-21 05:00:00  Warning  Failed (3 times): no such image\n" in text
    assert "Scheduled" not in text
    many = [{**event, "message": f"number {number}"} for number in range(100_000)]
    text = pod_text.text({**answer, "events": many}, now_ns=0)
    assert "number 99999" in text
    assert len(text.splitlines()) < 20
    away = {name: value for name, value in answer.items() if name != "events"}
    text = pod_text.text({**away, "events_trouble": "the Kubernetes API does not answer"}, now_ns=0)
    assert "  its Events are not known: the Kubernetes API does not answer\n" in text
