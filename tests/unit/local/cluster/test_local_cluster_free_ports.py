"""Ports that are chosen before anything listens on them, by several processes at the same time."""

import collections
import itertools
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from carico_local.cluster import free_ports

COUNT = 20
CHOOSES = f"""
import json, sys
from carico_local.cluster import free_ports
print(json.dumps(free_ports.choose("one name", {COUNT})), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[collections.deque[int]]:
    """The test's own reservations, released at its end."""
    found: collections.deque[int] = collections.deque()
    monkeypatch.setattr(free_ports, "_kept", found)
    yield found
    for mark in found:
        os.close(mark)


def test_ports_stay_with_the_name_and_skip_what_is_taken() -> None:
    first = free_ports.choose("a", 3, reserve=lambda _: True)
    assert first == free_ports.choose("a", 3, reserve=lambda _: True)
    assert first != free_ports.choose("b", 3, reserve=lambda _: True)
    assert first[0] not in free_ports.choose("a", 3, reserve=lambda port: port != first[0])
    with pytest.raises(OSError, match="no 3 free ports"):
        free_ports.choose("a", 3, reserve=lambda _: False)


@pytest.mark.usefixtures("kept")
def test_processes_that_choose_at_the_same_time_get_different_ports() -> None:
    started = [
        subprocess.Popen([sys.executable, "-c", CHOOSES], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    try:
        found = [json.loads(each.stdout.readline()) for each in started if each.stdout is not None]
        chosen = list(itertools.chain(*found))
        assert len(set(chosen)) == len(chosen) == len(started) * COUNT
        assert not any(map(free_ports.reserve, chosen)), "also for later ones"
        assert all(map(free_ports.is_free, chosen)), "for what listens on it"
    finally:
        for each in started:
            each.kill()
            each.communicate()
    assert free_ports.reserve(chosen[0]), "after a kill"


@pytest.mark.usefixtures("kept")
def test_a_port_on_which_something_listens_is_not_chosen() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not free_ports.reserve(server.getsockname()[1])


def test_each_call_gives_another_port(
    kept: collections.deque[int], monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    # As calls whose search begins at one place.
    monkeypatch.setattr(free_ports, "_calls", itertools.repeat(0))
    assert len({free_ports.choose_one() for _ in range(5)}) == 5
    monkeypatch.setattr(free_ports, "KEPT", 3)
    free_ports.choose_one()
    free_ports.choose_one()
    assert len(kept) == 5, "each releases an older one"
