"""Log files in the CRI format: cut, rotated, read back."""

import os
import pathlib

import pytest

from carico_local.node.containers import lifecycle
from carico_local.node.reporting import log_server
from carico_local.node.runtime import logs as container_logs

NS = 1_700_000_000_000_000_001


def test_lines_come_back_as_written_and_a_last_one_without_its_end_too(tmp_path: pathlib.Path) -> None:
    log = container_logs.LogFile(tmp_path / "log")
    log.write(b"one\ntw", wall_ns=NS)
    log.write(b"o\n\nthree", wall_ns=NS + 1)
    log.close(wall_ns=NS + 2)
    entries = container_logs.parse((tmp_path / "log").read_bytes())
    assert [entry.text for entry in entries] == [b"one", b"two", b"", b"three"]
    assert [entry.wall_ns for entry in entries] == [NS, NS + 1, NS + 1, NS + 2]


@pytest.mark.parametrize("length", [container_logs.LINE_BYTES, container_logs.LINE_BYTES + 1, 50_000])
def test_long_lines_are_cut_and_shown_whole(tmp_path: pathlib.Path, length: int) -> None:
    log = container_logs.LogFile(tmp_path / "log")
    log.write(b"x" * length, wall_ns=NS)
    log.write(b"\nnext\n", wall_ns=NS)
    log.close(wall_ns=NS)
    entries = container_logs.parse((tmp_path / "log").read_bytes())
    assert b"".join(entry.render(timestamps=False) for entry in entries) == b"x" * length + b"\nnext\n"
    assert container_logs.last_lines(entries, 1)[0].text == b"next"
    assert len(b"".join(entry.text for entry in container_logs.last_lines(entries, 2))) == length + 4


def test_a_log_is_bounded_by_rotation(tmp_path: pathlib.Path) -> None:
    log = container_logs.LogFile(tmp_path / "log", rotate_bytes=500)
    for number in range(100):
        log.write(b"line %d\n" % number, wall_ns=NS)
    log.close(wall_ns=NS)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 1200
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "log.1"]


def test_who_follows_a_log_gets_every_line_across_a_rotation(tmp_path: pathlib.Path) -> None:
    reader = container_logs.LogReader(tmp_path / "log")
    assert list(reader.follow()) == []
    log = container_logs.LogFile(tmp_path / "log", rotate_bytes=200_000)
    lines = [b"line %d" % number for number in range(5000)]
    read = list[bytes]()
    # Between two looks, more is written than is read at once.
    for start in range(0, len(lines), 2000):
        log.write(b"\n".join(lines[start : start + 2000]) + b"\n", wall_ns=NS)
        read += [entry.text for data in reader.follow() for entry in container_logs.parse(data)]
    log.close(wall_ns=NS)
    reader.close()
    assert read == lines
    assert (tmp_path / "log.1").exists()


def test_a_line_with_carriage_returns_is_one_line(tmp_path: pathlib.Path) -> None:
    line = b"10 %\r20 % of it all done\r"
    log = container_logs.LogFile(tmp_path / "log")
    log.write(line + b"\n", wall_ns=NS)
    log.close(wall_ns=NS)
    assert [entry.text for entry in container_logs.parse((tmp_path / "log").read_bytes())] == [line]
    assert container_logs.tail(tmp_path / "log", limit_bytes=100).encode() == line


def test_a_reader_returns_whole_lines_only(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a\nb")
    reader = container_logs.LogReader(path)
    assert reader.read() == b"a\n"
    with path.open("ab") as more:
        more.write(b"c\n")
    assert reader.read() == b"bc\n"
    reader.close()


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_what_a_pod_puts_in_the_place_of_its_message_or_log_is_not_followed(tmp_path: pathlib.Path, kind: str) -> None:
    """A Pod that runs as its node's user could show what the node alone may read, or make the node wait for ever."""
    secret = tmp_path / "token"
    secret.write_text("2023-11-14T22:13:20.000000001Z stdout F secret\n")
    message, log, absent = (tmp_path / name for name in ("message", "log", "absent"))
    for path in (message, log):
        path.symlink_to(secret) if kind == "link" else os.mkfifo(path)
    assert lifecycle.message(message, absent, log_instead=False) == ""
    assert lifecycle.message(absent, log, log_instead=True) == ""
    reader = container_logs.LogReader(log)
    assert reader.read() == b""
    reader.close()


def test_a_message_is_read_and_without_one_the_end_of_the_log(tmp_path: pathlib.Path) -> None:
    message, log = tmp_path / "message", tmp_path / "log"
    log.write_text("2023-11-14T22:13:20.000000001Z stdout F last words\n")
    assert lifecycle.message(message, log, log_instead=True) == "last words"
    message.write_text("why")
    assert lifecycle.message(message, log, log_instead=True) == "why"


def test_queries_are_read_and_bad_ones_refused() -> None:
    found = log_server.parse_query({"tailLines": "3", "follow": "true", "sinceSeconds": "10"}, now_ns=20 * 10**9)
    assert (found.tail_lines, found.follow, found.since_ns) == (3, True, 10 * 10**9)
    with pytest.raises(ValueError, match="many"):
        log_server.parse_query({"tailLines": "many"}, now_ns=0)
