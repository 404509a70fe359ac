"""The start of an emulated node."""

import errno
import os
import pathlib
from typing import Any

import pytest

from carico_local.node import app
from carico_local.node.runtime import records


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
async def test_a_node_on_a_full_disk_waits_for_room_and_does_not_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, number: int
) -> None:
    failures = [OSError(number, os.strerror(number)) for _ in range(3)]
    write = records.write_json

    def write_json(path: pathlib.Path, document: dict[str, Any]) -> None:
        if failures:
            raise failures.pop()
        write(path, document)

    monkeypatch.setattr(records, "write_json", write_json)
    monkeypatch.setattr(app, "ROOM_EVERY_S", 0.0)
    await app.write_ready(tmp_path / "ready", {"pid": 7})
    assert records.read_json(tmp_path / "ready") == {"pid": 7}
    assert failures == []


async def test_a_ready_file_that_cannot_be_written_at_all_ends_the_node(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError):
        await app.write_ready(tmp_path / "nowhere" / "ready", {})
