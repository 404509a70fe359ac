"""`carico logs` for a person: one line an event, in their own time of day."""

import contextlib
import pathlib
import re

import pytest

from carico_cli.clusters import logs
from carico_local.cluster import folders, processes
from tests.tools import carico_cli

LINE = (
    '{"service":"carico-scheduler","logger":"scheduler","placed":1,"why":"no answer: x","path":"/a","event":"cycle",'
    '"level":"warning","timestamp":"2026-11-21T17:23:10.877548Z"}'
)


def test_an_event_is_a_line_with_its_fields() -> None:
    said = logs.readable(LINE, coloured=False)
    assert re.fullmatch(r'\d\d:\d\d:\d\d\.877 warning scheduler: cycle  placed=1 why="no answer: x" path=/a', said)


def test_colour_is_for_what_matters_and_only_where_wanted() -> None:
    assert logs.readable(LINE, coloured=True).startswith("\x1b[33m")
    assert "\x1b" not in logs.readable(LINE.replace("warning", "info"), coloured=True)


def test_what_is_no_event_stays_as_it_is() -> None:
    for line in ("", "[1] nats-server started", "[]", "{}", '{"a": 1}', "{"):
        assert logs.readable(line, coloured=True) == line


def test_nothing_of_a_line_moves_the_cursor() -> None:
    said = logs.readable('{"event":"x","got":"\\u001b[2J"}', coloured=False)
    assert "\x1b" not in said


def test_following_a_log_ends_with_a_line_if_the_cluster_was_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    log = tmp_path / "carico" / "shop" / "logs" / "nats.log"
    log.parent.mkdir(parents=True)
    log.write_text("[1] started\n")
    monkeypatch.setattr("time.sleep", lambda _: log.unlink())
    assert carico_cli.run(monkeypatch, "logs", "nats", "-f", "--name", "shop") == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == ("[1] started\n", "carico: cluster 'shop' was ended and its logs were removed\n")


def test_following_a_log_ends_with_a_line_if_its_cluster_has_stopped_writing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    paths = folders.Paths(tmp_path / "carico" / "shop")
    log = paths.log("nats")
    log.parent.mkdir(parents=True)
    log.write_text("[1] started\n")
    runs, looks = contextlib.ExitStack(), list[float]()

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 10:
            runs.enter_context(folders.acquire(paths))
        elif len(looks) == 100:
            log.write_text("[1] started\n[2] ended\n")
            runs.close()

    monkeypatch.setattr("time.sleep", sleep)
    assert carico_cli.run(monkeypatch, "logs", "nats", "-f", "--name", "shop") == 0
    said = capsys.readouterr()
    assert said.out == "[1] started\n[2] ended\n"
    assert "cluster 'shop' no longer runs" in said.err and said.err.count("\n") == 1
    # A moment without its lock is no end: so a cluster starts.
    assert 3.0 <= sum(looks[100:]) <= 10.0


@pytest.mark.parametrize(("tail", "shown"), [("0", "[3]\n[4]\n"), ("1", "[2]\n[3]\n[4]\n")])
def test_following_shows_the_last_lines_asked_for_and_what_is_written_after_the_log_was_bounded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], tail: str, shown: str
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    log = folders.Paths(tmp_path / "carico" / "shop").log("nats")
    log.parent.mkdir(parents=True)
    log.write_text("[1]\n[2]\n")

    def write(text: str) -> None:
        with log.open("a") as file:
            file.write(text)

    def bound() -> None:
        assert processes.bound_log(log, bound_bytes=1)
        write("[4]\n")

    happens = iter((lambda: write("[3]\n"), bound, log.unlink))
    monkeypatch.setattr("time.sleep", lambda _: next(happens)())
    assert carico_cli.run(monkeypatch, "logs", "nats", "-f", "--tail", tail, "--name", "shop") == 0
    assert capsys.readouterr().out == shown


@pytest.mark.parametrize(("words", "instead"), [(("logs", "nats"), "docker compose logs"), (("status",), "top --once")])
def test_the_error_names_what_shows_a_remote_cluster_to_who_has_its_address(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...], instead: str,
) -> None:  # fmt: skip
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("NATS_URL", raising=False)
    assert carico_cli.run(monkeypatch, *words) == 2
    assert capsys.readouterr().err == "carico: no cluster runs on this machine: `carico up` starts one\n"
    monkeypatch.setenv("NATS_URL", "nats://nats-server:4222")
    assert carico_cli.run(monkeypatch, *words) == 2
    said = capsys.readouterr().err
    assert instead in said and said.count("\n") == 1


def test_only_a_command_that_takes_an_address_names_its_flag(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("NATS_URL", raising=False)
    for words, named in ((("top", "--once"), True), (("capacity",), True), (("env",), False), (("down",), False)):
        assert carico_cli.run(monkeypatch, *words) == 2
        said = capsys.readouterr().err
        assert ("; NATS_URL or --nats-url names one elsewhere\n" in said) is named, (words, said)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ((), "got no service, expected one of agent/node-1, nats"),
        (("nast",), "got service 'nast' (nearest: nats), expected one of agent/node-1, nats"),
        (("agent",), "got service 'agent' (nearest: agent/node-1), expected one of agent/node-1, nats"),
        (
            ("web-0",),
            "got service 'web-0', expected one of agent/node-1, nats; the log of a Pod: `carico use shop kubectl logs "
            "web-0`",
        ),
    ],
)
def test_what_is_no_service_gets_those_there_are_and_a_pod_its_own_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str],
    argv: tuple[str, ...], said: str,
) -> None:  # fmt: skip
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    logs = tmp_path / "carico" / "shop" / "logs"
    logs.mkdir(parents=True)
    for name in ("nats", "agent-node-1"):
        (logs / f"{name}.log").write_text("")
    assert carico_cli.run(monkeypatch, "logs", *argv, "--name", "shop") == 2
    assert capsys.readouterr().err == f"carico: {said}\n"
